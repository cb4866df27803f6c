//! Whose request it is, as far as sharing is concerned.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::principal::{Class, Principal};

/// Among whom seats, streams and watches are shared out. Cheap to clone, without a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKey {
    /// Somebody who has proved who they are.
    Principal(Arc<str>),
    /// Somebody who has not, by where they come from.
    Address(IpAddr),
}

impl FlowKey {
    pub fn of(principal: Option<&Principal>, address: Option<IpAddr>) -> Self {
        match principal {
            Some(principal) if principal.class() != Class::Anonymous => Self::Principal(principal.shared()),
            _ => Self::Address(network(address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))),
        }
    }
}

/// Hosts have as many addresses of IPv6 as they like, but usually one network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_unknown_shares_with_their_network() {
        let of = |address: &str| FlowKey::of(None, Some(address.parse().expect("an address")));
        let anonymous = Principal::anonymous();
        let address = "10.0.0.1".parse().ok();
        assert_eq!(of("10.0.0.1"), FlowKey::of(Some(&anonymous), address));
        assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    #[test]
    fn who_is_known_is_the_same_wherever_they_come_from() {
        let jane = Principal::new("jane", []).expect("a name");
        let from = |address: &str| FlowKey::of(Some(&jane), address.parse().ok());
        assert_eq!(from("10.0.0.1"), from("10.0.0.2"));
    }
}
