//! The task that writes what was told, as it falls due, until it is told to stop.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use setpoint_client::{Typed, Writable};
use setpoint_types::kinds::{Decision, Event};
use tokio_util::sync::CancellationToken;

use super::book::Wrote;
use super::tally::Tallied;
use super::writer::write;
use super::{Recorder, Shared, Shelf};
use crate::queue::core::Bucket;
use crate::queue::{Clock, Moment};

type UnderWay<'a> = FuturesUnordered<BoxFuture<'a, ()>>;

impl Recorder {
    /// Writes until `shutdown`, then what is left, for as long as the settings allow. What is told after that is lost.
    pub async fn run(&self, shutdown: CancellationToken) {
        let shared = &*self.shared;
        let mut under_way: UnderWay<'_> = FuturesUnordered::new();
        let mut rate =
            Bucket::per_second(shared.settings.writes_per_second, shared.settings.writes_per_second);
        loop {
            let next = shared.start(&mut under_way, Some(&mut rate));
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                () = shared.work.notified() => {}
                () = shared.sleep_until(next) => {}
            }
        }
        let mut deadline = pin!(tokio::time::sleep(Duration::from_millis(shared.settings.flush_timeout_ms)));
        shared.hurry();
        loop {
            let next = shared.start(&mut under_way, None);
            if under_way.is_empty() && next.is_none() {
                break;
            }
            tokio::select! {
                () = &mut deadline => break,
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                () = shared.work.notified() => shared.hurry(),
                () = shared.sleep_until(next) => {}
            }
        }
        shared.close();
    }
}

impl Shared {
    /// Starts what is due, as far as there may be more under way and more at this rate, and tells when to look again.
    fn start<'a>(&'a self, under_way: &mut UnderWay<'a>, mut rate: Option<&mut Bucket>) -> Option<Moment> {
        while under_way.len() < self.settings.writes_at_once {
            let now = self.now();
            let next = self.next_due()?;
            if next > now {
                return Some(next);
            }
            if let Some(rate) = &mut rate
                && let Err(later) = rate.take(now)
            {
                return Some(later);
            }
            let job = self.job(&self.events, now).or_else(|| self.job(&self.decisions, now));
            under_way.extend(job);
        }
        // One that ends makes room.
        None
    }

    fn job<'a, T>(&'a self, shelf: &'a Shelf<T>, now: Moment) -> Option<BoxFuture<'a, ()>>
    where
        T: Tallied + Writable<Object = Typed<T>>,
        T::Spec: Clone + Send + Sync,
        T::Status: Clone + Default + Send + Sync,
        T::Latest: Sync,
    {
        let job = shelf.book.lock().next(now)?;
        Some(Box::pin(async move {
            let id = job.id;
            let wrote = write(&self.client, job).await;
            self.metrics.of(shelf.label).wrote(matches!(wrote, Wrote::Done(_)));
            let mut book = shelf.book.lock();
            book.done(id, wrote, self.now(), self.client.entropy().fraction());
            self.metrics.of(shelf.label).state(book.len(), book.unwritten(), book.lost());
            drop(book);
            self.room.notify_waiters();
        }))
    }

    fn next_due(&self) -> Option<Moment> {
        let (events, decisions) = (self.events.book.lock().next_due(), self.decisions.book.lock().next_due());
        events.into_iter().chain(decisions).min()
    }

    async fn sleep_until(&self, next: Option<Moment>) {
        match next {
            Some(next) => self.clock.sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    fn hurry(&self) {
        self.events.book.lock().hurry(self.now());
        self.decisions.book.lock().hurry(self.now());
    }

    /// Whoever waits for room waits no longer: there will be none.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.end::<Event>(&self.events);
        self.end::<Decision>(&self.decisions);
        self.room.notify_waiters();
    }

    fn end<T: Tallied>(&self, shelf: &Shelf<T>)
    where
        T::Spec: Clone,
        T::Status: Clone,
    {
        let mut book = shelf.book.lock();
        book.abandon();
        let lost = book.lost();
        self.metrics.of(shelf.label).state(0, 0, lost);
        if lost > 0 {
            tracing::warn!(record = shelf.label, lost, "not everything that was told was written");
        }
    }
}
