//! Whether this node leads, as of now: a quorum's pledges, and what was committed by then.
//!
//! A leader of term T may answer a read that began at some moment if, after that moment, each node of a quorum says that
//! it has voted for no term above T. Then no later leader was elected before the moment, so everything acknowledged by
//! then was committed by this leader or before it, and lies at or below what this leader has let out as committed. The
//! argument in full, and why nothing of it rests on clocks: docs/adr/0006 (invariant S18).
//!
//! Voters pledge when they are asked over their forward streams (`Confirm`), or unasked with a question of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_types::NodeId;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::error::CallError;
use crate::forward;
use crate::log::Pledge;
use crate::node::{Route, Status};
use crate::state::Progress;

/// How often a round that waits looks again: for a stream with room, a fresh membership, a first commit of the term.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Where a voter is asked.
type Voice = mpsc::WeakSender<proto::ForwardReply>;

pub struct Authority {
    pub own: NodeId,
    pub pledge: Arc<Pledge>,
    pub progress: Arc<Progress>,
    pub route: watch::Receiver<Route>,
    pub status: watch::Receiver<Status>,
    state: Mutex<State>,
    heard: Notify,
}

#[derive(Default)]
struct State {
    /// Counts rounds; an answer to an earlier one proves nothing.
    round: u64,
    /// Who pledged in this round, and up to which term.
    pledged: BTreeMap<NodeId, u64>,
    voices: BTreeMap<NodeId, Heard>,
}

struct Heard {
    voice: Voice,
    /// The last round it was asked in.
    asked: u64,
}

/// What the pledges of some nodes amount to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// This node leads; a read has to wait for this index.
    Leads {
        index: u64,
    },
    NotYet,
    Deposed,
}

impl Authority {
    pub fn new(
        own: NodeId,
        pledge: Arc<Pledge>,
        progress: Arc<Progress>,
        route: watch::Receiver<Route>,
        status: watch::Receiver<Status>,
    ) -> Self {
        let (state, heard) = (Mutex::default(), Notify::new());
        Self { own, pledge, progress, route, status, state, heard }
    }

    /// From now on `node` is asked by `voice`, also in the round that is under way.
    pub fn listen_to(&self, node: NodeId, voice: Voice) {
        self.state.lock().voices.insert(node, Heard { voice, asked: 0 });
    }

    /// A voter's answer to `Confirm`.
    pub fn hear(&self, node: NodeId, round: u64, term: u64) {
        let mut state = self.state.lock();
        if round == state.round {
            state.pledged.insert(node, term);
            drop(state);
            self.heard.notify_one();
        }
    }

    /// The index for a read of `node`, which pledged `term` since it began; none if that does not make a quorum.
    pub fn at_once(&self, node: NodeId, term: u64) -> Option<u64> {
        match self.weigh(self.term()?, &BTreeMap::from([(node, term)])) {
            Verdict::Leads { index } => Some(index),
            Verdict::NotYet | Verdict::Deposed => None,
        }
    }

    /// The index for every read that began before the call. One call at a time.
    pub async fn confirm(&self, patience: Duration) -> Result<u64, CallError> {
        let deadline = Instant::now() + patience;
        let Some(term) = self.term() else { return Err(CallError::NoLeader) };
        {
            let mut state = self.state.lock();
            state.round += 1;
            state.pledged.clear();
        }
        loop {
            let verdict = {
                let mut state = self.state.lock();
                state.ask_voices();
                self.weigh(term, &state.pledged)
            };
            match verdict {
                Verdict::Leads { index } => return Ok(index),
                Verdict::Deposed => return Err(CallError::NoLeader),
                Verdict::NotYet if self.term() != Some(term) => return Err(CallError::NoLeader),
                Verdict::NotYet if Instant::now() >= deadline => return Err(CallError::NoQuorum),
                // Whether it was a pledge or the time: what there is now is weighed again.
                Verdict::NotYet => drop(timeout(LOOK_AGAIN, self.heard.notified()).await),
            }
        }
    }

