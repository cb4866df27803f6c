//! JSON Schemas of kinds: made from the Rust types, and used to check.
//!
//! What is understood is the part of JSON Schema that `generate` produces: types, properties, required, items, maps, enums,
//! bounds, formats, defaults, and the words beginning with `x-setpoint-`. Schemas of users' own kinds may use all of JSON
//! Schema; they are checked by the crate `admission`.

mod check;
mod format;
mod generate;

pub use check::Check;
pub use format::{TEXT_FORMATS, check_text};
pub use generate::{metadata_schema, schema_of};

/// How a list is merged and owned: `map`, `set` or `atomic`. Atomic if it is missing.
pub const LIST_TYPE: &str = "x-setpoint-list-type";
/// Which fields tell the elements of a list of type `map` apart.
pub const LIST_MAP_KEYS: &str = "x-setpoint-list-map-keys";
/// How a map is merged and owned: `granular` or `atomic`. Granular if it is missing.
pub const MAP_TYPE: &str = "x-setpoint-map-type";
/// Fields the schema does not name are kept.
pub const PRESERVE_UNKNOWN: &str = "x-setpoint-preserve-unknown";
/// The field keeps the value it was created with.
pub const IMMUTABLE: &str = "x-setpoint-immutable";
