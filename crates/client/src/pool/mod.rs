//! The endpoints of one cluster: a wire to each, and whom to ask.
//!
//! - [`balancer`]: the choice, as pure functions
//! - [`probe`]: asking nodes who leads, and whether those left alone are back
//!
//! Requests take a [`Slot`], and report in it how they fared.

mod balancer;
mod probe;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

pub use balancer::Purpose;
use balancer::{Balancer, Pick};
use probe::Probes;

use crate::attempt::Health;
use crate::client::BuildError;
use crate::entropy::Entropy;
use crate::settings::Settings;
use crate::wire::{Apart, Connector, Wire, with_token};

/// The wires of one client.
///
/// **Guarantees**: an endpoint whose breaker is open is sent nothing; those that recover are found again without a request of the user's
/// ([`probe`]). **Does not promise** fairness between calls that wait for the same endpoint.
pub struct Pool {
    wires: Vec<Wire>,
    /// More of them, for what must not hold up the others.
    aparts: Vec<Option<Apart>>,
    token: Option<http::HeaderValue>,
    balancer: Mutex<Balancer>,
    entropy: Entropy,
    probes: Mutex<Probes>,
}

impl Pool {
    pub fn new(
        settings: &Settings,
        connector: &dyn Connector,
        entropy: Entropy,
    ) -> Result<Arc<Self>, BuildError> {
        let token = settings.token.as_ref().map(|token| token.header()).transpose()?;
        let (mut wires, mut aparts) = (Vec::new(), Vec::new());
        for endpoint in &settings.endpoints {
            wires.push(bearing(connector.connect(endpoint)?, token.as_ref()));
            aparts.push(connector.apart(endpoint));
        }
        let balancer = Mutex::new(Balancer::new(wires.len(), settings.breaker));
        Ok(Arc::new(Self { wires, aparts, token, balancer, entropy, probes: Mutex::new(Probes::default()) }))
    }

    /// The wire to one of them.
    pub fn wire(&self, index: usize) -> Wire {
        self.wires[index].clone()
    }

    /// One of its own, where that makes a difference.
    pub fn own_wire(&self, index: usize) -> Wire {
        let more = self.aparts[index].as_ref().and_then(|more| more().ok());
        // It is made as the shared one was, which went well.
        more.map_or_else(|| self.wire(index), |wire| bearing(wire, self.token.as_ref()))
    }

    /// A place to send a request to, as soon as there is one; none if that is not before the deadline.
    pub async fn slot(
        self: &Arc<Self>,
        purpose: Purpose,
        avoid: &[usize],
        deadline: Instant,
    ) -> Option<Slot> {
        loop {
            self.probe(purpose);
            let now = Instant::now();
            let picked = {
                let mut balancer = self.balancer.lock();
                let picked = balancer.pick(now, purpose, avoid, self.entropy.draw());
                if let Pick::Use(index) = picked {
                    balancer.sent(index);
                }
                picked
            };
            match picked {
                Pick::Use(index) => return Some(Slot { pool: self.clone(), index, judged: false }),
                Pick::Wait(until) if until >= deadline => return None,
                Pick::Wait(until) => sleep_until(until).await,
            }
        }
    }

    fn judged(&self, index: usize, health: Health, patience: Option<Duration>) {
        let fraction = self.entropy.fraction();
        self.balancer.lock().judged(index, health, patience, Instant::now(), fraction);
    }
}

fn bearing(wire: Wire, token: Option<&http::HeaderValue>) -> Wire {
    match token {
        Some(token) => with_token(wire, token.clone()),
        None => wire,
    }
}

/// A request on its way to one endpoint, or a stream from there. Dropped, it counts as ended.
pub struct Slot {
    pool: Arc<Pool>,
    pub index: usize,
    judged: bool,
}

impl Slot {
    pub fn wire(&self) -> Wire {
        self.pool.wire(self.index)
    }

    pub fn own_wire(&self) -> Wire {
        self.pool.own_wire(self.index)
    }

    pub fn report(&mut self, health: Health, patience: Option<Duration>) {
        self.judged = true;
        self.pool.judged(self.index, health, patience);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.balancer.lock().ended(self.index, self.judged, Instant::now());
    }
}