    /// The term in which this node leads, as far as it knows.
    fn term(&self) -> Option<u64> {
        match *self.route.borrow() {
            Route::Here { term } => Some(term),
            Route::Elsewhere { .. } | Route::Unknown => None,
        }
    }

    fn weigh(&self, term: u64, pledged: &BTreeMap<NodeId, u64>) -> Verdict {
        // Our own pledge is one of the quorum's.
        if self.pledge.promised() > term || pledged.values().any(|promised| *promised > term) {
            return Verdict::Deposed;
        }
        let status = self.status.borrow();
        let latest = status.membership_index >= self.pledge.membership();
        let agreeing = |node: &NodeId| *node == self.own || pledged.contains_key(node);
        if !latest || !is_quorum(&status.electorate, agreeing) {
            return Verdict::NotYet;
        }
        match self.progress.committed() {
            // Until an entry of its own term is committed, a leader does not know what earlier ones committed.
            Some(committed) if committed.term == term => Verdict::Leads { index: committed.index },
            _ => Verdict::NotYet,
        }
    }
}

impl State {
    /// Asks whoever was not asked in this round yet. One without room now is asked when we look again.
    fn ask_voices(&mut self) {
        let round = self.round;
        self.voices.retain(|_, heard| {
            let Some(voice) = heard.voice.upgrade() else { return false };
            if heard.asked < round && voice.try_send(forward::confirm(round)).is_ok() {
                heard.asked = round;
            }
            true
        });
    }
}

