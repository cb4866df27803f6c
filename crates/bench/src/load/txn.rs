//! Compare-and-put in the shape a Kubernetes API server updates an object: if the key is still at the revision last
//! seen, put the new value, else read the key.
//!
//! Each client updates objects of its own, as controllers mostly do, so every comparison should hold.

use bytes::Bytes;
use setpoint_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use setpoint_api::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse, request_op,
    response_op,
};

use super::clients::{Operation, OperationError, closed_loop};
use super::{LoadError, Sample};
use crate::connection::{Connections, Lanes};
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::{Random, Values, pod_key};

const CLIENTS: usize = 100;
const KEYS_PER_CLIENT: usize = 50;
const VALUE_BYTES: usize = 1_024;

pub async fn measure(cluster: &Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let connections = Connections::new(&cluster.addresses(), CLIENTS);
    let values = std::sync::Arc::new(Values::of_length(VALUE_BYTES));
    let clients = (0..CLIENTS).map(|client| {
        let keys = (0..KEYS_PER_CLIENT).map(|number| pod_key(client * KEYS_PER_CLIENT + number));
        Update {
            lanes: connections.lanes(client),
            random: Random::for_client(client),
            values: values.clone(),
            // Revision 0 stands for a key that does not exist: the first update creates it.
            objects: keys.map(|key| Object { key, revision: 0 }).collect(),
        }
    });
    closed_loop(cluster, plan, clients).await
}

struct Update {
    lanes: Lanes,
    random: Random,
    values: std::sync::Arc<Values>,
    objects: Vec<Object>,
}

/// A key and the revision it was last seen at.
struct Object {
    key: Bytes,
    revision: i64,
}

impl Operation for Update {
    async fn call(&mut self) -> Result<(), OperationError> {
        let chosen = self.random.below(self.objects.len());
        let object = &mut self.objects[chosen];
        let request = request(object, self.values.draw(&mut self.random));
        let answer = self.lanes.next().txn(request).await?.into_inner();
        let (revision, held) = outcome(&answer).ok_or(OperationError::Wrong("a txn without its answer"))?;
        object.revision = revision;
        if held { Ok(()) } else { Err(OperationError::Wrong("a key was not at the revision last seen")) }
    }
}

fn request(object: &Object, value: Bytes) -> TxnRequest {
    let key = &object.key;
    let compare = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::ModRevision(object.revision)),
        ..Compare::default()
    };
    let put = PutRequest { key: key.clone(), value, ..PutRequest::default() };
    let range = RangeRequest { key: key.clone(), ..RangeRequest::default() };
    TxnRequest {
        compare: vec![compare],
        success: vec![RequestOp { request: Some(request_op::Request::RequestPut(put)) }],
        failure: vec![RequestOp { request: Some(request_op::Request::RequestRange(range)) }],
    }
}

/// The key's revision after the txn, and whether the comparison held.
fn outcome(answer: &TxnResponse) -> Option<(i64, bool)> {
    if answer.succeeded {
        return Some((answer.header.as_ref()?.revision, true));
    }
    let [ResponseOp { response: Some(response_op::Response::ResponseRange(range)) }] =
        answer.responses.as_slice()
    else {
        return None;
    };
    Some((range.kvs.first().map_or(0, |found| found.mod_revision), false))
}

#[cfg(test)]
mod tests {
    use setpoint_api::etcdserverpb::{RangeResponse, ResponseHeader};
    use setpoint_api::mvccpb::KeyValue;

    use super::*;

    #[test]
    fn the_next_comparison_is_with_the_revision_answered() {
        let header = Some(ResponseHeader { revision: 9, ..ResponseHeader::default() });
        let held = TxnResponse { header, succeeded: true, ..TxnResponse::default() };
        assert_eq!(outcome(&held), Some((9, true)));

        let range = RangeResponse {
            kvs: vec![KeyValue { mod_revision: 7, ..KeyValue::default() }],
            ..RangeResponse::default()
        };
        let responses = vec![ResponseOp { response: Some(response_op::Response::ResponseRange(range)) }];
        let lost = TxnResponse { header, succeeded: false, responses };
        assert_eq!(outcome(&lost), Some((7, false)));
        assert_eq!(outcome(&TxnResponse::default()), None);
    }
}
