//! How urgent a key is.

/// How urgent it is to look at a key. A more urgent level goes first, except that no level is passed over for ever:
/// `ageing_gets` says how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Somebody waits for it: a repair before a clean-up.
    Urgent,
    /// Something has changed.
    #[default]
    Normal,
    /// One of very many, of which probably nothing has changed: the initial state, a resync.
    Bulk,
}

/// From the most urgent on.
pub const PRIORITIES: [Priority; LEVELS] = [Priority::Urgent, Priority::Normal, Priority::Bulk];

/// How many levels there are.
pub const LEVELS: usize = 3;

impl Priority {
    /// The more urgent of the two.
    pub fn urgent_of(self, other: Self) -> Self {
        self.min(other)
    }

    /// As metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Normal => "normal",
            Self::Bulk => "bulk",
        }
    }

    pub(super) fn level(self) -> usize {
        self as usize
    }
}
