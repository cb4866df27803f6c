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

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(change: impl FnOnce(&mut Artifact)) -> Vec<String> {
        let (source, target) = ("https://files.example/tool".to_owned(), "bin/tool".to_owned());
        let mut artifact = Artifact { source, sha256: "0a".repeat(32), target, executable: true };
        change(&mut artifact);
        let mut problems = Problems::new();
        artifact.check(&mut problems);
        problems.into_found().into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn it_comes_from_a_path_or_a_url_by_its_digest_and_stays_in_its_folder() {
        assert!(wrong(|_| ()).is_empty());
        assert!(wrong(|it| it.source = "/srv/tool".into()).is_empty());
        assert_eq!(wrong(|it| it.source = "ftp://x".into()).len(), 1);
        assert_eq!(wrong(|it| it.sha256 = "0A".repeat(32)).len(), 1);
        for target in ["../x", "/x", "a//b", "a/./b", ""] {
            assert_eq!(wrong(|it| it.target = target.into()).len(), 1, "{target}");
        }
    }
}
