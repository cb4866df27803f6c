//! What users' expressions and schemas may cost, in one place.
//!
//! Whoever may define a kind or a policy decides what every later write has to evaluate, and whoever writes objects decides
//! what it is evaluated on. Neither may stop a server, so everything has a bound: here, or in `cel::meter`, which counts.

/// Of one expression's text. Long enough for a page of rules; the parser's time grows faster than its input.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// Nodes of one expression after macros are expanded.
pub const EXPRESSION_NODES_MAX: usize = 1024;

/// How deep an expression may nest once it is parsed. Evaluation recurses, so this is what bounds its stack:
/// `tests/hostile.rs` evaluates the deepest one on 1 MiB, half of what a worker thread has.
pub const EXPRESSION_DEPTH_MAX: usize = 48;

/// What the parser counts as nesting: brackets and the right sides of `?:`.
pub const PARSER_DEPTH_MAX: u16 = 48;

/// For the parser, which recurses along chains such as `a.a.a` before their depth is known. Only touched pages cost memory.
pub const PARSER_STACK_BYTES: usize = 64 << 20;

/// One evaluation, in the units of `cel::meter`: about one small value looked at or copied. A tenth of a second at worst.
pub const EVALUATION_COST_MAX: u64 = 1_000_000;

/// All evaluations for one write.
pub const REQUEST_COST_MAX: u64 = 10_000_000;

/// Of a compiled regular expression. Enough for a few Unicode classes; bounds the time per byte of text.
pub const REGEX_BYTES_MAX: usize = 128 << 10;

/// Of a regular expression's text.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Compiled patterns kept per thread, since a rule meets the same one over and over.
pub const PATTERNS_KEPT_MAX: usize = 32;

/// Of a schema's text.
pub const SCHEMA_BYTES_MAX: usize = 256 << 10;

/// Schemas inside a schema, after references are replaced by what they name.
pub const SCHEMA_NODES_MAX: usize = 4096;

/// How deep a schema may nest.
pub const SCHEMA_DEPTH_MAX: usize = 40;

/// Schemas below `anyOf` and its like. Each may be tried on the same value, so they multiply a validation's time.
pub const SCHEMA_ALTERNATIVES_MAX: usize = 256;

/// Rules of one kind, wherever they are attached.
pub const RULES_MAX: usize = 256;

/// Literal patterns of one expression.
pub const EXPRESSION_PATTERNS_MAX: usize = 16;

/// Literal patterns of one kind or policy, in its schema and its expressions. Each takes about a millisecond to compile,
/// on every node.
pub const PATTERNS_MAX: usize = 128;

/// Columns of one kind.
pub const COLUMNS_MAX: usize = 32;

/// Selectable fields of one kind: each is an index to keep.
pub const SELECTABLE_FIELDS_MAX: usize = 8;

/// Problems reported for one object. Whoever has a hundred wants to see the first ones.
pub const PROBLEMS_MAX: usize = 100;

/// Expressions of one policy, of all sorts together.
pub const POLICY_EXPRESSIONS_MAX: usize = 128;

/// Steps of a JSON patch that a mutation may yield.
pub const PATCH_STEPS_MAX: usize = 256;

/// Of an object while policies change it. More than an object may have, so that the last word on its size is elsewhere.
pub const MUTATED_BYTES_MAX: usize = 4 << 20;

/// How deep an object may nest after policies changed it. What is stored must be readable, and readers stop at 128.
pub const MUTATED_DEPTH_MAX: usize = 100;

/// Of a message that a user's expression made, or of an error's text. Both may quote what they looked at.
pub const MESSAGE_BYTES_MAX: usize = 512;
