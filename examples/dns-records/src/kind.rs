//! The kind `DnsRecord`: what a DNS name answers. The comments are what users read about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_types::kinds::{KindDefinitionSpec, KindRule};
use setpoint_types::object::Condition;
use setpoint_types::{Column, Generation, KindInfo, KindType};

/// The kind.
#[derive(Clone, Copy, Debug)]
pub enum DnsRecord {}

/// A DNS name, and everything it answers. A name belongs to one object; of several that claim it, the oldest has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsRecordSpec {
    /// The whole name, without a dot at its end: `www.example.com`.
    #[schemars(extend("format" = "dns-subdomain"))]
    pub name: String,
    /// How long others may keep the answer.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1, max = 604_800))]
    pub ttl_seconds: u32,
    /// What it answers. A CNAME stands alone.
    #[schemars(length(min = 1, max = 64))]
    pub answers: Vec<Answer>,
}

fn five_minutes() -> u32 {
    300
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// What kind of answer it is.
    #[serde(rename = "type")]
    pub kind: AnswerType,
    /// An address, a name or a text, as its type says.
    #[schemars(length(min = 1, max = 255))]
    pub value: String,
}

/// What an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum AnswerType {
    /// An address of IPv4.
    #[default]
    A,
    /// An address of IPv6.
    Aaaa,
    /// Another name for it.
    Cname,
    /// Text.
    Txt,
}

impl AnswerType {
    /// As zone files have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Txt => "TXT",
        }
    }
}

/// Whether the name is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DnsRecordStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// What is true of it now: `Ready` if the name answers as the spec says.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for DnsRecord {
    const INFO: KindInfo = KindInfo {
        name: "DnsRecord",
        plural: "dnsrecords",
        singular: "dnsrecord",
        short_names: &["dns"],
        namespaced: true,
        columns: &[Column::text("Host", ".spec.name"), Column::AGE],
        selectable_fields: &["spec.name"],
    };
    type Spec = DnsRecordSpec;
    type Status = DnsRecordStatus;
}

/// The kind with what its types cannot say.
pub fn definition() -> KindDefinitionSpec {
    let alone = KindRule {
        rule: "size(self.spec.answers) == 1 || self.spec.answers.all(it, it.type != 'CNAME')".to_owned(),
        message: "a CNAME stands alone".to_owned(),
        path: Some(".spec.answers".to_owned()),
        ..KindRule::default()
    };
    KindDefinitionSpec { rules: vec![alone], ..KindDefinitionSpec::of::<DnsRecord>() }
}

impl Answer {
    /// What is wrong with its value, if anything. A schema cannot say it, because it depends on the type.
    pub fn problem(&self) -> Option<String> {
        let value = &self.value;
        let good = match self.kind {
            AnswerType::A => value.parse::<std::net::Ipv4Addr>().is_ok(),
            AnswerType::Aaaa => value.parse::<std::net::Ipv6Addr>().is_ok(),
            AnswerType::Cname => setpoint_types::names::check_dns_subdomain(value).is_ok(),
            // What would need an escape in a zone file is more trouble than it is worth here.
            AnswerType::Txt => {
                value.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
            }
        };
        (!good).then(|| format!("{value:?} is no value of {}", self.kind.name()))
    }
}
