//! What the leases of a controller are called.
//!
//! The number of shards is part of every name. So processes that were configured with different numbers do not take each
//! other's leases for their own, and each sees by the names alone that there are others.

use std::fmt;

use setpoint_types::names::check_dns_label;

use super::shard::ShardId;

/// Members of a controller at a time. A slot is a lease, and there are no more of them.
pub const MEMBERS_MAX: u32 = 256;

/// The number of a member lease. A process takes the first that is free, so that there are never more leases than there were
/// members at a time, and nothing has to be cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// How many shards there are, as one process or another was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout(pub u32);

/// One lease of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    Member(Slot),
    Shard(ShardId),
}

/// The names of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    controller: String,
}

/// A controller whose name does not make names of leases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be the name of a controller: {problem}")]
pub struct BadName {
    pub name: String,
    pub problem: &'static str,
}

impl Names {
    /// A name has no dots, so that no two controllers share the name of a lease.
    pub fn new(controller: &str) -> Result<Self, BadName> {
        check_dns_label(controller).map_err(|problem| BadName { name: controller.to_owned(), problem })?;
        Ok(Self { controller: controller.to_owned() })
    }

    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// `web.shard-0-of-6`, `web.member-3-of-6`
    pub fn lease(&self, which: Which, layout: Layout) -> String {
        let (part, number) = match which {
            Which::Member(slot) => ("member", slot.0),
            Which::Shard(shard) => ("shard", shard.0),
        };
        format!("{}.{part}-{number}-of-{}", self.controller, layout.0)
    }

    /// What a lease of that name is to this controller; nothing, if it is not one of its own.
    pub fn read(&self, lease: &str) -> Option<(Which, Layout)> {
        let rest = lease.strip_prefix(self.controller.as_str())?.strip_prefix('.')?;
        let (part, rest) = rest.split_once('-')?;
        let (number, layout) = rest.split_once("-of-")?;
        let (number, layout) = (plain(number)?, plain(layout)?);
        let which = match part {
            "member" if number < MEMBERS_MAX => Which::Member(Slot(number)),
            "shard" if number < layout => Which::Shard(ShardId(number)),
            _ => return None,
        };
        Some((which, Layout(layout)))
    }
}

/// A number as it is written here: nobody else's spelling of the same counts as the same lease.
fn plain(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(slot) => write!(f, "member {}", slot.0),
            Self::Shard(shard) => write!(f, "shard {shard}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_what_it_was_written_for() {
        let names = Names::new("web").expect("a name");
        for which in [Which::Member(Slot(0)), Which::Member(Slot(255)), Which::Shard(ShardId(5))] {
            let name = names.lease(which, Layout(6));
            assert_eq!(names.read(&name), Some((which, Layout(6))), "{name}");
        }
    }

    #[test]
    fn what_is_not_ours_is_nothing() {
        let names = Names::new("web").expect("a name");
        for other in [
            "web",
            "web.",
            "web-2.shard-0-of-1",
            "web.shard-6-of-6",
            "web.shard-00-of-6",
            "web.shard-+1-of-6",
            "web.member-256-of-1",
            "web.shard-0-of-0",
            "web.other-0-of-1",
            "web.shard-0",
            "we.shard-0-of-1",
        ] {
            assert_eq!(names.read(other), None, "{other}");
        }
        assert!(Names::new("web.shard").is_err(), "it would have the leases of another controller");
    }
}
