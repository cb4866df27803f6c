//! What is measured, and what is asked of each figure.

/// One piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Bytes of a watch become a cache.
    Ingest,
    /// Keys are added, taken and finished.
    Queue,
    /// A controller starts over all objects, and something new comes.
    Restart,
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ours,
    Kube,
}

/// A figure's name, how it is shown, and what is asked of ours.
pub struct Figure {
    pub name: &'static str,
    pub title: &'static str,
    pub asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    AtLeast(f64),
    AtMost(f64),
    /// Shown only.
    Nothing,
}

impl Asked {
    pub fn is_met(self, ours: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(ours >= least),
            Self::AtMost(most) => Some(ours <= most),
            Self::Nothing => None,
        }
    }
}

impl Row {
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Queue, Self::Restart];

    pub fn id(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Queue => "queue",
            Self::Restart => "restart",
        }
    }

    /// Whether the same can be asked of the peer. Its controller has no order between what is new and what was there.
    pub fn has_peer(self) -> bool {
        self != Self::Restart
    }

    pub fn figures(self) -> &'static [Figure] {
        match self {
            Self::Ingest => &[
                Figure {
                    name: "initial",
                    title: "objects/s and core of the initial state, 100,000 × 2 KiB",
                    asked: Asked::Nothing,
                },
                Figure {
                    name: "events",
                    title: "events/s and core after it",
                    asked: Asked::AtLeast(200_000.0),
                },
                Figure {
                    name: "memory",
                    title: "memory, relative to the encoded objects",
                    asked: Asked::AtMost(1.3),
                },
            ],
            Self::Queue => &[Figure {
                name: "cycles",
                title: "add, get and done/s and core, 100,000 keys",
                asked: Asked::AtLeast(1_000_000.0),
            }],
            Self::Restart => &[
                Figure {
                    name: "restart",
                    title: "seconds from sync over 100,000 objects to the first reconcile of one that comes 0.25 s later",
                    asked: Asked::AtMost(1.0),
                },
                Figure {
                    name: "before",
                    title: "of the 100,000, reconciled before it",
                    asked: Asked::Nothing,
                },
            ],
        }
    }
}

impl Side {
    pub const ALL: [Self; 2] = [Self::Ours, Self::Kube];

    pub fn id(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Kube => "kube",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_nothing_asked_is_never_missed() {
        assert_eq!(Asked::AtLeast(2.0).is_met(2.0), Some(true));
        assert_eq!(Asked::AtLeast(2.0).is_met(1.9), Some(false));
        assert_eq!(Asked::AtMost(1.3).is_met(1.3), Some(true));
        assert_eq!(Asked::AtMost(1.3).is_met(1.31), Some(false));
        assert_eq!(Asked::Nothing.is_met(0.0), None);
    }
}
