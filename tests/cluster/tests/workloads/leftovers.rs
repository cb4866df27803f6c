//! What must not be left once workloads are gone: objects, reservations, finalizers, processes, control groups.

use prost::Message;
use setpoint_api::etcdserverpb as etcd;
use setpoint_api::setpoint::v1 as pb;
use setpoint_client::ReadAt;
use setpoint_cluster_tests::testbed::patiently;

use crate::estate::Estate;

const OBJECTS: &str = "/setpoint.v1/";
/// What workloads are made of.
const PARTS: [&str; 4] = ["Workload", "ReplicaSet", "Replica", "Binding"];

impl Estate {
    /// Waits until nothing is left of any workload.
    pub async fn nothing_is_left(&self) {
        let look = async || {
            let left = self.left().await;
            if left.is_empty() { Ok(()) } else { Err(left) }
        };
        self.until("nothing is left", look).await;
    }

    /// The same, and agents have forgotten them too, which takes them a while.
    pub async fn nothing_is_remembered(&self) {
        self.nothing_is_left().await;
        let look = async || {
            let files: Vec<_> = self.hosts.iter().flat_map(|host| host.files()).collect();
            if files.is_empty() { Ok(()) } else { Err(files) }
        };
        self.until("the agents have forgotten them", look).await;
    }

    async fn left(&self) -> Vec<String> {
        let mut left = self.objects_left().await;
        let (ledgers, _) = self.client.ledgers().list("", ReadAt::Latest).await.expect("a list");
        let used = ledgers.into_iter().filter(|ledger| ledger.used.iter().any(|(_, amount)| amount != 0));
        left.extend(used.map(|ledger| format!("ledger {}: {:?} is reserved", ledger.name, ledger.used)));
        for host in &self.hosts {
            left.extend(host.processes().iter().map(|pid| format!("{}: process {pid}", host.name)));
            left.extend(host.groups().iter().map(|group| format!("control group {}", group.display())));
        }
        left
    }

    /// Objects of workloads, and whatever waits for a finalizer.
    async fn objects_left(&self) -> Vec<String> {
        let all = etcd::RangeRequest {
            key: OBJECTS.into(),
            range_end: "/setpoint.v10".into(),
            ..Default::default()
        };
        let found = patiently(|| self.bed.clients[0].range(all.clone())).await;
        let mut left = Vec::new();
        for kv in found.kvs {
            let key = String::from_utf8_lossy(&kv.key).into_owned();
            let object = pb::Object::decode(kv.value).expect("an object");
            let metadata = object.metadata.unwrap_or_default();
            if PARTS.contains(&object.kind.as_str()) {
                left.push(format!("{key}, deleted at {:?}, {:?}", metadata.deleted_ms, metadata.finalizers));
            } else if metadata.deleted_ms.is_some() || !metadata.finalizers.is_empty() {
                left.push(format!("{key} waits for {:?}", metadata.finalizers));
            }
        }
        left
    }
}
