//! Groups of binds: decided together, committed side by side, and those that lost a race decided anew.
//!
//! A rejection that was found on this node's copy counts only if the copy is not behind: so before the first one is told, the copy
//! is brought up to date by a barrier, once for all of them.

use futures::future::join_all;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_rejection::Reason;
use setpoint_api::setpoint::v1::bind_result::Result as Outcome;
use setpoint_store::commit::Op;
use setpoint_store::{Amounts, Committed, Ledger, Rejection};
use setpoint_types::Revision;

use super::Placer;
use super::decide::For;
use super::group::{Decided, Group, Held, Moment, Proposed, reused};
use super::local::Local;
use super::rejection::{Rejected, shortage};
use crate::access::Caller;
use crate::objects::Refusal;
use crate::objects::key;
use crate::objects::reader::blocking;
use crate::objects::write::commit::failure;
use crate::objects::write::{CommitError, Draw};
use crate::replica::ProposeError;

/// What came of a commit.
enum Met {
    Bound(Committed),
    Rejected(Rejected),
    /// Something that was read has changed since.
    Race,
}

impl Placer {
    pub async fn bind(&self, request: pb::BindRequest, caller: &Caller) -> Result<pb::BindResponse, Refusal> {
        self.check(&request)?;
        let pb::BindRequest { groups, fence } = request;
        let mut results: Vec<Option<Outcome>> = Vec::new();
        results.resize_with(groups.len(), || None);
        let mut open = Vec::with_capacity(groups.len());
        for (place, asked) in groups.into_iter().enumerate() {
            open.push(Group::new(place, asked, &fence, caller)?);
        }
        let mut current = false;
        for _ in 0..self.limits.attempts {
            if open.is_empty() {
                break;
            }
            let (again, doubtful) = self.round(open, current, &mut results).await?;
            if !doubtful.is_empty() {
                self.writer.reader.barrier.pass().await?;
                current = true;
            }
            open = again;
            open.extend(doubtful);
        }
        for group in open {
            let text = "others changed what it is about faster than it could be decided; try again";
            let rejected = Rejected::new(Reason::Contention, text).into_wire(self.newest());
            results[group.place] = Some(Outcome::Rejected(rejected));
        }
        Ok(pb::BindResponse {
            results: results.into_iter().map(|result| pb::BindResult { result }).collect(),
        })
    }

    /// Decides and commits groups once. Gives back those that lost a race, and those whose rejection may be this node's fault.
    async fn round(
        &self,
        open: Vec<Group>,
        current: bool,
        results: &mut [Option<Outcome>],
    ) -> Result<(Vec<Group>, Vec<Group>), Refusal> {
        let (mut doubtful, mut proposals) = (Vec::new(), Vec::new());
        for (group, decided) in self.decide(open).await? {
            match decided {
                Decided::Commit(proposed) => proposals.push((group, proposed)),
                Decided::Done(revision) => {
                    let bound = pb::Bound { revision: revision.get(), repeated: true };
                    results[group.place] = Some(Outcome::Bound(bound));
                }
                Decided::Rejected(rejected) if current => {
                    results[group.place] = Some(Outcome::Rejected(rejected.into_wire(self.newest())));
                }
                Decided::Rejected(_) => doubtful.push(group),
            }
        }
        // All are handed over before the first is waited for, so that they share the log's entries.
        let commits = proposals.iter().map(|(_, it)| self.writer.commits.commit(it.commit.clone(), it.bytes));
        let verdicts = join_all(commits).await;
        let mut again = Vec::new();
        let mut failed = None;
        for ((group, proposed), verdict) in proposals.into_iter().zip(verdicts) {
            match self.met(&proposed, verdict) {
                Ok(Met::Race) => again.push(group),
                Ok(Met::Bound(Committed { revision, repeated, .. })) => {
                    let bound = pb::Bound { revision: revision.get(), repeated };
                    results[group.place] = Some(Outcome::Bound(bound));
                }
                Ok(Met::Rejected(rejected)) => {
                    results[group.place] = Some(Outcome::Rejected(rejected.into_wire(self.newest())));
                }
                Err(refusal) => failed = Some(refusal),
            }
        }
        // What nobody knows of one group is told of all: sent again, what was done is recognised.
        failed.map_or(Ok((again, doubtful)), Err)
    }

    async fn decide(&self, open: Vec<Group>) -> Result<Vec<(Group, Decided)>, Refusal> {
        let (reader, now, draw) =
            (self.writer.reader.clone(), self.writer.clock.now(), self.writer.draw.clone());
        let nodes = self.nodes.clone();
        let decide = move || {
            let mut local = Local::knowing(&reader, &nodes);
            let moment = Moment { now, draw: &draw as &Draw };
            let decided = open.into_iter().map(|group| {
                let decided = group.decide(&mut local, &moment)?;
                Ok((group, decided))
            });
            decided.collect()
        };
        blocking(decide).await?
    }

