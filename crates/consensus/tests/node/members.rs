//! Members come, vote, move and go; the leadership changes hands when it is asked to.

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::peer_client::PeerClient;
use setpoint_consensus::{
    AcquaintanceError, Lane, MemberError, Newcomer, Peer, Role, Standing, SubmitError, ask_standing, join,
};
use setpoint_types::{ClusterId, NodeId};

use super::hostile::call;
use super::support::{Cluster, Options, bytes, eventually};

fn peer(id: u64) -> Peer {
    Peer { name: format!("n{id}"), address: format!("node-{id}:1") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_joins_catches_up_and_votes() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    for number in 0..30 {
        cluster.node(1).put(format!("before {number}")).await;
    }
    // Asked of a follower, which passes it on.
    let leader = cluster.leader().await;
    let asked = cluster.followers(leader).next().expect("two followers").name();
    let newcomer = Newcomer { name: "n4".to_owned(), address: "node-4:1".to_owned() };
    let connector = cluster.network.connector("node-4:1", None);
    let seeds = ["node-9:1".to_owned(), asked];
    let admission = join(&*connector, &seeds, &newcomer, Duration::from_secs(5)).await.expect("admitted");
    assert_eq!((admission.cluster, admission.node), (ClusterId(0xc1), NodeId(4)));
    let voters: Vec<_> =
        admission.members.iter().filter(|member| member.voter).map(|member| member.node).collect();
    assert_eq!(voters, [NodeId(1), NodeId(2), NodeId(3)]);

    cluster.start_node(4).await.applied(&bytes("before 29")).await;
    assert_eq!(cluster.node(4).status().role, Role::Learner);
    cluster.node(4).put("a learner takes commands").await;
    cluster.node(4).node.read_barrier().await.expect("a learner serves reads");
    let leader = cluster.leader().await;
    eventually("the learner is known to be close", || {
        leader.status().members[&NodeId(4)].matched == leader.status().last_index
    })
    .await;
    leader.node.promote(NodeId(4)).await.expect("it has caught up");
    assert_eq!(leader.node.promote(NodeId(4)).await, Err(MemberError::NotLearner { id: NodeId(4) }));
    eventually("it votes", || cluster.node(4).status().role == Role::Follower).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_that_lags_may_not_vote_yet() {
    let cluster = Cluster::start(1, Options::default()).await;
    let leader = cluster.leader().await;
    for number in 0..100 {
        leader.put(format!("{number}")).await;
    }
    leader.node.add_learner(NodeId(2), peer(2)).await.expect("a learner costs nothing");
    let error = leader.node.promote(NodeId(2)).await.expect_err("nobody has heard of it");
    assert!(matches!(error, MemberError::LearnerNotReady { id: NodeId(2), lag: 100.. }), "{error:?}");
    leader.put("one voter is still a quorum").await;
    assert_eq!(leader.node.promote(NodeId(7)).await, Err(MemberError::NotFound { id: NodeId(7) }));
}

/// S14.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_never_used_twice() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let used = |id, highest| Err(MemberError::IdUsed { id: NodeId(id), highest: NodeId(highest) });
    assert_eq!(leader.node.add_learner(NodeId(2), peer(2)).await, used(2, 3));
    leader.node.add_learner(NodeId(9), peer(9)).await.expect("a new id");
    leader.node.remove(NodeId(9)).await.expect("a learner can go");
    assert_eq!(leader.node.add_learner(NodeId(9), peer(9)).await, used(9, 9));
    assert_eq!(leader.node.next_id(), NodeId(10));

    // Every other node knows it too, and says so if it leads.
    let successor = cluster.followers(leader).next().expect("two followers");
    leader.node.transfer_leader(successor.id).await.expect("a healthy successor");
    assert_eq!(successor.node.leader().await, Some(successor.id));
    assert_eq!(successor.node.add_learner(NodeId(9), peer(9)).await, used(9, 9));
    let not_leader = leader.node.add_learner(NodeId(10), peer(10)).await;
    assert_eq!(not_leader, Err(MemberError::NotLeader { leader: Some(successor.id) }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_removed() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let goer = cluster.followers(leader).next().expect("two followers");
    leader.node.remove(goer.id).await.expect("two of three remain");
    leader.put("without it").await;
    let status = leader.status();
    assert!(!status.members.contains_key(&goer.id) && !status.changing);
    assert_eq!(leader.node.remove(goer.id).await, Err(MemberError::NotFound { id: goer.id }));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!goer.machine.contains(&bytes("without it")));
    assert_eq!((leader.status().role, leader.status().term), (Role::Leader, status.term), "it left in peace");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_removed_by_its_successor() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    leader.node.remove(leader.id).await.expect("two of three remain");
    let others: Vec<_> = cluster.followers(leader).collect();
    eventually("the others know", || {
        others.iter().all(|node| {
            let status = node.status();
            status.members.len() == 2 && !status.members.contains_key(&leader.id)
        })
    })
    .await;
    others[0].put("without the old leader").await;
    others[1].applied(&bytes("without the old leader")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_is_told_so_and_nobody_listens_to_it() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let goer = cluster.followers(leader).next().expect("two followers");
    goer.put("while it could").await;
    leader.node.remove(goer.id).await.expect("two of three remain");
    eventually("it has nobody to give commands to", || {
        goer.node.submit(bytes("too late")) == Err(SubmitError::NoLeader)
    })
    .await;
    let (leader, goer) = (cluster.leader().await.id, goer.id);
    let connector = cluster.network.connector(&format!("node-{goer}:1"), None);
    for other in cluster.nodes.values().filter(|node| node.id != goer) {
        let ask = || {
            let us = (ClusterId(0xc1), goer);
            let name = other.name();
            let connector = Arc::clone(&connector);
            async move { ask_standing(&*connector, us, other.id, &name, Duration::from_secs(5)).await }
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while !matches!(ask().await, Ok(Standing::Removed)) {
            assert!(tokio::time::Instant::now() < deadline, "node {} does not know", other.id);
        }
        let mut client = PeerClient::new(connector.connect(&other.name(), Lane::Control).expect("a channel"));
        let vote = proto::VoteRequest {
            candidate: Some(proto::Ballot { term: 1000, node: goer.0, committed: false }),
            last_log: Some(proto::LogId { term: 999, index: 1_000_000 }),
            leadership_transfer: true,
        };
        let refused = client.vote(call(vote, "c1", &goer.to_string(), &other.id.to_string())).await;
        let refused = refused.expect_err("it does not vote any more");
        assert!(refused.message().contains("is not a member any more"), "{refused:?}");
        if other.id == leader {
            let nothing = tokio_stream::empty::<proto::ForwardRequest>();
            let refused = client.forward(call(nothing, "c1", &goer.to_string(), &other.id.to_string())).await;
            assert!(refused.expect_err("nor does it forward").message().contains("not a member"));
        }
    }
    // Also after it comes back with its old data.
    cluster.kill(goer.0).await;
    cluster.start_node(goer.0).await;
    cluster.node(leader.0).put("without it").await;
    let goer = cluster.node(goer.0);
    eventually("it knows no leader", || goer.status().leader.is_none()).await;
    assert!(!goer.machine.contains(&bytes("without it")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_a_removed_member_has_open_is_not_read_any_more() {
    let cluster = Cluster::start(1, Options::default()).await;
    let leader = cluster.leader().await;
    leader.node.add_learner(NodeId(2), peer(2)).await.expect("a new id");
    let connector = cluster.network.connector("node-2:1", None);
    let mut client = PeerClient::new(connector.connect(&leader.name(), Lane::Forward).expect("a channel"));
    let (requests, stream) = tokio::sync::mpsc::channel(8);
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let opened = client.forward(call(stream, "c1", "2", &leader.id.to_string())).await;
    let mut replies = opened.expect("a member forwards").into_inner();
    let submit =
        |text: &str| proto::forward_request::Body::Submit(proto::Submit { commands: vec![bytes(text)] });
    let send = async |body| requests.send(proto::ForwardRequest { body: Some(body) }).await;
    send(submit("while it could")).await.expect("the stream is open");
    leader.applied(&bytes("while it could")).await;
    // A question without an answer keeps the stream open for a farewell.
    let question = Some(proto::call::Question::Service(bytes("never")));
    let unanswered = proto::Call { id: 1, question, pledged: None };
    send(proto::forward_request::Body::Call(unanswered)).await.expect("the stream is open");
    leader.node.remove(NodeId(2)).await.expect("nobody depends on it");
    let us = (ClusterId(0xc1), NodeId(2));
    let standing = ask_standing(&*connector, us, leader.id, &leader.name(), Duration::from_secs(20)).await;
    assert_eq!(standing.expect("an answer"), Standing::Removed);

    // Whether it can still be sent does not matter.
    let _ = send(submit("too late")).await;
    // What was on its way still comes, such as a question for a pledge.
    let end = loop {
        match replies.message().await {
            Ok(reply) => assert!(reply.is_some(), "the stream ended without a word"),
            Err(status) => break status,
        }
    };
    assert!(end.message().contains("is not a member any more"), "{end:?}");
    leader.put("after it").await;
    assert!(!leader.machine.contains(&bytes("too late")), "nothing that a removed member says is taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_has_acknowledged_entries_has_taken_part() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    let other = cluster.followers(leader).next().expect("two followers");
    leader.put("acknowledged by all").await;
    cluster.agree_on(&bytes("acknowledged by all")).await;
    let connector = cluster.network.connector("node-9:1", None);
    let standing = |cluster: u64, node: u64| {
        let (connector, name, to) = (Arc::clone(&connector), leader.name(), leader.id);
        let us = (ClusterId(cluster), NodeId(node));
        async move { ask_standing(&*connector, us, to, &name, Duration::from_secs(5)).await }
    };
    assert_eq!(standing(0xc1, other.id.0).await.expect("an answer"), Standing::TookPart);
    assert_eq!(standing(0xc1, 9).await.expect("an answer"), Standing::Stranger);
    let mismatch = standing(0xbad, other.id.0).await.expect_err("another cluster");
    assert!(matches!(mismatch, AcquaintanceError::Mismatch(_)), "{mismatch:?}");
    leader.node.add_learner(NodeId(4), peer(4)).await.expect("a new id");
    assert_eq!(standing(0xc1, 4).await.expect("an answer"), Standing::Member);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_voter_stays() {
    let cluster = Cluster::start(1, Options::default()).await;
    assert_eq!(cluster.node(1).node.remove(NodeId(1)).await, Err(MemberError::LastVoter { id: NodeId(1) }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leadership_goes_where_it_is_sent() {
    let cluster = Cluster::start(3, Options::default()).await;
    for _ in 0..3 {
        let leader = cluster.leader().await;
        let successor = cluster.followers(leader).last().expect("two followers");
        leader.node.transfer_leader(successor.id).await.expect("a healthy successor");
        eventually("it leads", || successor.status().role == Role::Leader).await;
        leader.put(format!("led by {}", successor.id)).await;
    }
    let leader = cluster.leader().await;
    assert_eq!(leader.node.transfer_leader(NodeId(8)).await, Err(MemberError::NotFound { id: NodeId(8) }));
    leader.node.transfer_leader(leader.id).await.expect("nothing to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_shutdown_leaves_a_leader_behind() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    leader.put("before").await;
    let others: Vec<_> = cluster.followers(leader).collect();
    leader.node.shutdown().await;
    let leading = others.iter().filter(|node| node.status().role == Role::Leader).count();
    assert_eq!(leading, 1, "the successor led before the old leader was gone");
    others[0].put("after").await;
    assert_eq!(leader.status().role, Role::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_moves_is_followed() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await.id.0;
    let mover = if leader == 3 { 2 } else { 3 };
    cluster.kill(mover).await;
    cluster.node(leader).put("while it moved").await;
    let moved = Peer { name: "moved".to_owned(), address: "elsewhere:1".to_owned() };
    cluster.node(leader).node.update_peer(NodeId(mover), moved.clone()).await.expect("a member can move");
    cluster.start_node(mover).await;
    // It is nowhere to be found under its old name.
    cluster.network.move_listener(&format!("node-{mover}:1"), "elsewhere:1");
    cluster.node(mover).applied(&bytes("while it moved")).await;
    eventually("everybody knows", || {
        cluster.nodes.values().all(|node| node.status().members[&NodeId(mover)].peer == moved)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_initialized_once() {
    let cluster = Cluster::start(3, Options::default()).await;
    let members = [(NodeId(1), peer(1))].into_iter().collect();
    assert_eq!(cluster.node(1).node.initialize(members).await, Err(MemberError::AlreadyInitialized));
    let without_us = [(NodeId(2), peer(2))].into_iter().collect();
    assert_eq!(cluster.node(1).node.initialize(without_us).await, Err(MemberError::BadMembers));
}
