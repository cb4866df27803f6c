//! Whatever several holders do, in whatever order: never two holders, never an epoch twice, and who lost the lease cannot
//! write any more (invariants C1 to C3).

use std::collections::BTreeMap;

use proptest::prelude::*;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_apiserver::access::Caller;
use setpoint_store::LeaseName;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::kit::{Node, settle};

const LEASE: &str = "lease";

#[derive(Clone, Debug)]
enum Step {
    Acquire { who: usize, wait: bool, operation: u8 },
    Keep(usize),
    Release(usize),
    Write(usize),
    Delete,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..3_usize;
    prop_oneof![
        4 => (who.clone(), any::<bool>(), 0..4_u8).prop_map(|(who, wait, operation)| {
            Step::Acquire { who, wait, operation }
        }),
        2 => who.clone().prop_map(Step::Keep),
        2 => who.clone().prop_map(Step::Release),
        2 => who.prop_map(Step::Write),
        1 => Just(Step::Delete),
        3 => (1..4_000_u64).prop_map(Step::Pass),
    ]
}

type Answer = Result<pb::AcquireResponse, setpoint_apiserver::objects::Refusal>;

/// What the holders believe, and what was ever given out.
struct World {
    node: Node,
    /// The epoch each believes to hold the lease at: the last one it was told.
    believed: [u64; 3],
    /// Who was given which epoch.
    given: BTreeMap<u64, usize>,
    waiting: Vec<(usize, JoinHandle<Answer>)>,
    writes: usize,
    last_epoch: u64,
}

impl World {
    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Acquire { who, wait, operation } => {
                let operation = if operation == 0 { String::new() } else { format!("{who}-{operation}") };
                let request = pb::AcquireRequest {
                    lease: LEASE.into(),
                    holder: format!("h{who}"),
                    ttl_seconds: 3,
                    wait_ms: if wait { 2_500 } else { 0 },
                    operation,
                    ..Default::default()
                };
                let coordinator = self.node.coordinator.clone();
                let ask = async move { coordinator.acquire(request, &Caller::default()).await };
                self.waiting.push((who, tokio::spawn(ask)));
            }
            Step::Keep(who) => self.keep(who).await,
            Step::Release(who) => {
                let epoch = self.believed[who];
                let (lease, holder) = (LEASE.into(), format!("h{who}"));
                let request = pb::ReleaseRequest { lease, holder, epoch, ..Default::default() };
                let held = self.holds(who);
                let done =
                    self.node.coordinator.release(request, &Caller::default()).await.expect("released");
                assert_eq!(done.released, held);
            }
            Step::Write(who) => self.write(who).await,
            Step::Delete => {
                let key = pb::ObjectKey { kind: "Lease".into(), name: LEASE.into(), ..Default::default() };
                let request = pb::DeleteRequest { key: Some(key), ..Default::default() };
                let before = self.hold();
                match self.node.writer.delete(request, &Caller::default()).await {
                    Ok(_) => {
                        assert!(before.is_none() || before != self.hold(), "the hold ends with the object")
                    }
                    Err(refusal) => assert_eq!(refusal.reason(), Reason::NotFound),
                }
            }
            Step::Pass(millis) => self.node.advance(millis).await,
        }
        settle().await;
        self.collect().await;
        self.check();
    }

    async fn keep(&self, who: usize) {
        let (holder, epoch) = (format!("h{who}"), self.believed[who]);
        let request = pb::KeepAliveRequest { lease: LEASE.into(), holder, epoch, ..Default::default() };
        let held = self.holds(who);
        let kept = self.node.coordinator.keep_alive(request).await.expect("answered");
        assert!(held || !kept.held, "kept without being held");
    }

    async fn write(&mut self, who: usize) {
        let epoch = self.believed[who];
        if epoch == 0 {
            return;
        }
        self.writes += 1;
        let metadata = pb::Metadata { name: format!("w{}", self.writes), ..Default::default() };
        let spec = "{}".into();
        let object =
            pb::Object { kind: "Namespace".into(), metadata: Some(metadata), spec, ..Default::default() };
        let fence = Some(pb::Fence { namespace: String::new(), lease: LEASE.into(), epoch });
        let options = Some(pb::WriteOptions { fence, ..Default::default() });
        let held = self.holds(who);
        let request = pb::CreateRequest { object: Some(object), options };
        match self.node.writer.create(request, &Caller::default()).await {
            Ok(_) => assert!(held, "h{who} wrote at epoch {epoch}, at which it does not hold the lease"),
            Err(refusal) => {
                assert_eq!(refusal.reason(), Reason::Fenced);
                assert!(!held, "h{who} holds the lease at epoch {epoch}, and was refused");
            }
        }
    }

    /// Takes the answers there are.
    async fn collect(&mut self) {
        for (who, task) in std::mem::take(&mut self.waiting) {
            if !task.is_finished() {
                self.waiting.push((who, task));
                continue;
            }
            let Ok(answer) = task.await.expect("no panic") else { continue };
            if answer.acquired {
                let owner = self.given.entry(answer.epoch).or_insert(who);
                assert_eq!(*owner, who, "epoch {} was given to two", answer.epoch);
                self.believed[who] = self.believed[who].max(answer.epoch);
            }
        }
    }

    /// Whoever has the lease was given an epoch after all others.
    fn check(&mut self) {
        let state = self.node.local.store.lease_state(&LeaseName::new("default", LEASE)).expect("readable");
        assert!(state.epoch.0 >= self.last_epoch, "epochs only grow");
        self.last_epoch = state.epoch.0;
        if let Some(hold) = state.hold {
            assert_eq!(hold.epoch, state.epoch);
        }
        assert!(self.given.keys().all(|epoch| *epoch <= self.last_epoch));
    }

    fn hold(&self) -> Option<(String, u64)> {
        let state = self.node.local.store.lease_state(&LeaseName::new("default", LEASE)).expect("readable");
        state.hold.map(|hold| (hold.holder, hold.epoch.0))
    }

    fn holds(&self, who: usize) -> bool {
        self.hold() == Some((format!("h{who}"), self.believed[who]))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn there_is_one_holder_at_a_time_and_an_epoch_has_one_holder(steps in prop::collection::vec(step(), 1..40)) {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let (believed, given) = ([0; 3], BTreeMap::new());
            let (waiting, writes, last_epoch) = (Vec::new(), 0, 0);
            let mut world = World { node: Node::new(), believed, given, waiting, writes, last_epoch };
            for step in &steps {
                world.take(step).await;
            }
        });
    }
}
