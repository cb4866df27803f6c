//! To whom the console shows data, given how the client port is guarded. The HTTP port is not encrypted and sees no certificates, so
//! it must not show what the client port keeps.

use std::net::IpAddr;

use crate::config::ServerTls;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// To whom the client port would show it, too.
    Everybody,
    /// Over this machine's own addresses: what leaves it is encrypted, so tokens and objects are not sent in the clear.
    Loopback,
    /// Clients need a certificate, which nobody can show here.
    Nobody,
}

impl Exposure {
    pub fn of(client_tls: Option<&ServerTls>, roles: bool) -> Self {
        match client_tls {
            None => Self::Everybody,
            Some(tls) if tls.client_ca.is_some() && !roles => Self::Nobody,
            Some(_) => Self::Loopback,
        }
    }

    /// Why somebody at this address is shown nothing.
    pub fn refuses(self, from: Option<IpAddr>) -> Option<&'static str> {
        let near = from.is_some_and(|address| address.to_canonical().is_loopback());
        match self {
            Self::Everybody => None,
            Self::Loopback if near => None,
            Self::Loopback => Some(
                "clients of this cluster use TLS, and this port does not; come by way of the node itself: ssh -L \
                 7402:127.0.0.1:7402 NODE, then http://127.0.0.1:7402/console/",
            ),
            Self::Nobody => Some(
                "clients of this cluster need a certificate, which cannot be shown here; start the nodes with --access \
                 roles and a token file, and use a token",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_shows_nothing_that_the_client_port_would_keep() {
        let tls = |ca: bool| ServerTls {
            cert: "c".into(),
            key: "k".into(),
            client_ca: ca.then(|| "ca".into()),
            client_auth_optional: false,
        };
        let (near, far) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([10, 0, 0, 1]));
        let shown = |tls: Option<&ServerTls>, roles| {
            let exposure = Exposure::of(tls, roles);
            [near, far].map(|from| exposure.refuses(Some(from)).is_none())
        };
        assert_eq!(shown(None, false), [true, true]);
        assert_eq!(shown(None, true), [true, true]);
        assert_eq!(shown(Some(&tls(false)), false), [true, false]);
        assert_eq!(shown(Some(&tls(true)), true), [true, false]);
        assert_eq!(shown(Some(&tls(true)), false), [false, false]);
        assert!(Exposure::Loopback.refuses(None).is_some(), "who is nowhere is not near");
    }
}
