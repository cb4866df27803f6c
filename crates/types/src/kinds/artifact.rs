//! Artifacts: files that an agent fetches before it starts a replica.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problems;

/// A file that must be there before the replica is started, and must be exactly this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Where it comes from: a path on the node that begins with `/`, or an `http://` or `https://` URL.
    #[schemars(length(min = 1, max = 2048))]
    pub source: String,
    /// The SHA-256 of its content, 64 hexadecimal digits. What has another one is not used.
    #[schemars(length(min = 64, max = 64))]
    pub sha256: String,
    /// Where it is put: a path in the replica's own folder, without `..`. No two are the same.
    #[schemars(length(min = 1, max = 512))]
    pub target: String,
    /// May be run.
    #[serde(default)]
    pub executable: bool,
}

impl Artifact {
    pub(super) fn check(&self, problems: &mut Problems) {
        let is_url = ["http://", "https://"].iter().any(|scheme| self.source.starts_with(scheme));
        if !is_url && !self.source.starts_with('/') {
            problems.report_at("source", "must be a path that begins with `/`, or an http or https URL");
        }
        let is_digest = self.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_digest || self.sha256.len() != 64 {
            problems.report_at("sha256", "must be 64 digits of 0-9 and a-f");
        }
        let stays = self.target.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !stays || self.target.contains('\0') {
            problems.report_at("target", "must be a path below the replica's folder: no `/` first, no `..`");
        }
    }
}
