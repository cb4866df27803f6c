//! Workers, producers and shutdown around the queue, on tokio's paused clock: it moves only when everybody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use setpoint_runtime::queue::{
    Added, Ask, Drain, Offered, Outcome, Priority, Queue, QueueMetrics, Refusal, Running, Seams, Settings,
    TenantOf,
};
use tokio::time::{Instant, timeout};

type Keys = Queue<&'static str>;

fn queue(settings: Settings) -> Keys {
    let options = settings.check().expect("settings within bounds");
    Queue::new(options, TenantOf::single(), Seams::tokio(7))
}

fn bounded(keys_max: usize) -> Keys {
    queue(Settings { keys_max, bulk_percent_max: 100, ..Settings::default() })
}

/// Waits without drawing from chance.
fn steady() -> Settings {
    Settings { backoff_jitter_percent: 0, backoff_first_ms: 1000, ..Settings::default() }
}

async fn next(queue: &Keys) -> Running<&'static str> {
    queue.next().await.expect("the queue is open")
}

/// Nothing comes for an hour.
async fn assert_quiet(queue: &Keys) {
    assert!(timeout(Duration::from_secs(3600), queue.next()).await.is_err());
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_is_woken_by_an_add() {
    let queue = queue(Settings::default());
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { **next(&queue).await.key() }
    });
    tokio::task::yield_now().await;
    assert_eq!(queue.try_add("a", Priority::Normal).expect("room"), Added::Queued);
    assert_eq!(worker.await.expect("no panic"), "a");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_add_comes_at_its_time_and_an_earlier_one_before_it() {
    let queue = queue(Settings::default());
    let start = Instant::now();
    queue.try_add("late", Ask::after(seconds(60), Priority::Normal)).expect("room");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut seen = Vec::new();
            for _ in 0..2 {
                let running = next(&queue).await;
                seen.push((**running.key(), start.elapsed().as_secs()));
                running.finish(Outcome::Done);
            }
            seen
        }
    });
    tokio::task::yield_now().await;
    queue.try_add("early", Ask::after(seconds(5), Priority::Normal)).expect("room");
    assert_eq!(worker.await.expect("no panic"), [("early", 5), ("late", 60)]);
}

#[tokio::test(start_paused = true)]
async fn another_worker_keeps_watch_over_the_timers_of_one_that_took_a_key() {
    let queue = queue(Settings::default());
    let start = Instant::now();
    let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    for _ in 0..2 {
        let (queue, sender) = (queue.clone(), sender.clone());
        tokio::spawn(async move {
            while let Some(running) = queue.next().await {
                sender.send((**running.key(), start.elapsed().as_secs())).await.expect("somebody listens");
                // Busy for longer than the other key's time.
                tokio::time::sleep(seconds(100)).await;
                running.finish(Outcome::Done);
            }
        });
    }
    tokio::task::yield_now().await;
    queue.try_add("second", Ask::after(seconds(20), Priority::Normal)).expect("room");
    queue.try_add("first", Ask::after(seconds(10), Priority::Normal)).expect("room");
    assert_eq!(seen.recv().await, Some(("first", 10)));
    assert_eq!(seen.recv().await, Some(("second", 20)));
    queue.shut_down(Drain::Ready);
}

#[tokio::test(start_paused = true)]
async fn another_worker_keeps_watch_over_the_timers_of_one_that_was_dropped() {
    let queue = queue(Settings::default());
    let worker = || {
        let queue = queue.clone();
        tokio::spawn(async move { **next(&queue).await.key() })
    };
    // Each add wakes one worker, in the order in which they came to wait: only the first knows of the timer.
    let (first, second) = (worker(), worker());
    tokio::task::yield_now().await;
    queue.try_add("a", Ask::after(seconds(10), Priority::Normal)).expect("room");
    tokio::time::sleep(seconds(5)).await;
    first.abort();
    assert!(first.await.is_err());
    let key = timeout(seconds(60), second).await.expect("it was told");
    assert_eq!(key.expect("no panic"), "a");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_counts_as_failed_and_comes_again() {
    let queue = queue(steady());
    let start = Instant::now();
    queue.try_add("a", Priority::Normal).expect("room");
    let panicked = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _running = next(&queue).await;
            panic!("the reconcile's, not the queue's");
        }
    });
    assert!(panicked.await.is_err());
    let running = next(&queue).await;
    assert_eq!((running.failures(), start.elapsed()), (1, seconds(1)));
    running.finish(Outcome::Done);
    assert_quiet(&queue).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_shortens_a_backoff_and_the_end_of_the_backoff_stays() {
    let queue = queue(Settings { backoff_first_ms: 100_000, event_wait_percent: 10, ..steady() });
    let start = Instant::now();
    queue.try_add("a", Priority::Normal).expect("room");
    next(&queue).await.finish(Outcome::Failed);
    queue.try_add("a", Priority::Normal).expect("room");
    let early = next(&queue).await;
    assert_eq!((early.failures(), start.elapsed()), (1, seconds(10)));
    early.finish(Outcome::Failed);
    let retry = next(&queue).await;
    assert_eq!((retry.failures(), start.elapsed()), (1, seconds(100)));
    retry.finish(Outcome::Failed);
    let retry = next(&queue).await;
    assert_eq!((retry.failures(), start.elapsed()), (2, seconds(300)));
    retry.finish(Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn a_producer_waits_for_room_and_a_try_gives_the_key_back() {
    let queue = bounded(1);
    queue.try_add("a", Priority::Normal).expect("room");
    let refused = queue.try_add("b", Priority::Normal).expect_err("no room");
    assert_eq!((refused.key, refused.reason), ("b", Refusal::Full));
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move { queue.add("b", Priority::Normal).await }
    });
    tokio::time::sleep(seconds(1)).await;
    assert!(!producer.is_finished());
    next(&queue).await.finish(Outcome::Done);
    assert_eq!(producer.await.expect("no panic").expect("open"), Added::Queued);
    assert_eq!(**next(&queue).await.key(), "b");
}

