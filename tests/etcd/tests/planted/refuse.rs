//! Refusals with another code or message, and verdicts turned round.

use setpoint_etcd_tests::answer::{Answer, Refusal};

use super::{Entry, change};

pub const PLANTS: &[Entry] = &[
    ("refusal: code", |a| change(refusal(a), |r| r.code = tonic::Code::Aborted)),
    ("refusal: message", |a| change(refusal(a), |r| r.message.push('!'))),
    ("refused write accepted", |a| match a {
        Answer::Put(outcome @ Err(_)) => {
            *outcome = Ok(Default::default());
            true
        }
        _ => false,
    }),
    ("refused transaction accepted", |a| match a {
        Answer::Txn(outcome @ Err(_)) => {
            *outcome = Ok(Default::default());
            true
        }
        _ => false,
    }),
    ("accepted read refused", |a| match a {
        Answer::Range(outcome @ Ok(_)) => {
            *outcome =
                Err(Refusal { code: tonic::Code::Unavailable, message: "etcdserver: no leader".to_owned() });
            true
        }
        _ => false,
    }),
    ("compaction refused", |a| match a {
        Answer::Compact(outcome @ Ok(_)) => {
            *outcome = Err(Refusal { code: tonic::Code::OutOfRange, message: String::new() });
            true
        }
        _ => false,
    }),
];

fn refusal(answer: &mut Answer) -> Option<&mut Refusal> {
    match answer {
        Answer::Range(Err(refusal)) => Some(refusal),
        Answer::Put(Err(refusal)) => Some(refusal),
        Answer::Delete(Err(refusal)) => Some(refusal),
        Answer::Txn(Err(refusal)) => Some(refusal),
        Answer::Compact(Err(refusal)) => Some(refusal),
        _ => None,
    }
}
