//! How reads go about it, seen from the engine below them: how much they touch, and what they do when a compaction
//! overtakes them. What they answer otherwise, `model` compares.

mod bounded;
mod overtaken;
mod watched;
