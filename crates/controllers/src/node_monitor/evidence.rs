//! What is heard of a node, and what that is worth. Pure.

use std::time::Duration;

use setpoint_types::kinds::{Node, NodeStatus, Taint};
use setpoint_types::object::{ConditionStatus, Evidence, find_condition};
use setpoint_types::{Epoch, Revision, Timestamp};

use setpoint_client::Typed;

use super::settings::NodeMonitorSettings;
use super::signals::Signal;
use super::{OUT_OF_SERVICE, REACHABLE};

/// Of the condition `Reachable`, while keep-alives are late.
pub const LATE: &str = "HeartbeatLate";

/// The lease of a node, as the cache has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSeen {
    pub hold: Hold,
    /// Of the Lease object; none if there is none.
    pub revision: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nobody ever held it.
    Never,
    Held {
        epoch: Epoch,
        ttl: Duration,
    },
    /// It ran out, or was given back.
    Ended {
        at: Timestamp,
    },
}

/// What the leader says of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    pub epoch: Epoch,
    /// Of its time, when the leader was asked.
    pub remaining: Duration,
    /// How long ago that was.
    pub age: Duration,
}

impl Pulse {
    /// How long ago the last keep-alive came. A new leader begins with the whole time for every lease, so that its first moments make
    /// nobody late.
    fn silence(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.remaining) + self.age
    }
}

/// A signal, with what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub signal: Signal,
    pub evidence: Evidence,
}

/// After how much silence a keep-alive is late.
pub fn late_after(ttl: Duration, settings: &NodeMonitorSettings) -> Duration {
    ttl * settings.late_percent / 100
}

/// How long until a keep-alive could be late; none if that cannot be told.
pub fn until_late(
    lease: &LeaseSeen,
    pulse: Option<&Pulse>,
    settings: &NodeMonitorSettings,
) -> Option<Duration> {
    let Hold::Held { epoch, ttl } = lease.hold else { return None };
    let pulse = pulse.filter(|pulse| pulse.epoch == epoch)?;
    Some(late_after(ttl, settings).saturating_sub(pulse.silence(ttl)))
}

/// Every signal there is of a node.
pub fn findings(
    node: &Typed<Node>,
    lease: &LeaseSeen,
    pulse: Option<&Pulse>,
    now: Timestamp,
    settings: &NodeMonitorSettings,
) -> Vec<Finding> {
    let lease_finding = match lease.hold {
        Hold::Held { epoch, ttl } => late(node, epoch, ttl, pulse, now, settings),
        Hold::Ended { at } => Some(expired("not held", at, lease.revision)),
        Hold::Never => None,
    };
    let status = node.status.as_ref();
    let own = status.and_then(|status| not_ready(status, node.metadata.revision));
    let word = node.spec.taints.iter().find(|taint| taint.key == OUT_OF_SERVICE);
    let word = word.map(|taint| out_of_service(taint, node.metadata.revision, now));
    lease_finding.into_iter().chain(own).chain(word).collect()
}

/// The lease is over.
pub fn expired(value: &str, at: Timestamp, revision: Revision) -> Finding {
    let evidence = Evidence { signal: "lease".to_owned(), value: value.to_owned(), time: at, revision };
    Finding { signal: Signal::LeaseExpired, evidence }
}

/// Late by what the leader says. What it cannot be asked about stays as it was said to be: a leader that is away makes nobody late, and
/// nobody well.
fn late(
    node: &Typed<Node>,
    epoch: Epoch,
    ttl: Duration,
    pulse: Option<&Pulse>,
    now: Timestamp,
    settings: &NodeMonitorSettings,
) -> Option<Finding> {
    let Some(pulse) = pulse.filter(|pulse| pulse.epoch == epoch) else {
        let conditions = node.status.as_ref().map(|it| it.conditions.as_slice()).unwrap_or_default();
        let said = find_condition(conditions, REACHABLE).filter(|it| it.reason == LATE)?;
        let evidence = said.evidence.first()?.clone();
        return Some(Finding { signal: Signal::LeaseLate, evidence });
    };
    let silence = pulse.silence(ttl);
    (silence > late_after(ttl, settings)).then(|| Finding {
        signal: Signal::LeaseLate,
        evidence: Evidence {
            signal: "heartbeat".to_owned(),
            // No number that grows: what is said again is not written again.
            value: format!("none for more than {} s", late_after(ttl, settings).as_secs()),
            time: Timestamp(now.0.saturating_sub(u64::try_from(silence.as_millis()).unwrap_or(u64::MAX))),
            revision: Revision::NONE,
        },
    })
}

