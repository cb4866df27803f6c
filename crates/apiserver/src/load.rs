//! What clients may have of a node at a time: seats for requests, places for streams and watches.
//!
//! The server's layer asks before a request is read. Services know more: one that has to read many keys changes its seat
//! for one of the few that are for that; one that begins to wait for somebody else gives it back.
//!
//! Not here: which request is of which level (`server`), and whose turn it is (`access`).

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_access::{
    Flow, FlowKey, FlowOptions, Full, Level, Permit, Principal, Seats, Share, Tally, TallyOptions, TooMany,
};
use tonic::Extensions;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    pub flow: FlowOptions,
    /// Open streams, without those of keep-alives and health, of which there may be as many besides.
    pub streams: TallyOptions,
    /// Watches. A stream of etcd's may have many.
    pub watches: TallyOptions,
    /// Logs and commands that are passed on between clients and agents.
    pub sessions: TallyOptions,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            flow: FlowOptions::default(),
            streams: TallyOptions { client_max: 16 << 10, max: 128 << 10 },
            watches: TallyOptions { client_max: 128 << 10, max: 1 << 20 },
            // One that nobody reads holds about a mebibyte: what a connection takes in before somebody asks for it.
            sessions: TallyOptions { client_max: 64, max: 256 },
        }
    }
}

/// Clones share everything.
#[derive(Clone)]
pub struct Load {
    pub flow: Flow,
    pub streams: Tally,
    /// Streams of keep-alives and health: nothing else can take their places.
    pub signs: Tally,
    pub watches: Tally,
    pub sessions: Tally,
}

impl Default for Load {
    fn default() -> Self {
        Self::new(LoadOptions::default())
    }
}

impl Load {
    pub fn new(options: LoadOptions) -> Self {
        let LoadOptions { flow, streams, watches, sessions } = options;
        let tally = Tally::new;
        Self {
            flow: Flow::new(flow),
            streams: tally(streams),
            signs: tally(streams),
            watches: tally(watches),
            sessions: tally(sessions),
        }
    }

    /// What the sender of a request has of the watches, by way of one stream; nothing yet.
    pub fn watches_of(&self, extensions: &Extensions) -> Share {
        self.watches.share(client(extensions))
    }

    /// Changes the seat of a request for one of those for many objects, as soon as there is one. It is held until the answer
    /// is sent, if it is the layer's, and until what is returned here is dropped.
    pub async fn to_bulk(&self, extensions: &Extensions) -> Result<Seat, TooMany> {
        let seat = extensions.get::<Seat>().cloned().unwrap_or_default();
        // First: those who wait for a rare seat must not sit on the common ones.
        seat.give_back();
        let permit = self.flow.admit(Level::Bulk, client(extensions), Seats(1)).await?;
        *seat.0.lock() = Some(permit);
        Ok(seat)
    }
}

/// Who sent a request, as far as sharing is concerned.
pub fn client(extensions: &Extensions) -> FlowKey {
    let plain = extensions.get::<TcpConnectInfo>();
    let tls = || extensions.get::<TlsConnectInfo<TcpConnectInfo>>().map(TlsConnectInfo::get_ref);
    let address = plain.or_else(tls).and_then(TcpConnectInfo::remote_addr);
    FlowKey::of(extensions.get::<Principal>(), address.map(|address| address.ip()))
}

/// The seat of a request, in its extensions if its service may want to give it back early. Clones share it; it is given
/// back with the last of them.
#[derive(Clone, Default)]
pub struct Seat(Arc<Mutex<Option<Permit>>>);

impl Seat {
    pub fn new(permit: Permit) -> Self {
        Self(Arc::new(Mutex::new(Some(permit))))
    }

    pub fn give_back(&self) {
        let permit = self.0.lock().take();
        drop(permit);
    }

    /// The request will wait for something that others decide.
    pub fn leave(extensions: &Extensions) {
        if let Some(seat) = extensions.get::<Self>() {
            seat.give_back();
        }
    }
}

/// Why there is no place for another stream or watch, and what to do about it.
pub fn sentence(full: Full, what: &str, settings: &str) -> String {
    match full {
        Full::Client(most) => {
            format!("this client has {most} {what}, its most; end some, or raise --{settings}-per-client")
        }
        Full::Node(most) => {
            format!("this node has {most} {what}, its most; try another one, or raise --{settings}")
        }
    }
}