    /// What a verdict means for the group.
    fn met(&self, proposed: &Proposed, verdict: Result<Committed, CommitError>) -> Result<Met, Refusal> {
        let rejection = match verdict {
            Ok(committed) => return Ok(Met::Bound(committed)),
            Err(CommitError::Proposal(ProposeError::Rejected(rejection))) => rejection,
            Err(error) => return Err(failure(error)),
        };
        let rejected = match rejection {
            Rejection::Guard { index, found } => match (proposed.held(index), found) {
                (Some(Held::Caller), _) => Rejected::new(
                    Reason::Fenced,
                    "the caller's lease is not held at the epoch of its fence; stop",
                ),
                (Some(Held::Node(bind, at)), _) => {
                    let text =
                        "the lease of the node is not held at the epoch that was seen; choose another node";
                    Rejected::new(Reason::NodeNotLeased, text).at(at).of_bind(bind)
                }
                _ => return Ok(Met::Race),
            },
            Rejection::NoHeadroom { op, left } => self.too_little(proposed, op, left),
            Rejection::Uneven { op, has, least } => self.uneven(proposed, op, has, least),
            Rejection::OperationReused { revision } => reused(revision),
            other => return Err(failure(CommitError::Proposal(ProposeError::Rejected(other)))),
        };
        Ok(Met::Rejected(rejected))
    }

    fn too_little(&self, proposed: &Proposed, op: usize, left: Amounts) -> Rejected {
        let taken = proposed.taken(op);
        let Some((bind, what, Op::Reserve { ledger, amounts, .. } | Op::Count { ledger, amounts, .. })) =
            taken
        else {
            return Rejected::new(Reason::NoRoom, "a ledger has too little left; choose another node");
        };
        let short = shortage(amounts, &left);
        let (reason, text) = match what {
            For::Ports => {
                (Reason::PortTaken, format!("a port of the node is taken ({short}); choose another node"))
            }
            For::Quota => (
                Reason::QuotaExceeded,
                format!("the quota is used up: {short}; wait until something is released"),
            ),
            For::Room | For::Spread => {
                (Reason::NoRoom, format!("the node has too little: {short}; choose another node"))
            }
        };
        Rejected::new(reason, text).at(self.changed(ledger)).of_bind(bind).lacking(ledger, amounts, left)
    }

    fn uneven(&self, proposed: &Proposed, op: usize, has: u64, least: u64) -> Rejected {
        let Some((bind, _, Op::Spread { ledger, domain, evenness, .. })) = proposed.taken(op) else {
            return Rejected::new(
                Reason::Skew,
                "replicas would be spread too unevenly; choose another place",
            );
        };
        let text = format!(
            "{domain} would have {has} replicas where the emptiest place has {least}, the most is {} more; choose another place",
            evenness.max_skew
        );
        Rejected::new(Reason::Skew, text).at(self.changed(ledger)).of_bind(bind)
    }

    /// Where a ledger was last changed: a binding was, too.
    fn changed(&self, ledger: &str) -> Revision {
        let key = Ledger::key(ledger);
        let found = Local::new(&self.writer.reader).read(key).ok().flatten();
        found.map_or(Revision::NONE, |kv| kv.modified)
    }

    pub(super) fn newest(&self) -> Revision {
        self.writer.reader.store.revision()
    }

    fn check(&self, request: &pb::BindRequest) -> Result<(), Refusal> {
        let limits = &self.limits;
        let binds = request.groups.iter().map(|it| it.binds.len()).sum::<usize>();
        if request.groups.len() > limits.groups || binds > limits.binds {
            let text =
                format!("must be at most {}, with {} binds; make it several", limits.groups, limits.binds);
            return Err(Refusal::invalid("groups", text));
        }
        for (at, group) in request.groups.iter().enumerate() {
            self.check_group(group)
                .map_err(|(field, text)| Refusal::invalid(&format!("groups[{at}].{field}"), text))?;
        }
        Ok(())
    }

    fn check_group(&self, group: &pb::BindGroup) -> Result<(), (String, String)> {
        let limits = &self.limits;
        let wrong = |field: &str, text: &str| Err((field.to_owned(), text.to_owned()));
        if group.operation.is_empty() {
            return wrong("operation", "must be there: by it a repetition is recognised");
        }
        if group.binds.is_empty() || group.binds.len() > limits.gang {
            return Err(("binds".to_owned(), format!("must be 1 to {}", limits.gang)));
        }
        // Larger numbers are no revisions.
        if group.observed.len() > limits.named
            || group.observed.values().any(|it| i64::try_from(*it).is_err())
        {
            return Err((
                "observed".to_owned(),
                format!("must be revisions of at most {} kinds", limits.named),
            ));
        }
        for (at, bind) in group.binds.iter().enumerate() {
            let twice = group.binds[..at].iter().any(|it| it.replica == bind.replica);
            let problem = if bind.namespace != group.binds[0].namespace || twice {
                Some("must be of one namespace, and each of another replica")
            } else if ![&bind.namespace, &bind.replica, &bind.node].iter().all(|it| key::is_name(it)) {
                Some("must name a namespace, a replica and a node")
            } else if bind.replica_uid.is_empty() || bind.node_uid.is_empty() {
                Some("must name the uids of replica and node")
            } else if bind.node_epoch == 0 {
                Some("must name the epoch of the node's lease, see its status")
            } else if bind.policies.len() > limits.named || bind.spread.len() > limits.named {
                Some("has too many policies or rules of spreading")
            } else if bind.policies.iter().any(|it| !key::is_name(&it.name)) {
                Some("must name its policies")
            } else if bind.spread.iter().any(|it| it.domains.len() > limits.domains) {
                Some("has too many domains; leave them out where the emptiest may count as having none")
            } else {
                None
            };
            if let Some(problem) = problem {
                return Err((format!("binds[{at}]"), problem.to_owned()));
            }
        }
        Ok(())
    }
}
