//! Wrong answers to maintenance and membership requests.

use setpoint_api::etcdserverpb as pb;
use setpoint_etcd_tests::answer::Answer;

use super::{Entry, change, raise_revision};

pub const PLANTS: &[Entry] = &[
    ("status: header revision", |a| raise_revision(a, |a| matches!(a, Answer::Status(_)))),
    ("status: version", |a| change(status(a), |r| r.version = "three".to_owned())),
    ("status: size", |a| change(status(a), |r| r.db_size = 0)),
    ("status: leader", |a| change(status(a), |r| r.leader = 0)),
    ("status: term", |a| change(status(a), |r| r.raft_term += 1)),
    ("status: applied index", |a| change(status(a), |r| r.raft_applied_index = r.raft_index + 1)),
    ("status: learner", |a| change(status(a), |r| r.is_learner = true)),
    ("status: errors", |a| change(status(a), |r| r.errors.push("etcdserver: no leader".to_owned()))),
    ("alarm invented", |a| match a {
        Answer::Alarm(Ok(response)) => {
            response.alarms.push(pb::AlarmMember { member_id: 1, alarm: 1 });
            true
        }
        _ => false,
    }),
    ("hash kv: header revision", |a| raise_revision(a, |a| matches!(a, Answer::HashKv(..)))),
    ("hash kv: compact revision", |a| match a {
        Answer::HashKv(Ok(response), _) if response.compact_revision > 0 => {
            response.compact_revision += 1;
            true
        }
        _ => false,
    }),
    ("hash kv: not the same twice", |a| match a {
        Answer::HashKv(Ok(_), Ok(second)) => {
            second.hash ^= 1;
            true
        }
        _ => false,
    }),
    ("hash kv: not set", |a| match a {
        Answer::HashKv(Ok(first), Ok(second)) => {
            (first.hash, second.hash) = (0, 0);
            true
        }
        _ => false,
    }),
    ("members: header revision", |a| raise_revision(a, |a| matches!(a, Answer::MemberList(_)))),
    ("members: one missing", |a| change(members(a), |members| drop(members.pop()))),
    ("members: learner", |a| {
        change(members(a).and_then(|m| m.first_mut()), |member| member.is_learner = true)
    }),
    ("members: name", |a| change(members(a).and_then(|m| m.first_mut()), |member| member.name.clear())),
    ("members: id", |a| change(members(a).and_then(|m| m.first_mut()), |member| member.id += 1)),
    ("stray request accepted", |a| match a {
        Answer::Stray(outcome @ Err(_)) => {
            *outcome = Ok(());
            true
        }
        _ => false,
    }),
    ("defragment: header", |a| match a {
        Answer::Defragment(Ok(response)) => {
            response.header = Some(pb::ResponseHeader { revision: 1, ..Default::default() });
            true
        }
        _ => false,
    }),
];

fn status(answer: &mut Answer) -> Option<&mut pb::StatusResponse> {
    match answer {
        Answer::Status(Ok(response)) => Some(response),
        _ => None,
    }
}

fn members(answer: &mut Answer) -> Option<&mut Vec<pb::Member>> {
    match answer {
        Answer::MemberList(Ok(response)) => Some(&mut response.members),
        _ => None,
    }
}
