//! Writes whose answer is lost: asked for again with the same operation id, through any node, they are done once and are
//! answered as the first time.

use std::time::Duration;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::write::Write;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::door::Door;
use setpoint_cluster_tests::object::{
    THING, define_things, get, key, metadata, object, options, reason, revision_of, settled,
};
use setpoint_cluster_tests::testbed::{Testbed, patiently};
use tonic::Status;

/// What the client is told of a write.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    revision: u64,
    repeated: bool,
    object: Option<pb::Object>,
    blockers: Vec<pb::Blocker>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Create,
    Update,
    UpdateStatus,
    Apply,
    Patch,
    Delete,
    Transact,
}

/// In an order in which each has something to do.
const METHODS: [Method; 7] = [
    Method::Create,
    Method::Update,
    Method::UpdateStatus,
    Method::Apply,
    Method::Patch,
    Method::Transact,
    Method::Delete,
];

/// Several of each, as the order of a map on the wire is anybody's.
fn labels(thing: &mut pb::Object, round: usize) {
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        metadata(thing).labels.insert(name.into(), format!("{name}{round}"));
    }
}

fn thing(name: &str, round: usize) -> pb::Object {
    let mut thing = object(THING, name, &format!(r#"{{"replicas":{round}}}"#));
    labels(&mut thing, round);
    metadata(&mut thing).finalizers = vec!["example.com/cleanup".into()];
    thing
}

fn told(write: pb::WriteResponse) -> Told {
    let pb::WriteResponse { object, revision, repeated, .. } = write;
    Told { revision, repeated, object, blockers: Vec::new() }
}

/// Request number `round` of a thing, always the same for the same number.
async fn ask(client: &Client, method: Method, name: &str, round: usize) -> Result<Told, Status> {
    let mut objects = client.objects();
    let options = options("writer", &format!("{name}-{round}"));
    let mut one = thing(name, round);
    match method {
        Method::Create => objects
            .create(pb::CreateRequest { object: Some(one), options })
            .await
            .map(|it| told(it.into_inner())),
        Method::Update => objects
            .update(pb::UpdateRequest { object: Some(one), options })
            .await
            .map(|it| told(it.into_inner())),
        Method::UpdateStatus => {
            one.status = format!(r#"{{"ready":{round}}}"#).into();
            let request = pb::UpdateRequest { object: Some(one), options };
            objects.update_status(request).await.map(|it| told(it.into_inner()))
        }
        Method::Apply => {
            let request = pb::ApplyRequest { object: Some(one), options, force: true, status: false };
            objects.apply(request).await.map(|it| told(it.into_inner().write.unwrap_or_default()))
        }
        Method::Patch => {
            let patch = format!(r#"{{"spec":{{"replicas":{round}}}}}"#).into();
            let key = Some(key(THING, name));
            let request = pb::PatchRequest { key, patch, options, ..Default::default() };
            objects.patch(request).await.map(|it| told(it.into_inner()))
        }
        Method::Delete => {
            let request = pb::DeleteRequest { key: Some(key(THING, name)), options, ..Default::default() };
            let pb::DeleteResponse { object, revision, repeated, blockers, .. } =
                objects.delete(request).await?.into_inner();
            Ok(Told { revision, repeated, object, blockers })
        }
        Method::Transact => {
            let amounts = [("cpu", 1), ("memory", 2), ("gpu", 3), ("disk", 4)];
            let amounts = amounts.map(|(dimension, amount)| (dimension.to_owned(), amount)).into();
            let reserve = pb::Reserve { ledger: "pool".into(), owner: name.into(), amounts };
            let limits = [("*".to_owned(), 1_000)].into();
            let limits = pb::LedgerLimits { ledger: "pool".into(), limits };
            let other = thing(&format!("{name}-other"), round);
            let writes =
                [Write::Limits(limits), Write::Reserve(reserve), Write::Update(one), Write::Create(other)];
            let writes = writes.map(|write| pb::Write { write: Some(write) }).into();
            let request = pb::TransactRequest { writes, options, ..Default::default() };
            let answer = objects.transact(request).await?.into_inner();
            let object = answer.results.into_iter().nth(2).and_then(|it| it.object);
            let (revision, repeated) = (answer.revision, answer.repeated);
            Ok(Told { revision, repeated, object, blockers: Vec::new() })
        }
    }
}

/// Asks again everywhere, and finds the one answer there may be.
fn check(method: Method, done: u64, answers: &[Told]) -> Result<(), String> {
    for answer in answers {
        if answer.revision != done || !answer.repeated {
            return Err(format!("{method:?} was done at {done}, and asked for again: {answer:?}"));
        }
        if *answer != answers[0] {
            return Err(format!("{method:?} has two answers: {answer:?} and {:?}", answers[0]));
        }
        if answer.object.as_ref().map(revision_of) != Some(done) {
            return Err(format!("{method:?} is answered without its object: {answer:?}"));
        }
        if (method == Method::Delete) == answer.blockers.is_empty() {
            return Err(format!("{method:?} waits for {:?}", answer.blockers));
        }
    }
    Ok(())
}

async fn again(bed: &Testbed, method: Method, name: &str, round: usize) -> Vec<Told> {
    let mut answers = Vec::new();
    for client in &bed.clients {
        let one = std::slice::from_ref(client);
        let answer = settled(one, |client| async move { ask(&client, method, name, round).await }).await;
        answers.push(answer.unwrap_or_else(|error| panic!("{method:?} asked for again: {error:?}")));
    }
    answers
}

/// The revision of a thing; 0 if there is none.
async fn revision(client: &Client, name: &str) -> u64 {
    let one = std::slice::from_ref(client);
    match settled(one, |client| async move { get(&client, THING, name).await }).await {
        Ok(thing) => revision_of(&thing),
        Err(error) if error.reason() == Reason::NotFound => 0,
        Err(error) => panic!("{name} cannot be read: {error:?}"),
    }
}

/// Asks, and breaks the connection once the write is done, or has not been done for some time.
async fn lose_answer(
    door: &Door,
    through: &Client,
    beside: &Client,
    (method, name, round): (Method, &'static str, usize),
    before: u64,
) {
    door.hold_answers();
    let asking = tokio::spawn({
        let through = through.clone();
        async move { ask(&through, method, name, round).await }
    });
    for _ in 0..100 {
        if revision(beside, name).await > before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    door.slam();
    let lost = asking.await.expect("no panic").expect_err("the answer is lost");
    assert_eq!(reason(&lost), None, "nobody's refusal arrives: {lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_done_once() {
    let mut bed = Testbed::start("a_write_whose_answer_is_lost").await;
    define_things(&bed.clients).await;
    for (node, name) in ["one", "two"].into_iter().enumerate() {
        let door = Door::to(&bed.addresses()[node]).await.expect("a free port");
        let (through, beside) = (Client::new(&door.address()), bed.clients[(node + 1) % 3].clone());
        for (round, method) in METHODS.into_iter().enumerate() {
            let before = revision(&beside, name).await;
            let mut attempts = 0;
            while revision(&beside, name).await == before {
                // An election may be under way; then the node refuses, and that answer is lost as well.
                attempts += 1;
                assert!(attempts <= 20, "{method:?} is not done");
                door.open();
                patiently(|| through.revision()).await;
                lose_answer(&door, &through, &beside, (method, name, round), before).await;
            }
            let done = revision_of(&patiently(|| get(&beside, THING, name)).await);
            let answers = again(&bed, method, name, round).await;
            check(method, done, &answers).unwrap_or_else(|problem| panic!("{problem}"));
            // The check can fail: the same answers are wrong if the write had been done elsewhere, or twice.
            assert!(check(method, done + 1, &answers).is_err());
            let anew = Told { repeated: false, ..answers[0].clone() };
            assert!(check(method, done, &[answers[0].clone(), anew]).is_err());
        }
    }
    // What was remembered is still known after everybody was killed.
    (0..3).for_each(|node| bed.kill(node));
    (0..3).for_each(|node| bed.start_node(node));
    for node in 0..3 {
        bed.ready(node).await;
    }
    for (round, method) in METHODS.into_iter().enumerate() {
        let answers = again(&bed, method, "two", round).await;
        check(method, answers[0].revision, &answers).unwrap_or_else(|problem| panic!("{problem}"));
    }
    bed.hashes_agree(0).await;
    bed.no_panics();
}

/// The other half of not knowing: it may just as well not have arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_never_arrived_is_done_when_it_is_asked_for_again() {
    let bed = Testbed::start("a_write_that_never_arrived").await;
    define_things(&bed.clients).await;
    let door = Door::to(&bed.addresses()[0]).await.expect("a free port");
    let through = Client::with_timeout(&door.address(), Duration::from_secs(2));
    patiently(|| through.revision()).await;
    door.hold_requests();
    ask(&through, Method::Create, "lost", 0).await.expect_err("nobody is asked");
    door.slam();
    let one = &bed.clients[1..2];
    let first = settled(one, |client| async move { ask(&client, Method::Create, "lost", 0).await }).await;
    let first = first.expect("it is done now");
    let answers = again(&bed, Method::Create, "lost", 0).await;
    check(Method::Create, first.revision, &answers).unwrap_or_else(|problem| panic!("{problem}"));
    // The id stands for this request, whoever asks for another one.
    let other = pb::CreateRequest { object: Some(thing("another", 0)), options: options("writer", "lost-0") };
    let refused = settled(one, |client| {
        let other = other.clone();
        async move { client.objects().create(other).await.map(drop) }
    });
    assert_eq!(refused.await.expect_err("the id is used").reason(), Reason::Conflict);
    bed.no_panics();
}