#[tokio::test(start_paused = true)]
async fn dropped_offers_come_back_by_a_resync_once_there_is_room() {
    let queue = bounded(2);
    assert_eq!(queue.offer("a", Priority::Normal), Offered::Added(Added::Queued));
    assert_eq!(queue.offer("b", Priority::Normal), Offered::Added(Added::Queued));
    assert_eq!(queue.offer("c", Priority::Normal), Offered::Overflowed);
    let resync = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut resyncs = 0;
            while queue.overflowed().await {
                resyncs += 1;
                for key in ["a", "b", "c"] {
                    queue.add(key, Priority::Bulk).await.expect("open");
                }
            }
            resyncs
        }
    });
    let mut seen = Vec::new();
    while let Ok(Some(running)) = timeout(seconds(5), queue.next()).await {
        seen.push(**running.key());
        running.finish(Outcome::Done);
    }
    assert!(seen.contains(&"c"), "{seen:?}");
    queue.shut_down(Drain::Ready);
    assert_eq!(resync.await.expect("no panic"), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_hands_out_what_is_ready_and_waits_for_what_runs() {
    let queue = queue(Settings::default());
    for key in ["a", "b"] {
        queue.try_add(key, Priority::Normal).expect("room");
    }
    queue.try_add("later", Ask::after(seconds(60), Priority::Normal)).expect("room");
    let running = next(&queue).await;
    queue.shut_down(Drain::Ready);
    assert_eq!(queue.try_add("c", Priority::Normal).expect_err("closed").reason, Refusal::ShutDown);
    assert_eq!(queue.add("c", Priority::Normal).await.expect_err("closed").reason, Refusal::ShutDown);
    assert_eq!(queue.offer("c", Priority::Normal), Offered::ShutDown);
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drained().await }
    });
    next(&queue).await.finish(Outcome::Done);
    assert!(queue.next().await.is_none());
    assert!(!drained.is_finished());
    running.finish(Outcome::Done);
    assert_eq!(drained.await.expect("no panic"), 1, "the one whose time has not come");
}

#[tokio::test(start_paused = true)]
async fn shutdown_can_leave_behind_what_is_ready_and_wakes_whoever_waits() {
    let queue = bounded(2);
    queue.try_add("a", Priority::Normal).expect("room");
    let running = next(&queue).await;
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    tokio::task::yield_now().await;
    queue.shut_down(Drain::Running);
    assert!(worker.await.expect("no panic"));
    running.finish(Outcome::Failed);
    assert_eq!(queue.drained().await, 1, "the one that failed");
    assert!(!queue.overflowed().await);
}

