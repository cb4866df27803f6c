//! The provider that comes with it: a zone file as name servers read it (RFC 1035), replaced as a whole with each change.
//!
//! - [`text`]: the file's text, written and read
//! - [`Zone`]: what is in it, and what may be changed; pure
//! - [`ZoneFile`]: the file
//!
//! Tell the name server to load it again after a change: its serial has grown then.

mod text;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use setpoint_types::Uid;
pub use text::TextError;

use crate::provider::{Entry, Provider, ProviderError, Token};

/// A zone: its names, and how often it has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// `example.com`
    pub origin: String,
    /// Grows with every change, and begins again after the largest: secondaries compare it so (RFC 1982).
    pub serial: u32,
    /// The largest that came.
    pub token: Token,
    /// By name.
    pub entries: BTreeMap<String, Entry>,
}

impl Zone {
    pub fn new(origin: &str) -> Self {
        Self { origin: origin.to_owned(), serial: 0, token: Token::default(), entries: BTreeMap::new() }
    }

    /// Whether the name is in the zone.
    pub fn covers(&self, name: &str) -> bool {
        name.strip_suffix(&self.origin).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// Lets in whoever is not late, and nobody before them from then on.
    pub fn admit(&mut self, token: Token) -> Result<(), ProviderError> {
        if token < self.token {
            return Err(ProviderError::Deposed { asked: token, newest: self.token });
        }
        self.token = token;
        Ok(())
    }

    /// As [`Provider::look_up`].
    pub fn look_up(&self, name: &str, owner: &Uid) -> Vec<Entry> {
        let found = self.entries.values().filter(|entry| entry.name == name || entry.owner.uid == *owner);
        found.cloned().collect()
    }

    /// As [`Provider::publish`].
    pub fn publish(&mut self, entry: Entry, instead_of: Option<&Uid>) -> Result<(), ProviderError> {
        let owner = &entry.owner;
        if let Some(there) = self.entries.get(&entry.name)
            && there.owner.uid != owner.uid
            && Some(&there.owner.uid) != instead_of
        {
            return Err(ProviderError::Taken { name: entry.name });
        }
        let own = self.entries.values().filter(|it| it.owner.uid == owner.uid);
        if let Some(published) = own.map(|it| it.owner.generation).max().filter(|it| *it > owner.generation) {
            return Err(ProviderError::Later { name: entry.name, published });
        }
        self.retract(&owner.uid.clone());
        self.entries.insert(entry.name.clone(), entry);
        Ok(())
    }

    /// As [`Provider::retract`].
    pub fn retract(&mut self, owner: &Uid) {
        self.entries.retain(|_, entry| entry.owner.uid != *owner);
    }
}

/// A zone in a file.
///
/// **Guarantees**: the file is at every moment one that was written completely, also after a loss of power: it is written beside, made
/// durable, and renamed. A change that changes nothing writes nothing. A file that cannot be read is left as it is.
///
/// **Assumes** that only processes with this provider write it: they take turns by a lock beside the file.
#[derive(Clone)]
pub struct ZoneFile {
    place: Arc<Place>,
}

struct Place {
    origin: String,
    path: PathBuf,
}

/// What can go wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum ZoneFileError {
    #[error("{} could not be {action}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{} is no zone file of this program, and is left as it is", path.display())]
    Text {
        path: PathBuf,
        #[source]
        source: TextError,
    },
    #[error("{} is of the zone {found}, not {expected}", path.display())]
    OtherZone { path: PathBuf, found: String, expected: String },
}

impl ZoneFile {
    /// The zone `origin` in the file at `path`, which need not be there yet.
    pub fn new(origin: &str, path: impl Into<PathBuf>) -> Self {
        Self { place: Arc::new(Place { origin: origin.to_owned(), path: path.into() }) }
    }

    /// The zone as it is in the file.
    pub fn read(&self) -> Result<Zone, ZoneFileError> {
        self.place.read()
    }

    /// Files are small, and still not for a worker of the runtime to wait for.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let place = self.place.clone();
        let done = tokio::task::spawn_blocking(move || work(&place)).await;
        done.map_err(|panicked| ProviderError::Failed(panicked.into()))?
    }
}

impl Provider for ZoneFile {
    fn covers(&self, name: &str) -> bool {
        Zone::new(&self.place.origin).covers(name)
    }

    async fn look_up(&self, token: Token, name: &str, owner: &Uid) -> Result<Vec<Entry>, ProviderError> {
        let (name, owner) = (name.to_owned(), owner.clone());
        self.with(move |place| place.change(token, |zone| Ok(zone.look_up(&name, &owner)))).await
    }

    async fn publish(
        &self,
        token: Token,
        entry: Entry,
        instead_of: Option<Uid>,
    ) -> Result<(), ProviderError> {
        self.with(move |place| place.change(token, |zone| zone.publish(entry, instead_of.as_ref()))).await
    }

    async fn retract(&self, token: Token, owner: &Uid) -> Result<(), ProviderError> {
        let owner = owner.clone();
        let retract = move |zone: &mut Zone| {
            zone.retract(&owner);
            Ok(())
        };
        self.with(move |place| place.change(token, retract)).await
    }
}

impl Place {
    fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> ZoneFileError {
        let path = path.to_owned();
        move |source| ZoneFileError::Io { path, action, source }
    }

    fn read(&self) -> Result<Zone, ZoneFileError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Zone::new(&self.origin)),
            Err(error) => return Err(Self::failed(&self.path, "read")(error)),
        };
        let path = || self.path.clone();
        let zone = text::read(&text).map_err(|source| ZoneFileError::Text { path: path(), source })?;
        if zone.origin != self.origin {
            let (found, expected) = (zone.origin, self.origin.clone());
            return Err(ZoneFileError::OtherZone { path: path(), found, expected });
        }
        Ok(zone)
    }

    /// Reads, changes and replaces, as the only one at that time, and only for whoever is not late.
    fn change<T>(
        &self,
        token: Token,
        change: impl FnOnce(&mut Zone) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        let lock_path = self.path.with_extension("lock");
        let lock = File::create(&lock_path).and_then(|lock| lock.lock().map(|()| lock));
        // Held until the end of the function, and released by the system if the process dies.
        let _lock = lock.map_err(Self::failed(&lock_path, "locked"))?;
        let before = self.read()?;
        let mut after = before.clone();
        after.admit(token)?;
        let changed = change(&mut after)?;
        if after.entries != before.entries {
            after.serial = before.serial.wrapping_add(1);
        }
        if after != before {
            self.replace(&text::write(&after)).map_err(Self::failed(&self.path, "replaced"))?;
        }
        Ok(changed)
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl From<ZoneFileError> for ProviderError {
    fn from(error: ZoneFileError) -> Self {
        Self::Failed(error.into())
    }
}

#[cfg(test)]
mod tests;
