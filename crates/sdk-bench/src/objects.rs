//! The objects both sides take in: the same names, labels, owners and specs, in each protocol's encoding.

/// How many.
pub const OBJECTS: usize = 100_000;
/// Changes after the initial state.
pub const EVENTS: usize = 200_000;
/// The size of each, about.
pub const BYTES: usize = 2048;
/// Keys of the queue belong to so many.
pub const TENANTS: usize = 100;

/// One object, before it is encoded.
pub struct Draft {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub owner: String,
    pub app: String,
    pub node: String,
    pub filler: String,
}

impl Draft {
    /// The number decides everything.
    pub fn new(number: usize) -> Self {
        Self {
            namespace: format!("tenant-{}", number % TENANTS),
            name: format!("object-{number}"),
            uid: format!("00000000-0000-4000-8000-{number:012}"),
            owner: format!("00000000-0000-4000-9000-{:012}", number / 10),
            app: format!("a{}", number % 50),
            node: format!("n{}", number % 1000),
            filler: "x".repeat(BYTES - 300),
        }
    }
}