#[tokio::test(start_paused = true)]
async fn the_limit_on_starts_holds_for_all_keys_together() {
    let queue = queue(Settings { starts_per_second: 10, starts_burst: 1, ..Settings::default() });
    let start = Instant::now();
    for key in ["a", "b", "c", "d"] {
        queue.try_add(key, Priority::Normal).expect("room");
    }
    for _ in 0..4 {
        next(&queue).await.finish(Outcome::Done);
    }
    assert_eq!(start.elapsed(), Duration::from_millis(300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_many_workers_and_producers_every_add_is_answered_and_no_key_runs_twice_at_once() {
    const KEYS: usize = 64;
    const ADDS: usize = 5_000;
    let settings = Settings { keys_max: KEYS / 2, starts_per_second: 0, ..Settings::default() };
    let options = settings.check().expect("settings within bounds");
    let queue: Queue<usize> = Queue::new(options, TenantOf::single(), Seams::tokio(3));
    // What was added, what the last run saw of it, and how many run.
    let cells: Arc<Vec<[AtomicUsize; 3]>> = Arc::new((0..KEYS).map(|_| Default::default()).collect());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (queue, cells) = (queue.clone(), cells.clone());
            tokio::spawn(async move {
                while let Some(running) = queue.next().await {
                    let [added, seen, runs] = &cells[**running.key()];
                    assert_eq!(runs.fetch_add(1, Ordering::SeqCst), 0, "Q2");
                    seen.store(added.load(Ordering::SeqCst), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert_eq!(runs.fetch_sub(1, Ordering::SeqCst), 1, "Q2");
                    running.finish(Outcome::Done);
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..2)
        .map(|producer| {
            let (queue, cells) = (queue.clone(), cells.clone());
            tokio::spawn(async move {
                for add in 0..ADDS {
                    let key = (add * 31 + producer * 7) % KEYS;
                    cells[key][0].fetch_add(1, Ordering::SeqCst);
                    queue.add(key, Priority::Normal).await.expect("open");
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("no panic");
    }
    queue.shut_down(Drain::Ready);
    assert_eq!(queue.drained().await, 0);
    for worker in workers {
        worker.await.expect("no panic");
    }
    for [added, seen, _] in cells.iter() {
        assert_eq!(added.load(Ordering::SeqCst), seen.load(Ordering::SeqCst), "Q1");
    }
}

#[tokio::test(start_paused = true)]
async fn every_metric_is_shown_under_the_controllers_name() {
    let queue = queue(Settings { keys_max: 3, ..steady() });
    let mut registry = Registry::with_prefix("setpoint");
    let metrics = QueueMetrics::new(&mut registry);
    queue.show("replicas", &metrics);
    let other = bounded(1);
    other.show("other", &metrics);
    for key in ["a", "b"] {
        queue.try_add(key, Priority::Normal).expect("room");
        queue.try_add(key, Priority::Normal).expect("room");
    }
    next(&queue).await.finish(Outcome::Failed);
    let running = next(&queue).await;
    queue.try_add("c", Priority::Urgent).expect("room");
    assert_eq!(queue.offer("d", Priority::Urgent), Offered::Overflowed);
    tokio::time::advance(Duration::from_millis(500)).await;
    let mut text = String::new();
    encode(&mut text, &registry).expect("metrics as text");
    for line in [
        r#"setpoint_queue_adds_total{controller="replicas"} 5"#,
        r#"setpoint_queue_adds_joined_total{controller="replicas"} 2"#,
        r#"setpoint_queue_adds_refused_total{controller="replicas"} 0"#,
        r#"setpoint_queue_adds_overflowed_total{controller="replicas"} 1"#,
        r#"setpoint_queue_failures_total{controller="replicas"} 1"#,
        r#"setpoint_queue_retries_total{controller="replicas"} 0"#,
        r#"setpoint_queue_duration_seconds_count{controller="replicas"} 2"#,
        r#"setpoint_queue_work_duration_seconds_count{controller="replicas"} 1"#,
        r#"setpoint_queue_depth{controller="replicas",priority="urgent"} 1"#,
        r#"setpoint_queue_depth{controller="replicas",priority="bulk"} 0"#,
        r#"setpoint_queue_delayed{controller="replicas"} 1.0"#,
        r#"setpoint_queue_running{controller="replicas"} 1.0"#,
        r#"setpoint_queue_tenants{controller="replicas"} 1.0"#,
        r#"setpoint_queue_oldest_age_seconds{controller="replicas"} 0.5"#,
        r#"setpoint_queue_longest_running_seconds{controller="replicas"} 0.5"#,
        r#"setpoint_queue_unfinished_work_seconds{controller="replicas"} 0.5"#,
        r#"setpoint_queue_resync_owed{controller="replicas"} 1.0"#,
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
    let described = text.lines().filter(|line| line.starts_with("# TYPE setpoint_queue_depth")).count();
    assert_eq!(described, 1, "a name may be described only once:\n{text}");
    assert!(text.contains(r#"setpoint_queue_running{controller="other"}"#), "{text}");
    running.finish(Outcome::Done);
    drop(queue);
    let mut text = String::new();
    encode(&mut text, &registry).expect("metrics as text");
    assert!(
        !text.contains("replicas") && text.contains("other"),
        "the registry does not keep the queue alive"
    );
}
