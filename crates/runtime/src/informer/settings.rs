//! What an informer can be told.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use setpoint_client::{Backoff, Scope};

use crate::cache::Transform;

/// The server sends bookmarks no more often.
const BOOKMARKS_MS_MIN: u64 = 100;

/// How informers behave. In a file each is a number of milliseconds: `bookmarks_ms`, `stalled_after_ms` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct InformerSettings {
    /// Of a quiet stream the server sends a bookmark this often. It is how long a joint snapshot and `at_least` wait for a kind
    /// to which nothing happens. No less than 100 ms.
    pub bookmarks: Duration,
    /// A stream from which nothing came for so long, not even a bookmark, is given up, and gone on with elsewhere. Twice as long for
    /// the next if nothing was heard in between, up to 64 times: a server that is slow to begin is waited for in the end.
    pub stalled_after: Duration,
    /// Opening a stream may take so long, with all attempts of the client.
    pub open_timeout: Duration,
    /// Between a stream that ended and the next.
    pub backoff: Backoff,
    /// A stream that lasted so long was a good one: the next failure is the first again.
    pub healthy_after: Duration,
}

impl Default for InformerSettings {
    fn default() -> Self {
        Self {
            bookmarks: Duration::from_secs(1),
            stalled_after: Duration::from_secs(10),
            open_timeout: Duration::from_secs(30),
            backoff: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(15) },
            healthy_after: Duration::from_secs(10),
        }
    }
}

/// The same as a file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    bookmarks_ms: u64,
    stalled_after_ms: u64,
    open_timeout_ms: u64,
    backoff_first_ms: u64,
    backoff_max_ms: u64,
    healthy_after_ms: u64,
}

impl Default for Written {
    fn default() -> Self {
        InformerSettings::default().into()
    }
}

impl From<InformerSettings> for Written {
    fn from(settings: InformerSettings) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            bookmarks_ms: ms(settings.bookmarks),
            stalled_after_ms: ms(settings.stalled_after),
            open_timeout_ms: ms(settings.open_timeout),
            backoff_first_ms: ms(settings.backoff.first),
            backoff_max_ms: ms(settings.backoff.max),
            healthy_after_ms: ms(settings.healthy_after),
        }
    }
}

impl TryFrom<Written> for InformerSettings {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        if written.bookmarks_ms < BOOKMARKS_MS_MIN {
            return Err(format!("bookmarks_ms must be at least {BOOKMARKS_MS_MIN}"));
        }
        if written.stalled_after_ms <= written.bookmarks_ms {
            return Err(
                "stalled_after_ms must be more than bookmarks_ms: a quiet stream has only those".to_owned()
            );
        }
        if written.open_timeout_ms == 0 || written.backoff_first_ms == 0 {
            return Err("open_timeout_ms and backoff_first_ms must be more than 0".to_owned());
        }
        if written.backoff_max_ms < written.backoff_first_ms {
            return Err("backoff_max_ms must not be less than backoff_first_ms".to_owned());
        }
        let time = Duration::from_millis;
        Ok(Self {
            bookmarks: time(written.bookmarks_ms),
            stalled_after: time(written.stalled_after_ms),
            open_timeout: time(written.open_timeout_ms),
            backoff: Backoff { first: time(written.backoff_first_ms), max: time(written.backoff_max_ms) },
            healthy_after: time(written.healthy_after_ms),
        })
    }
}

/// Which objects of a kind, and what is kept of each. **Guarantees**: an object that leaves a selection is gone from the cache as if it were
/// deleted, and one that enters it comes. **Assumes** selectors that the server takes: with others the cache is never synced, and
/// `/readyz` says which one is waited for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// None: everywhere. Ignored for kinds of the whole cluster.
    pub namespace: Option<String>,
    /// `app=web,tier in (a,b)`
    pub labels: String,
    /// `spec.node=n1`
    pub fields: String,
    pub transform: Option<Transform>,
}

impl Selection {
    /// All of them.
    pub fn everywhere() -> Self {
        Self::default()
    }

    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    #[must_use]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    pub(super) fn scope(&self, namespaced: bool) -> Scope {
        match (&self.namespace, namespaced) {
            (_, false) => Scope::Cluster,
            (None, true) => Scope::AllNamespaces,
            (Some(namespace), true) => Scope::namespace(namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_differs_and_what_cannot_be_is_refused() {
        let read = |text: &str| serde_json::from_str::<InformerSettings>(text);
        let settings = read(r#"{"stalled_after_ms": 2000}"#).expect("good");
        let wanted =
            InformerSettings { stalled_after: Duration::from_secs(2), ..InformerSettings::default() };
        assert_eq!(settings, wanted);
        let written = serde_json::to_string(&settings).expect("text");
        assert_eq!(read(&written).expect("what was written"), settings);
        let bad = [
            (r#"{"bookmarks_ms": 50}"#, "bookmarks_ms"),
            (r#"{"bookmarks_ms": 5000, "stalled_after_ms": 5000}"#, "stalled_after_ms"),
            (r#"{"backoff_first_ms": 9000, "backoff_max_ms": 1000}"#, "backoff_max_ms"),
            (r#"{"open_timeout_ms": 0}"#, "open_timeout_ms"),
            (r#"{"bookmark": 1}"#, "bookmark"),
        ];
        for (text, names) in bad {
            let problem = read(text).expect_err(text).to_string();
            assert!(problem.contains(names), "{text}: {problem}");
        }
    }
}
