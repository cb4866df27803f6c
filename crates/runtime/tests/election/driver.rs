//! The driver over a server in this process, and a clock that stands still but for waits.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_runtime::election::{Claim, Election, Settings, Shards};
use setpoint_runtime::informer::{InformerSettings, Informers};
use setpoint_types::{Epoch, Revision};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::server::Server;

const LEASE: &str = "web.shard-0-of-1";
/// Longer than anything here takes by itself.
const PATIENCE: Duration = Duration::from_secs(120);

/// One process.
struct Member {
    shards: Shards,
    holder: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn member(server: &Server, seed: u64, settings: Settings) -> Member {
    let client = server.client(seed);
    let informers = Informers::new(client.clone(), InformerSettings::default());
    let options = settings.check().expect("good settings");
    let election = Election::new(&client, &informers, "web", "host", options).expect("good names");
    let election = election.observing(|| BTreeMap::from([("Node".to_owned(), Revision::new(9001))]));
    let (shards, holder, stop) = (election.shards(), election.holder().to_owned(), CancellationToken::new());
    let stopping = stop.clone();
    let task = tokio::spawn(async move {
        // The informers live as long as the process.
        let _informers = informers;
        election.run(stopping).await;
    });
    Member { shards, holder, stop, task }
}

fn of(shards: u32) -> Settings {
    Settings { shards, ..Settings::default() }
}

impl Member {
    /// Waits until it has so many shards.
    async fn has(&self, count: usize) -> Vec<Claim> {
        let mut changes = self.shards.changes();
        let waited = timeout(PATIENCE, async {
            loop {
                changes.mark_unchanged();
                let held = self.shards.held();
                if held.len() == count {
                    return held;
                }
                changes.changed().await.expect("the table is there");
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{:?} and not {count}", self.shards))
    }

    async fn leave(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("in time").expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_its_lease_by_one_stream_tells_what_it_has_seen_and_gives_it_back() {
    let server = Server::start();
    let one = member(&server, 1, of(1));
    let claim = one.has(1).await.pop().expect("one");
    assert_eq!((claim.fence.lease.as_str(), claim.fence.epoch), (LEASE, Epoch(1)));
    assert_eq!(server.lease(LEASE).holder, one.holder);
    sleep(Duration::from_secs(120)).await;
    assert!(claim.is_valid(Instant::now()), "it was renewed all the time");
    assert_eq!(server.streams(), 1);
    assert_eq!(server.observed(), BTreeMap::from([("Node".to_owned(), 9001)]));
    one.leave().await;
    assert!(!claim.is_valid(Instant::now()));
    assert_eq!(server.lease(LEASE).holder, "");
    assert_eq!(server.lease("web.member-0-of-1").holder, "");
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_once_the_last_run_has_ended() {
    let server = Server::start();
    let one = member(&server, 1, of(1));
    one.has(1).await;
    let other = member(&server, 2, of(1));
    assert_ne!(one.holder, other.holder, "both were called the same");
    sleep(Duration::from_secs(5)).await;
    assert!(other.shards.claim(0).is_none());
    let run = one.shards.begin_run(7).expect("it leads");
    let began = Instant::now();
    one.stop.cancel();
    sleep(Duration::from_secs(4)).await;
    assert!(run.claim().is_valid(Instant::now()), "its runs have their time");
    assert!(one.shards.begin_run(7).is_none() && one.shards.claim(7).is_none(), "but none begins");
    assert!(other.shards.held().is_empty());
    drop(run);
    let claim = other.has(1).await.pop().expect("one");
    assert!(began.elapsed() < Duration::from_millis(4_500), "{:?}", began.elapsed());
    assert_eq!(claim.fence.epoch, Epoch(2));
    one.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_end_is_cancelled_at_the_deadline() {
    let server = Server::start();
    let one = member(&server, 1, of(1));
    one.has(1).await;
    let other = member(&server, 2, of(1));
    sleep(Duration::from_secs(5)).await;
    let run = one.shards.begin_run(7).expect("it leads");
    let began = Instant::now();
    one.stop.cancel();
    run.claim().lost().await;
    assert_eq!(began.elapsed().as_secs(), 10, "as the settings say");
    other.has(1).await;
    assert!(began.elapsed() < Duration::from_millis(10_500));
    one.leave().await;
    drop(run);
}

#[tokio::test(start_paused = true)]
async fn without_a_server_a_leader_steps_down_in_time_and_goes_on_later() {
    let server = Server::start();
    let one = member(&server, 1, of(1));
    let claim = one.has(1).await.pop().expect("one");
    sleep(Duration::from_secs(30)).await;
    server.down(true);
    let gone = Instant::now();
    claim.lost().await;
    let lost = gone.elapsed();
    assert!((6..=12).contains(&lost.as_secs()), "at most 80 % of 15 s after the last renewal: {lost:?}");
    assert!(one.shards.claim(7).is_none() && one.shards.begin_run(7).is_none());
    sleep(Duration::from_secs(300)).await;
    assert!(one.shards.held().is_empty());
    server.down(false);
    let next = one.has(1).await.pop().expect("one");
    assert_eq!(next.fence.epoch, Epoch(2), "the old time had run out");
    assert!(!claim.is_valid(Instant::now()), "what is lost stays lost");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_not_noticed() {
    let server = Server::start();
    let one = member(&server, 1, of(1));
    let claim = one.has(1).await.pop().expect("one");
    for _ in 0..5 {
        sleep(Duration::from_secs(20)).await;
        server.down(true);
        sleep(Duration::from_secs(3)).await;
        server.down(false);
    }
    sleep(Duration::from_secs(20)).await;
    assert!(claim.is_valid(Instant::now()));
    assert!(server.streams() > 1, "the stream was opened again");
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_that_is_refused_is_not_a_lost_lease() {
    let server = Server::start();
    let one = member(&server, 1, of(1));
    let claim = one.has(1).await.pop().expect("one");
    server.refuse(true);
    sleep(Duration::from_secs(8)).await;
    assert!(claim.is_valid(Instant::now()), "it has its time");
    server.refuse(false);
    sleep(Duration::from_secs(30)).await;
    assert!(claim.is_valid(Instant::now()));
    server.refuse(true);
    claim.lost().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_away_is_lost_by_the_watch_the_keep_alive_or_a_fenced_write() {
    let server = Server::start();
    let one = member(&server, 1, of(1));
    let claim = one.has(1).await.pop().expect("one");
    // By the watch: at once.
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    server.evict(LEASE, false);
    claim.lost().await;
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    // By the next keep-alive.
    let claim = one.has(1).await.pop().expect("one");
    assert_eq!(claim.fence.epoch, Epoch(2));
    let began = Instant::now();
    server.evict(LEASE, true);
    claim.lost().await;
    assert!(began.elapsed() <= Duration::from_secs(5), "{:?}", began.elapsed());
    // By a write, if that is first.
    let claim = one.has(1).await.pop().expect("one");
    assert_eq!(claim.fence.epoch, Epoch(3));
    server.evict(LEASE, true);
    one.shards.fenced(&claim);
    assert!(!claim.is_valid(Instant::now()), "there is no further write");
    let next = one.has(1).await.pop().expect("one");
    assert_eq!(next.fence.epoch, Epoch(4));
    one.shards.fenced(&claim);
    assert!(next.is_valid(Instant::now()), "what is said of an old claim is not said of this one");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_vanishes_is_replaced_when_its_time_is_up_and_its_shards_are_spread() {
    let server = Server::start();
    let members = [1, 2, 3].map(|seed| member(&server, seed, of(6)));
    for member in &members {
        member.has(2).await;
    }
    let [one, two, three] = members;
    let claims = one.shards.held();
    one.task.abort();
    assert!(one.task.await.expect_err("it was aborted").is_cancelled());
    assert!(one.shards.held().is_empty() && !claims[0].is_valid(Instant::now()), "nobody goes on");
    let began = Instant::now();
    two.has(3).await;
    three.has(3).await;
    assert!((10..=17).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    two.leave().await;
    three.has(6).await;
}

#[tokio::test(start_paused = true)]
async fn a_membership_that_is_lost_costs_no_shard() {
    let server = Server::start();
    let one = member(&server, 1, of(2));
    let claims = one.has(2).await;
    sleep(Duration::from_secs(1)).await;
    server.evict("web.member-0-of-2", false);
    sleep(Duration::from_secs(60)).await;
    assert!(claims.iter().all(|claim| claim.is_valid(Instant::now())));
    assert_eq!(server.lease("web.member-0-of-2").holder, one.holder, "it has joined again");
    let other = member(&server, 2, of(2));
    other.has(1).await;
    one.has(1).await;
}

#[tokio::test(start_paused = true)]
async fn another_number_of_shards_waits_until_the_first_is_gone() {
    let server = Server::start();
    let one = member(&server, 1, of(2));
    one.has(2).await;
    let other = member(&server, 2, of(3));
    sleep(Duration::from_secs(60)).await;
    assert!(other.shards.held().is_empty());
    assert_eq!(one.shards.held().len(), 2);
    one.leave().await;
    other.has(3).await;
}
