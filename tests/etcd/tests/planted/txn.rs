//! Wrong answers to Txn, also deep inside.

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::response_op::Response;
use setpoint_etcd_tests::answer::Answer;

use super::{Entry, change, raise_revision, txn};

pub const PLANTS: &[Entry] = &[
    ("txn: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Txn(_)))),
    ("txn: verdict", |a| change(txn(a), |r| r.succeeded = !r.succeeded)),
    ("txn: response missing", |a| {
        change(txn(a).filter(|r| !r.responses.is_empty()), |r| drop(r.responses.pop()))
    }),
    ("txn: response empty", |a| {
        change(txn(a).and_then(|r| r.responses.first_mut()), |op| op.response = None)
    }),
    ("txn: response of another kind", |a| {
        let place = txn(a).and_then(|r| {
            r.responses.iter_mut().find(|op| matches!(op.response, Some(Response::ResponsePut(_))))
        });
        change(place, |op| op.response = Some(Response::ResponseRange(Default::default())))
    }),
    ("txn: order of responses", |a| {
        let place = txn(a).filter(|r| {
            let mut kinds = r.responses.iter().map(|op| op.response.as_ref().map(std::mem::discriminant));
            let (first, second) = (kinds.next(), kinds.next());
            second.is_some() && first != second
        });
        change(place, |r| r.responses.swap(0, 1))
    }),
    ("txn: inner header revision", |a| {
        change(inner(a).and_then(|r| sub_header(r)), |header| header.revision += 1)
    }),
    ("txn: inner header with ids", |a| {
        change(inner(a).and_then(|r| sub_header(r)), |header| header.member_id = 7)
    }),
    ("txn: inner read", |a| {
        let place = inner(a).and_then(|response| match response {
            Response::ResponseRange(range) => Some(range),
            _ => None,
        });
        change(place, |range| range.count += 1)
    }),
    ("txn: nested verdict", |a| change(nested(a), |r| r.succeeded = !r.succeeded)),
    ("txn: nested header", |a| {
        change(nested(a), |r| r.header = Some(pb::ResponseHeader { revision: 1, ..Default::default() }))
    }),
    ("txn: nested response", |a| {
        change(nested(a).filter(|r| !r.responses.is_empty()), |r| drop(r.responses.pop()))
    }),
];

fn inner(answer: &mut Answer) -> Option<&mut Response> {
    txn(answer)?.responses.first_mut()?.response.as_mut()
}

fn sub_header(response: &mut Response) -> Option<&mut pb::ResponseHeader> {
    match response {
        Response::ResponseRange(response) => response.header.as_mut(),
        Response::ResponsePut(response) => response.header.as_mut(),
        Response::ResponseDeleteRange(response) => response.header.as_mut(),
        Response::ResponseTxn(_) => None,
    }
}

fn nested(answer: &mut Answer) -> Option<&mut pb::TxnResponse> {
    txn(answer)?.responses.iter_mut().find_map(|op| match &mut op.response {
        Some(Response::ResponseTxn(nested)) => Some(nested),
        _ => None,
    })
}
