//! What is stored of a token: enough to check it and to say whose it is, not enough to use it.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use setpoint_types::Timestamp;

use super::secret::{SecretHash, TokenId};

/// One token. As JSON: `{"id":"…","hash":"sha256:…","name":"ci","groups":["deployers"],"expires":"2027-01-01T00:00:00Z"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRecord {
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub id: TokenId,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub hash: SecretHash,
    /// Whose it is, without the class.
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// From then on it is not valid any more. There is no token without an end.
    #[serde(serialize_with = "as_time", deserialize_with = "from_time")]
    pub expires: Timestamp,
}

impl TokenRecord {
    /// When it expires, for people.
    pub fn expires_text(&self) -> String {
        time(self.expires)
    }
}

/// The last second that the format can hold: the end of the year 9999.
const SECONDS_MAX: u64 = 253_402_300_799;

/// In whole seconds: nobody needs a token's last milliseconds.
fn time(at: Timestamp) -> String {
    let at = UNIX_EPOCH + Duration::from_secs((at.0 / 1000).min(SECONDS_MAX));
    humantime::format_rfc3339_seconds(at).to_string()
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: fmt::Display>,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

fn as_time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time(*at))
}

fn from_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let at = humantime::parse_rfc3339(&text).map_err(de::Error::custom)?;
    let since = at.duration_since(UNIX_EPOCH).map_err(de::Error::custom)?;
    Ok(Timestamp(u64::try_from(since.as_millis()).map_err(de::Error::custom)?))
}
