//! Peers that are lost, mistaken or malicious: turned away with a reason, and nothing breaks.

use bytes::Bytes;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::peer_client::PeerClient;
use setpoint_api::setpoint::peer::v1::snapshot_part::Part;
use setpoint_consensus::{Lane, Role};
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::support::{Cluster, Options, TestNode, bytes};

fn client(cluster: &Cluster, to: &TestNode) -> PeerClient<Channel> {
    let connector = cluster.network.connector("nobody:1", None);
    PeerClient::new(connector.connect(&to.name(), Lane::Control).expect("a channel"))
}

/// A call with an identity of the caller's choice.
pub fn call<T>(message: T, cluster: &str, from: &str, to: &str) -> Request<T> {
    let mut request = Request::new(message);
    for (key, value) in [("setpoint-cluster", cluster), ("setpoint-from", from), ("setpoint-to", to)] {
        request.metadata_mut().insert(key, value.parse().expect("plain text"));
    }
    request
}

fn ballot(term: u64, node: u64, committed: bool) -> Option<proto::Ballot> {
    Some(proto::Ballot { term, node, committed })
}

fn check(status: &Status, code: Code, complaint: &str) {
    assert!(status.code() == code && status.message().contains(complaint), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_for_somebody_else_are_turned_away() {
    let cluster = Cluster::start(3, Options::default()).await;
    let node = cluster.node(2);
    let mut client = client(&cluster, node);
    let term = node.status().term;
    // Convincing, if only it came from the right place.
    let vote = proto::VoteRequest {
        candidate: ballot(1000, 1, false),
        last_log: Some(proto::LogId { term: 999, index: 1_000_000 }),
        leadership_transfer: true,
    };
    let anonymous = client.vote(vote).await.expect_err("no identity");
    check(&anonymous, Code::FailedPrecondition, "setpoint-cluster");
    for (identity, complaint) in [
        (("c2", "1", "2"), "cluster c1, not of c2"),
        (("c1", "1", "3"), "this is node 2, not 3"),
        (("c1", "2", "2"), "used twice"),
        (("c1", "one", "2"), "setpoint-from"),
    ] {
        let (cluster, from, to) = identity;
        let refused = client.vote(call(vote, cluster, from, to)).await.expect_err("not a peer");
        check(&refused, Code::FailedPrecondition, complaint);
        let refused = client.pre_vote(call(vote, cluster, from, to)).await.expect_err("not a peer");
        check(&refused, Code::FailedPrecondition, complaint);
    }
    assert_eq!(node.status().term, term);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_correct_peer_says_is_refused_and_forgotten() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let follower = cluster.followers(leader).next().expect("two followers");
    let mut client = client(&cluster, follower);
    let (us, them) = (follower.id.to_string(), leader.id.to_string());
    let term = leader.status().term;

    let lead = |entries: &'static [u8], ballot| proto::AppendRequest {
        leader: ballot,
        entries: Bytes::from_static(entries),
        ..proto::AppendRequest::default()
    };
    for (append, why) in [
        (lead(b"not an entry", ballot(term, leader.id.0, true)), "cannot be read"),
        (lead(b"", ballot(term + 9, leader.id.0, false)), "does not claim to lead"),
        (lead(b"", ballot(term + 9, follower.id.0, true)), "not the sender's"),
        (lead(b"", None), "no ballot"),
    ] {
        let request = call(append.clone(), "c1", &them, &us);
        check(&client.heartbeat(request).await.expect_err(why), Code::InvalidArgument, why);
        let request = call(tokio_stream::iter([append]), "c1", &them, &us);
        let mut replies = client.append(request).await.expect("the stream opens").into_inner();
        check(&replies.next().await.expect("an end").expect_err(why), Code::InvalidArgument, why);
    }
    let usurper =
        proto::VoteRequest { candidate: ballot(term + 9, follower.id.0, false), ..Default::default() };
    let refused = client.vote(call(usurper, "c1", &them, &us)).await.expect_err("in our own name");
    check(&refused, Code::InvalidArgument, "not the sender's");

    leader.put("undisturbed").await;
    follower.applied(&bytes("undisturbed")).await;
    assert_eq!((leader.status().role, leader.status().term), (Role::Leader, term));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_snapshot_is_not_installed() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    leader.put("the real state").await;
    let follower = cluster.followers(leader).next().expect("two followers");
    let mut client = client(&cluster, follower);
    let (us, them) = (follower.id.to_string(), leader.id.to_string());
    let term = leader.status().term;
    let part = |part| proto::SnapshotPart { part: Some(part) };
    let header = |last_term, membership| {
        part(Part::Header(proto::SnapshotHeader {
            leader: ballot(term, leader.id.0, true),
            last_log: Some(proto::LogId { term: last_term, index: 1_000_000 }),
            membership,
        }))
    };
    let membership = follower.machine.membership().expect("the cluster has members");
    let chunk = |file: &str, crc| {
        let data = Bytes::from_static(b"data");
        part(Part::Chunk(proto::SnapshotChunk { file: file.to_owned(), offset: 0, data, crc }))
    };
    let good = || chunk("state", crc32c::crc32c(b"data"));
    let end = |files| part(Part::End(proto::SnapshotEnd { files, bytes: 4 }));
    for (parts, why) in [
        (vec![], "ended before"),
        (vec![good()], "header is not first"),
        (vec![header(term + 1, membership.clone()), good(), end(1)], "header is malformed"),
        (vec![header(term, Bytes::from_static(b"?")), good(), end(1)], "membership is malformed"),
        (vec![header(term, membership.clone()), chunk("state", 1), end(1)], "checksum"),
        (
            vec![header(term, membership.clone()), chunk("../state", crc32c::crc32c(b"data")), end(1)],
            "plain file name",
        ),
        (vec![header(term, membership.clone()), good()], "ended before"),
        (vec![header(term, membership.clone()), good(), end(2)], "does not match"),
    ] {
        let request = call(tokio_stream::iter(parts), "c1", &them, &us);
        check(&client.install_snapshot(request).await.expect_err(why), Code::InvalidArgument, why);
    }
    assert_eq!(*follower.machine.installs.lock(), 0);
    leader.put("still here").await;
    follower.applied(&bytes("still here")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_takes_forward_streams_and_survives_nonsense() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let follower = cluster.followers(leader).next().expect("two followers");
    let nothing = tokio_stream::empty::<proto::ForwardRequest>;
    let request = call(nothing(), "c1", &leader.id.to_string(), &follower.id.to_string());
    let refused = client(&cluster, follower).forward(request).await.expect_err("not the leader");
    check(&refused, Code::FailedPrecondition, "does not lead");

    let unknown = proto::Call { id: 7, question: None, pledged: None };
    let body = proto::forward_request::Body::Call(unknown);
    let requests = [proto::ForwardRequest { body: None }, proto::ForwardRequest { body: Some(body) }];
    let requests = tokio_stream::iter(requests).chain(tokio_stream::pending());
    let request = call(requests, "c1", &follower.id.to_string(), &leader.id.to_string());
    let replies = client(&cluster, leader).forward(request).await.expect("the leader listens");
    let reply = replies.into_inner().next().await.expect("an answer").expect("not an error");
    let Some(proto::forward_reply::Body::Answer(answer)) = reply.body else { panic!("{reply:?}") };
    assert!(
        answer.id == 7 && matches!(answer.outcome, Some(proto::answer::Outcome::Failure(_))),
        "{answer:?}"
    );
}
