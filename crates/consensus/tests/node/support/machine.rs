//! The simplest machine: a list of the commands it was given, in order.
//!
//! In memory, with one file that `flush` writes: what is not flushed is lost when the machine is opened again, as with
//! a real one that was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use setpoint_consensus::{Applied, Batch, Committed, Machine, MachineFailure, Payload, Position};
use tokio::sync::watch;

#[derive(Clone, Default)]
struct State {
    applied: Applied,
    commands: Vec<Bytes>,
    stamps: Vec<u64>,
}

pub struct ToyMachine {
    file: PathBuf,
    state: Mutex<State>,
    count: watch::Sender<usize>,
    delay: Mutex<Duration>,
    fails: Mutex<bool>,
    pub checkpoints: Mutex<usize>,
    pub installs: Mutex<usize>,
}

impl ToyMachine {
    pub fn open(directory: &Path) -> Self {
        fs::create_dir_all(directory).expect("the test's directory is writable");
        let file = directory.join("state");
        let state = fs::read(&file).map(|bytes| decode(bytes.into())).unwrap_or_default();
        let count = watch::Sender::new(state.commands.len());
        Self {
            file,
            state: Mutex::new(state),
            count,
            delay: Mutex::default(),
            fails: Mutex::default(),
            checkpoints: Mutex::default(),
            installs: Mutex::default(),
        }
    }

    pub fn commands(&self) -> Vec<Bytes> {
        self.state.lock().commands.clone()
    }

    pub fn len(&self) -> usize {
        self.state.lock().commands.len()
    }

    pub fn membership(&self) -> Option<Bytes> {
        self.state.lock().applied.membership.clone()
    }

    /// The stamps of the entries that carried commands, in order.
    pub fn stamps(&self) -> Vec<u64> {
        self.state.lock().stamps.clone()
    }

    pub fn contains(&self, command: &Bytes) -> bool {
        self.state.lock().commands.contains(command)
    }

    /// Returns when `command` is applied here.
    pub async fn applied_command(&self, command: &Bytes) {
        let mut count = self.count.subscribe();
        while !self.contains(command) {
            count.changed().await.expect("the machine outlives the wait");
        }
    }

    /// Makes every apply take at least so long.
    pub fn slow_down(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    /// Makes the next apply fail.
    pub fn fail(&self) {
        *self.fails.lock() = true;
    }
}

impl Machine for ToyMachine {
    fn applied(&self) -> Result<Applied, MachineFailure> {
        Ok(self.state.lock().applied.clone())
    }

    fn apply(&self, entries: Vec<Committed>) -> Result<(), MachineFailure> {
        let delay = *self.delay.lock();
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        if *self.fails.lock() {
            return Err(MachineFailure::new("the test asked for it"));
        }
        let mut state = self.state.lock();
        for Committed { position, payload } in entries {
            let expected = state.applied.position.map_or(0, |before| before.index + 1);
            assert_eq!(position.index, expected, "entries are applied in order and once");
            state.applied.position = Some(position);
            match payload {
                Payload::Blank => {}
                Payload::Batch(batch) => push(&mut state, &batch),
                Payload::Membership(bytes) => state.applied.membership = Some(bytes),
            }
        }
        self.count.send_replace(state.commands.len());
        Ok(())
    }

    fn flush(&self) -> Result<Applied, MachineFailure> {
        let state = self.state.lock().clone();
        let new = self.file.with_extension("new");
        fs::write(&new, encode(&state)).map_err(MachineFailure::new)?;
        fs::rename(&new, &self.file).map_err(MachineFailure::new)?;
        Ok(state.applied)
    }

    fn checkpoint(&self, directory: &Path) -> Result<Applied, MachineFailure> {
        *self.checkpoints.lock() += 1;
        let state = self.state.lock().clone();
        // Several files, one of them empty and one larger than a chunk of the transfer.
        fs::write(directory.join("state"), encode(&state)).map_err(MachineFailure::new)?;
        fs::write(directory.join("EMPTY"), []).map_err(MachineFailure::new)?;
        fs::write(directory.join("ballast"), vec![7; (2 << 20) + 5]).map_err(MachineFailure::new)?;
        Ok(state.applied)
    }

    fn install(&self, directory: &Path) -> Result<Applied, MachineFailure> {
        *self.installs.lock() += 1;
        let ballast = fs::read(directory.join("ballast")).map_err(MachineFailure::new)?;
        assert!(ballast.len() == (2 << 20) + 5 && ballast.iter().all(|byte| *byte == 7));
        assert!(fs::read(directory.join("EMPTY")).map_err(MachineFailure::new)?.is_empty());
        fs::rename(directory.join("state"), &self.file).map_err(MachineFailure::new)?;
        let state = decode(fs::read(&self.file).map_err(MachineFailure::new)?.into());
        *self.state.lock() = state.clone();
        self.count.send_replace(state.commands.len());
        Ok(state.applied)
    }
}

fn push(state: &mut State, batch: &Batch) {
    state.commands.extend(batch.commands());
    state.stamps.push(batch.stamp().0);
}

fn encode(state: &State) -> Bytes {
    let mut bytes = BytesMut::new();
    let position = state.applied.position.map_or((u64::MAX, 0), |position| (position.term, position.index));
    bytes.put_u64(position.0);
    bytes.put_u64(position.1);
    let mut put = |value: &[u8]| {
        bytes.put_u64(value.len() as u64);
        bytes.put_slice(value);
    };
    put(state.applied.membership.as_deref().unwrap_or_default());
    state.commands.iter().for_each(|command| put(command));
    bytes.freeze()
}

fn decode(mut bytes: Bytes) -> State {
    let (term, index) = (bytes.get_u64(), bytes.get_u64());
    let mut take = || {
        let length = bytes.has_remaining().then(|| bytes.get_u64())?;
        Some(bytes.split_to(length as usize))
    };
    let membership = take().filter(|membership| !membership.is_empty());
    let position = (term != u64::MAX).then_some(Position { term, index });
    let commands = std::iter::from_fn(take).collect();
    State { applied: Applied { position, membership }, commands, stamps: Vec::new() }
}
