//! Wrong answers to lease requests.

use setpoint_api::etcdserverpb as pb;
use setpoint_etcd_tests::answer::Answer;

use super::{Entry, change, raise_revision};

pub const PLANTS: &[Entry] = &[
    ("grant: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Grant(_)))),
    ("grant: id", |a| change(grant(a).filter(|r| (1..2000).contains(&r.id)), |r| r.id += 1)),
    ("grant: picked id not positive", |a| change(grant(a).filter(|r| r.id > 1 << 40), |r| r.id = -r.id)),
    ("grant: ttl", |a| change(grant(a), |r| r.ttl += 1)),
    ("grant: error text", |a| change(grant(a), |r| r.error.push('x'))),
    ("grant: shortest ttl", |a| match a {
        Answer::GrantBriefly(Ok(response), _) if response.ttl == 2 => {
            response.ttl = 1;
            true
        }
        _ => false,
    }),
    ("revoke: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Revoke(_)))),
    ("revoke of an unknown lease accepted", |a| match a {
        Answer::Revoke(outcome @ Err(_)) => {
            *outcome = Ok(Default::default());
            true
        }
        _ => false,
    }),
    ("time to live: granted", |a| change(time_to_live(a), |r| r.granted_ttl += 1)),
    ("time to live: remaining above granted", |a| change(long(a), |r| r.ttl = r.granted_ttl + 1)),
    ("time to live: remaining too low", |a| change(long(a), |r| r.ttl = r.granted_ttl / 2)),
    ("time to live: unknown lease", |a| change(time_to_live(a).filter(|r| r.ttl == -1), |r| r.ttl = 0)),
    ("time to live: key missing", |a| {
        change(time_to_live(a).filter(|r| !r.keys.is_empty()), |r| drop(r.keys.pop()))
    }),
    ("time to live: keys unasked", |a| change(time_to_live(a), |r| r.keys.push(b"more".to_vec().into()))),
    ("leases: one missing", |a| match a {
        Answer::Leases(Ok(response)) => response.leases.pop().is_some(),
        _ => false,
    }),
    ("leases: one invented", |a| match a {
        Answer::Leases(Ok(response)) => {
            response.leases.push(pb::LeaseStatus { id: 5 });
            true
        }
        _ => false,
    }),
    ("keep alive: ttl", |a| match a {
        Answer::KeepAlive(Ok(response)) => {
            response.ttl += 1;
            true
        }
        _ => false,
    }),
    ("keep alive: id", |a| match a {
        Answer::KeepAlive(Ok(response)) => {
            response.id ^= 1;
            true
        }
        _ => false,
    }),
];

fn grant(answer: &mut Answer) -> Option<&mut pb::LeaseGrantResponse> {
    match answer {
        Answer::Grant(Ok(response)) => Some(response),
        _ => None,
    }
}

fn time_to_live(answer: &mut Answer) -> Option<&mut pb::LeaseTimeToLiveResponse> {
    match answer {
        Answer::TimeToLive(Ok(response)) => Some(response),
        _ => None,
    }
}

fn long(answer: &mut Answer) -> Option<&mut pb::LeaseTimeToLiveResponse> {
    time_to_live(answer).filter(|response| response.granted_ttl >= 600)
}
