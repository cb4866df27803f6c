//! Trace context of W3C: the `traceparent` header, read, written, and carried from a revision to the run that it woke.
//!
//! The server keeps of a request's header the trace id, in the author of the revision (`Author::trace`). A run that the revision
//! woke goes on in the same trace, with a span of its own; its writes carry that, so that the trace id passes through any number
//! of controllers. Which span wrote the revision is not kept: within a trace, runs are siblings, told apart by their revisions.
//!
//! Not here: exporting spans. `tracestate` is neither read nor sent.

use std::fmt;
use std::str::FromStr;

use setpoint_client::Entropy;
use setpoint_types::object::Author;

/// The version we write.
const VERSION: &str = "00";
const SAMPLED: u8 = 1;

/// A trace: everything that followed from one cause. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

/// One piece of work in a trace. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

/// Where in which trace a piece of work is.
///
/// **Guarantees**: what is printed is a `traceparent` that every reader of the standard takes, and reads back as the same.
/// **Does not promise** to keep what a later version of the standard adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: TraceId,
    pub span: SpanId,
    /// Whoever asked records it, so the rest should be recorded, too.
    pub sampled: bool,
}

/// A text that is no `traceparent`, or no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no trace context: expected {expected}")]
pub struct BadTrace {
    expected: &'static str,
}

impl TraceContext {
    /// A trace that begins here.
    pub fn root(entropy: &Entropy) -> Self {
        let bits = u128::from(entropy.draw()) << 64 | u128::from(entropy.draw());
        // Zero is no id; it is drawn once in 2^128 times, and any other number is as good.
        Self { trace: TraceId(bits.max(1)), span: SpanId::draw(entropy), sampled: true }
    }

    /// Another piece of work in the same trace.
    #[must_use]
    pub fn child(&self, entropy: &Entropy) -> Self {
        Self { span: SpanId::draw(entropy), ..*self }
    }

    /// A piece of work in a trace of which only the id is known. Counts as recorded: somebody thought it worth to be named.
    pub fn within(trace: TraceId, entropy: &Entropy) -> Self {
        Self { trace, span: SpanId::draw(entropy), sampled: true }
    }

    /// Of a run: in the trace of the revision that woke it, or in one of its own if that was part of none, or if nobody knows
    /// which revision it was.
    pub fn of_run(woken_by: Option<&Author>, entropy: &Entropy) -> Self {
        let trace = woken_by.and_then(|author| author.trace.as_deref()).and_then(|id| id.parse().ok());
        trace.map_or_else(|| Self::root(entropy), |trace| Self::within(trace, entropy))
    }
}

impl SpanId {
    fn draw(entropy: &Entropy) -> Self {
        Self(entropy.draw().max(1))
    }
}

/// The header: `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.sampled { SAMPLED } else { 0 };
        write!(f, "{VERSION}-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

/// Of this version or a later one, of which the beginning is read as the standard says.
impl FromStr for TraceContext {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<Self, BadTrace> {
        let mut parts = text.split('-');
        let mut next = || parts.next().unwrap_or_default();
        let (version, trace, span, flags) = (next(), next(), next(), next());
        let version = number(version, 2, "two digits of a version")?;
        if version == 0xff {
            return Err(BadTrace { expected: "a version below ff" });
        }
        if version == 0 && parts.next().is_some() {
            return Err(BadTrace { expected: "nothing after the flags" });
        }
        let flags = number(flags, 2, "two digits of flags")?;
        let sampled = flags & u128::from(SAMPLED) != 0;
        Ok(Self { trace: trace.parse()?, span: span.parse()?, sampled })
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for TraceId {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<Self, BadTrace> {
        let id = number(text, 32, "32 digits of a trace, not all 0")?;
        if id == 0 { Err(BadTrace { expected: "32 digits of a trace, not all 0" }) } else { Ok(Self(id)) }
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for SpanId {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<Self, BadTrace> {
        const EXPECTED: &str = "16 digits of a span, not all 0";
        let id = u64::try_from(number(text, 16, EXPECTED)?).map_err(|_| BadTrace { expected: EXPECTED })?;
        if id == 0 { Err(BadTrace { expected: EXPECTED }) } else { Ok(Self(id)) }
    }
}

/// Exactly so many digits, in lower case as the standard wants them.
fn number(text: &str, digits: usize, expected: &'static str) -> Result<u128, BadTrace> {
    let fits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != digits || !text.bytes().all(fits) {
        return Err(BadTrace { expected });
    }
    u128::from_str_radix(text, 16).map_err(|_| BadTrace { expected })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_header_of_the_standard_is_read_and_written() {
        let context: TraceContext = HEADER.parse().expect("the standard's own example");
        assert!(context.sampled);
        assert_eq!(context.to_string(), HEADER);
        let later = format!("{}-what-comes-later", HEADER.replacen("00", "cc", 1));
        assert_eq!(later.parse(), Ok(context), "a later version is read as far as it is known");
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let zeros = "0".repeat(32);
        for bad in [
            String::new(),
            "00".into(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{zeros}-{span}-01"),
            format!("00-{trace}-{}-01", &zeros[..16]),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-1"),
            format!("00-{trace}-{span}-01-more"),
            format!("0-{trace}-{span}-01"),
            format!("00-{trace}+{span}-01"),
        ] {
            assert!(bad.parse::<TraceContext>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_run_goes_on_in_the_trace_of_the_revision_that_woke_it() {
        let entropy = Entropy::seeded(1);
        let root = TraceContext::root(&entropy);
        // What the server keeps of the header.
        let author = Author { trace: Some(root.trace.to_string()), ..Author::default() };
        let run = TraceContext::of_run(Some(&author), &entropy);
        assert_eq!(run.trace, root.trace);
        assert_ne!(run.span, root.span);
        assert_ne!(run.child(&entropy).span, run.span);
        for none in [None, Some(&Author::default()), Some(&Author { trace: Some("x".into()), ..author })] {
            assert_ne!(TraceContext::of_run(none, &entropy).trace, root.trace);
        }
    }

    proptest! {
        #[test]
        fn every_context_reads_back_as_the_same(seed: u64, sampled: bool) {
            let context = TraceContext { sampled, ..TraceContext::root(&Entropy::seeded(seed)) };
            prop_assert_eq!(context.to_string().parse(), Ok(context));
        }

        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,80}") {
            let _ = text.parse::<TraceContext>();
        }
    }
}