fn not_ready(status: &NodeStatus, revision: Revision) -> Option<Finding> {
    let ready =
        find_condition(&status.conditions, "Ready").filter(|it| it.status == ConditionStatus::False)?;
    let (value, time) = (ready.reason.clone(), ready.last_transition);
    let evidence = Evidence { signal: "agent".to_owned(), value, time, revision };
    Some(Finding { signal: Signal::AgentNotReady, evidence })
}

fn out_of_service(taint: &Taint, revision: Revision, now: Timestamp) -> Finding {
    let evidence = Evidence {
        signal: "administrator".to_owned(),
        value: OUT_OF_SERVICE.to_owned(),
        time: taint.since.unwrap_or(now),
        revision,
    };
    Finding { signal: Signal::OutOfService, evidence }
}

#[cfg(test)]
mod tests {
    use setpoint_runtime::conditions::Statement;
    use setpoint_types::Generation;

    use super::*;

    const TTL: Duration = Duration::from_secs(40);

    fn held() -> LeaseSeen {
        LeaseSeen { hold: Hold::Held { epoch: Epoch(3), ttl: TTL }, revision: Revision::new(7) }
    }

    fn pulse(remaining: u64, age: u64) -> Pulse {
        Pulse { epoch: Epoch(3), remaining: Duration::from_secs(remaining), age: Duration::from_secs(age) }
    }

    fn signals(node: &Typed<Node>, lease: &LeaseSeen, pulse: Option<Pulse>) -> Vec<Signal> {
        let found = findings(node, lease, pulse.as_ref(), Timestamp(90_000), &NodeMonitorSettings::default());
        found.into_iter().map(|it| it.signal).collect()
    }

    #[test]
    fn a_heartbeat_is_late_after_half_of_the_lease_and_a_new_leader_makes_none_late() {
        let node = Typed::<Node>::new("a1", Default::default());
        assert_eq!(signals(&node, &held(), Some(pulse(20, 0))), []);
        assert_eq!(signals(&node, &held(), Some(pulse(19, 0))), [Signal::LeaseLate]);
        assert_eq!(signals(&node, &held(), Some(pulse(22, 3))), [Signal::LeaseLate]);
        // What a new leader says: the whole time is left.
        assert_eq!(signals(&node, &held(), Some(pulse(40, 0))), []);
        // Of another holder nothing follows.
        assert_eq!(signals(&node, &held(), Some(Pulse { epoch: Epoch(2), ..pulse(0, 0) })), []);
        let ended = LeaseSeen { hold: Hold::Ended { at: Timestamp(5) }, revision: Revision::new(8) };
        assert_eq!(signals(&node, &ended, None), [Signal::LeaseExpired]);
    }

    #[test]
    fn while_the_leader_cannot_be_asked_what_was_said_stays() {
        let mut node = Typed::<Node>::new("a1", Default::default());
        assert_eq!(signals(&node, &held(), None), []);
        let said = Statement::unknown(REACHABLE, LATE).evidence(Evidence::default());
        let conditions = vec![said.at(Generation(1), Timestamp(1))];
        node.status = Some(NodeStatus { conditions, ..NodeStatus::default() });
        assert_eq!(signals(&node, &held(), None), [Signal::LeaseLate]);
        assert_eq!(signals(&node, &held(), Some(pulse(35, 0))), []);
    }
}
