//! What goes wrong, and when: a plan. Pure; it can be printed, and what is printed can be read again.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What goes wrong between a controller and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The process ends after its write is done, before it sees the answer; it is started again.
    CrashBeforeAnswer,
    /// The process ends once it has seen the answer, before it does anything else; it is started again.
    CrashAfterAnswer,
    /// The request does not arrive.
    LoseRequest,
    /// The write is done, the answer does not arrive.
    LoseAnswer,
    /// The write is answered, and done once more after so long.
    Duplicate(Duration),
    /// The write is done after so long, when its sender has given it up.
    Late(Duration),
    /// For so long nothing of this process arrives; then all of it does.
    Freeze(Duration),
    /// Nothing comes from watches for so long, and they stay open.
    Hold(Duration),
    /// Watches break, with what was on its way.
    Cut,
    /// From now on watches, and reads that allow it, are behind by so long. Beyond the patience of an informer with a silent stream
    /// (10 s at first, and longer each time) it takes several streams until one is heard.
    Lag(Duration),
    /// Watches break and cannot be opened for so long; by then history is compacted, and what happened meanwhile is never seen.
    Miss(Duration),
    /// The server cannot be reached for so long.
    Gone(Duration),
    /// For so long every request is refused for load, with a hint when to come again.
    Refuse(Duration),
    /// From now on every answer takes so long.
    Slow(Duration),
    /// The date jumps forward.
    Jump(Duration),
    /// The date jumps back.
    JumpBack(Duration),
}

/// When it happens. All count from 1, over all lives of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// With the k-th write that the controller sends.
    Write(u64),
    /// With the k-th answer of its watches that tells of a change.
    Event(u64),
    /// Before the k-th step of the scenario, which is then followed by the next without waiting.
    Step(u64),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Injection {
    pub fault: Fault,
    pub at: At,
}

/// Faults of one run. The empty plan is a run without any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan(pub Vec<Injection>);

/// A text that is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no fault: write one like `lose-answer@write:3` or `hold(30s)@event:1`")]
pub struct PlanError {
    text: String,
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

impl Fault {
    /// Faults of one write, for [`At::Write`]. The times are beyond a client's patience for one attempt (late), beyond its
    /// patience for a call (gone), and beyond the time of a lease (freeze).
    pub const OF_WRITES: [Self; 12] = [
        Self::CrashBeforeAnswer,
        Self::CrashAfterAnswer,
        Self::LoseRequest,
        Self::LoseAnswer,
        Self::Duplicate(Duration::from_secs(5)),
        Self::Late(Duration::from_secs(30)),
        Self::Freeze(MINUTE),
        Self::Gone(Duration::from_secs(180)),
        Self::Refuse(Duration::from_secs(10)),
        Self::Slow(Duration::from_secs(3)),
        Self::Jump(Duration::from_secs(3600)),
        Self::JumpBack(Duration::from_secs(3600)),
    ];

    /// Faults of watches, for [`At::Event`] and [`At::Step`]. The shorter hold ends before a stream counts as stalled, the longer
    /// one after several were given up.
    pub const OF_WATCHES: [Self; 7] = [
        Self::CrashAfterAnswer,
        Self::Hold(Duration::from_secs(5)),
        Self::Hold(MINUTE),
        Self::Cut,
        Self::Lag(Duration::from_secs(8)),
        Self::Miss(Duration::from_secs(30)),
        Self::Gone(Duration::from_secs(180)),
    ];

    fn parts(self) -> (&'static str, Option<Duration>) {
        match self {
            Self::CrashBeforeAnswer => ("crash-before-answer", None),
            Self::CrashAfterAnswer => ("crash", None),
            Self::LoseRequest => ("lose-request", None),
            Self::LoseAnswer => ("lose-answer", None),
            Self::Duplicate(time) => ("duplicate", Some(time)),
            Self::Late(time) => ("late", Some(time)),
            Self::Freeze(time) => ("freeze", Some(time)),
            Self::Hold(time) => ("hold", Some(time)),
            Self::Cut => ("cut", None),
            Self::Lag(time) => ("lag", Some(time)),
            Self::Miss(time) => ("miss", Some(time)),
            Self::Gone(time) => ("gone", Some(time)),
            Self::Refuse(time) => ("refuse", Some(time)),
            Self::Slow(time) => ("slow", Some(time)),
            Self::Jump(time) => ("jump", Some(time)),
            Self::JumpBack(time) => ("jump-back", Some(time)),
        }
    }