/// A majority of each of the configurations. While voters change there are two.
fn is_quorum(electorate: &[BTreeSet<NodeId>], agreeing: impl Fn(&NodeId) -> bool) -> bool {
    let majority =
        |voters: &BTreeSet<NodeId>| 2 * voters.iter().filter(|node| agreeing(node)).count() > voters.len();
    !electorate.is_empty() && electorate.iter().all(majority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Vote;
    use crate::machine::Position;
    use crate::membership::MembershipRecord;

    const TERM: u64 = 5;

    struct Bench {
        authority: Authority,
        route: watch::Sender<Route>,
        status: watch::Sender<Status>,
    }

    /// Node 1 leads in term 5 and has committed the entry 40 in it.
    fn bench(electorate: &[&[u64]]) -> Bench {
        let set = |voters: &&[u64]| voters.iter().copied().map(NodeId).collect();
        let electorate = electorate.iter().map(set).collect();
        let status = Status { electorate, membership_index: Some(3), ..Status::unknown(NodeId(1)) };
        let record = MembershipRecord::decode(None).expect("nothing is a record");
        let progress = Arc::new(Progress::new(None, record));
        progress.note_committed(Position { term: TERM, index: 40 });
        let pledge = Arc::new(Pledge::new(Some(&Vote::new(TERM, 1))));
        let (route, seen_route) = watch::channel(Route::Here { term: TERM });
        let (status, seen_status) = watch::channel(status);
        Bench {
            authority: Authority::new(NodeId(1), pledge, progress, seen_route, seen_status),
            route,
            status,
        }
    }

    fn weigh(bench: &Bench, pledges: &[(u64, u64)]) -> Verdict {
        let pledged = pledges.iter().map(|(node, term)| (NodeId(*node), *term)).collect();
        bench.authority.weigh(TERM, &pledged)
    }

    #[test]
    fn a_majority_of_every_configuration_has_to_agree() {
        let three = bench(&[&[1, 2, 3]]);
        assert_eq!(weigh(&three, &[]), Verdict::NotYet);
        assert_eq!(weigh(&three, &[(2, TERM)]), Verdict::Leads { index: 40 });
        assert_eq!(weigh(&three, &[(9, TERM)]), Verdict::NotYet, "not a voter");
        assert_eq!(weigh(&bench(&[&[1]]), &[]), Verdict::Leads { index: 40 });
        assert_eq!(weigh(&bench(&[]), &[(2, TERM)]), Verdict::NotYet, "nothing is known of the voters");
        let changing = bench(&[&[1, 2, 3], &[3, 4, 5]]);
        assert_eq!(weigh(&changing, &[(2, TERM), (3, TERM)]), Verdict::NotYet);
        assert_eq!(weigh(&changing, &[(3, TERM), (4, TERM)]), Verdict::Leads { index: 40 });
        let without_us = bench(&[&[2, 3, 4]]);
        assert_eq!(
            weigh(&without_us, &[(2, TERM)]),
            Verdict::NotYet,
            "a leader that does not vote is no vote"
        );
    }

    #[test]
    fn a_later_vote_of_anybody_deposes() {
        let three = bench(&[&[1, 2, 3]]);
        assert_eq!(weigh(&three, &[(2, TERM), (3, TERM + 1)]), Verdict::Deposed);
        assert_eq!(
            weigh(&three, &[(2, TERM - 1)]),
            Verdict::Leads { index: 40 },
            "a lower promise is none against us"
        );
        three.authority.pledge.promise(&Vote::new(TERM + 1, 2));
        assert_eq!(weigh(&three, &[(2, TERM)]), Verdict::Deposed);
        assert_eq!(three.authority.at_once(NodeId(2), TERM), None);
    }

    #[test]
    fn a_leader_without_a_commit_of_its_own_cannot_answer() {
        let three = bench(&[&[1, 2, 3]]);
        let (route, seen) = watch::channel(Route::Here { term: TERM + 1 });
        drop(three.route);
        let fresh = Authority { route: seen, ..three.authority };
        fresh.pledge.promise(&Vote::new(TERM + 1, 1));
        assert_eq!(fresh.at_once(NodeId(2), TERM + 1), None);
        fresh.progress.note_committed(Position { term: TERM + 1, index: 41 });
        assert_eq!(fresh.at_once(NodeId(2), TERM + 1), Some(41));
        drop(route);
    }

    #[test]
    fn an_outdated_membership_is_not_counted_by() {
        let three = bench(&[&[1, 2, 3]]);
        let entry = crate::raft::Entry {
            log_id: Position { term: TERM, index: 41 }.into(),
            payload: openraft::EntryPayload::Membership(crate::raft::Membership::default()),
        };
        three.authority.pledge.append(&[entry]);
        assert_eq!(weigh(&three, &[(2, TERM)]), Verdict::NotYet);
        three.status.send_modify(|status| status.membership_index = Some(41));
        assert_eq!(weigh(&three, &[(2, TERM)]), Verdict::Leads { index: 40 });
    }

    #[tokio::test]
    async fn only_an_answer_to_the_round_under_way_counts() {
        let three = bench(&[&[1, 2, 3]]);
        let (voice, mut asked) = mpsc::channel(4);
        three.authority.listen_to(NodeId(2), voice.downgrade());
        three.authority.hear(NodeId(2), 1, TERM);
        let patience = Duration::from_millis(30);
        assert_eq!(
            three.authority.confirm(patience).await,
            Err(CallError::NoQuorum),
            "heard before it was asked"
        );
        assert_eq!(asked.recv().await, Some(forward::confirm(1)));
        let answers = async {
            assert_eq!(asked.recv().await, Some(forward::confirm(2)));
            three.authority.hear(NodeId(2), 1, TERM);
            three.authority.hear(NodeId(2), 2, TERM);
        };
        let (confirmed, ()) = tokio::join!(three.authority.confirm(Duration::from_secs(20)), answers);
        assert_eq!(confirmed, Ok(40));
        three.route.send_replace(Route::Unknown);
        assert_eq!(three.authority.confirm(patience).await, Err(CallError::NoLeader));
    }
}
