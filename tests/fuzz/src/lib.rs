//! Random input for everything that decodes, parses or merges what others sent.
//!
//! A target takes any bytes and panics if a property does not hold; that nothing else panics, hangs or takes memory without
//! a bound is a property of all of them. `scripts/fuzz` runs them under libFuzzer (`tests/fuzz.rs`), which looks for inputs that
//! take new branches. `corpus` has what every run begins with, a folder per target: examples, and each input that once
//! broke something. `tests/corpus.rs` replays them in ordinary test runs.
//!
//! Not here: requests as a whole, over the wire (`tests/cluster`); what generated code decodes by itself.

mod access;
mod admission;
mod backup;
mod consensus;
mod input;
mod lists;
mod merge;
mod objects;
mod store;
mod text;
mod wire;
mod writes;

/// A target's name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: &[Target] = &[
    ("apply_merge", merge::apply_merge),
    ("backup", backup::unpack),
    ("cel", admission::expression),
    ("certificate", access::certificate),
    ("continue_token", lists::continue_token),
    ("credentials", access::credentials),
    ("field_paths", text::field_paths),
    ("json", objects::json),
    ("kind_definition", admission::kind_definition),
    ("log_records", consensus::log_records),
    ("names", text::names),
    ("patch", objects::patch),
    ("peer_messages", consensus::peer_messages),
    ("policy", admission::policy),
    ("quantities", text::quantities),
    ("raw_object", wire::raw_object),
    ("selectors", text::selectors),
    ("status_details", wire::status_details),
    ("store_command", store::command),
    ("store_rows", store::rows),
    ("token_file", access::token_file),
    ("typed_objects", writes::typed_objects),
];