    fn of(name: &str, time: Option<Duration>) -> Option<Self> {
        let timed = [
            Self::Duplicate as fn(Duration) -> Self,
            Self::Late,
            Self::Freeze,
            Self::Hold,
            Self::Lag,
            Self::Miss,
            Self::Gone,
            Self::Refuse,
            Self::Slow,
            Self::Jump,
            Self::JumpBack,
        ];
        let plain =
            [Self::CrashBeforeAnswer, Self::CrashAfterAnswer, Self::LoseRequest, Self::LoseAnswer, Self::Cut];
        match time {
            Some(time) => timed.into_iter().map(|make| make(time)).find(|it| it.parts().0 == name),
            None => plain.into_iter().find(|it| it.parts().0 == name),
        }
    }

    /// Whether it needs a write to happen to.
    pub fn is_of_one_write(self) -> bool {
        use Fault::{CrashBeforeAnswer, Duplicate, Late, LoseAnswer, LoseRequest};
        matches!(self, CrashBeforeAnswer | LoseRequest | LoseAnswer | Duplicate(_) | Late(_))
    }
}

impl Plan {
    pub fn one(fault: Fault, at: At) -> Self {
        Self(vec![Injection { fault, at }])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same without one of its faults, in every way. Smaller plans tell more.
    pub fn smaller(&self) -> impl Iterator<Item = Self> {
        (0..self.0.len()).map(|left_out| {
            let keep = |(place, it): (usize, &Injection)| (place != left_out).then_some(*it);
            Self(self.0.iter().enumerate().filter_map(keep).collect())
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (name, None) => f.write_str(name),
            (name, Some(time)) if time.subsec_nanos() == 0 => write!(f, "{name}({}s)", time.as_secs()),
            (name, Some(time)) => write!(f, "{name}({}ms)", time.as_millis()),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(number) => write!(f, "write:{number}"),
            Self::Event(number) => write!(f, "event:{number}"),
            Self::Step(number) => write!(f, "step:{number}"),
        }
    }
}

/// `lose-answer@write:3 + hold(30s)@event:1`
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no faults");
        }
        for (place, Injection { fault, at }) in self.0.iter().enumerate() {
            write!(f, "{}{fault}@{at}", if place == 0 { "" } else { " + " })?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text.trim().is_empty() || text.trim() == "no faults" {
            return Ok(Self::default());
        }
        let read =
            |part: &str| injection(part.trim()).ok_or_else(|| PlanError { text: part.trim().to_owned() });
        text.split('+').map(read).collect::<Result<_, _>>().map(Self)
    }
}

fn injection(text: &str) -> Option<Injection> {
    let (fault, at) = text.split_once('@')?;
    let fault = match fault.split_once('(') {
        Some((name, time)) => Fault::of(name, Some(duration(time.strip_suffix(')')?)?)),
        None => Fault::of(fault, None),
    }?;
    let (what, number) = at.split_once(':')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    let at = match what {
        "write" => At::Write(number),
        "event" => At::Event(number),
        "step" => At::Step(number),
        _ => return None,
    };
    (matches!(at, At::Write(_)) || !fault.is_of_one_write()).then_some(Injection { fault, at })
}

fn duration(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(millis) => millis.parse().ok().map(Duration::from_millis),
        None => text.strip_suffix('s')?.parse().ok().map(|seconds: u32| SECOND * seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_was_printed_is_read_as_the_same() {
        let mut all = Vec::new();
        for (number, fault) in (1..).zip(Fault::OF_WRITES) {
            all.push(Injection { fault, at: At::Write(number) });
        }
        for (number, fault) in (1..).zip(Fault::OF_WATCHES) {
            all.push(Injection { fault, at: At::Event(number) });
            all.push(Injection { fault, at: At::Step(number) });
        }
        all.push(Injection { fault: Fault::Hold(Duration::from_millis(1_500)), at: At::Event(1) });
        for plan in [Plan::default(), Plan(all.clone()), Plan(all[..1].to_vec())] {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
    }

    #[test]
    fn what_is_no_plan_is_refused_with_its_text() {
        for text in
            ["crash", "crash@write:0", "hold@event:1", "cut(3s)@event:1", "late(3s)@event:1", "x@write:1"]
        {
            let error = text.parse::<Plan>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn smaller_plans_lack_one_fault_each() {
        let plan: Plan = "cut@event:1 + crash@write:2".parse().expect("a plan");
        let smaller: Vec<String> = plan.smaller().map(|it| it.to_string()).collect();
        assert_eq!(smaller, ["crash@write:2", "cut@event:1"]);
    }
}
