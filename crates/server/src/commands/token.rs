//! `setpointd token`: makes, lists and revokes the tokens of a token file.

use std::time::Duration;

use setpoint_access::{Minted, NameProblem, TOKEN_ENTROPY_BYTES, TokenFile, TokenFileError, TokenId};
use setpoint_types::Timestamp;

use crate::options::{TokenArgs, TokenCommand};

#[derive(Debug, thiserror::Error)]
pub enum TokenCommandError {
    #[error("--user or --group")]
    Name(#[source] NameProblem),
    #[error("--ttl {text:?} is not a duration such as 12h or 90d")]
    Ttl {
        text: String,
        #[source]
        source: humantime::DurationError,
    },
    #[error("--ttl {0:?}: a token is valid for at least a second and at most ten years")]
    TtlRange(String),
    #[error("{0:?} is not the id of a token; `setpointd token list` shows them")]
    Id(String),
    #[error(transparent)]
    File(#[from] TokenFileError),
}

const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(3653 * 24 * 60 * 60);

/// `entropy` is drawn from the system's source of randomness for this call.
pub fn run(
    args: &TokenArgs,
    entropy: &[u8; TOKEN_ENTROPY_BYTES],
    now: Timestamp,
) -> Result<String, TokenCommandError> {
    match &args.command {
        TokenCommand::Create { file, user, group, ttl } => {
            let lifetime = lifetime(ttl)?;
            let expires = Timestamp(now.0.saturating_add(lifetime.as_millis() as u64));
            let minted = Minted::new(entropy, user, group, expires).map_err(TokenCommandError::Name)?;
            TokenFile::new(file).add(&minted.record)?;
            // Alone on its line, so that a script can take it.
            Ok(minted.text().to_owned())
        }
        TokenCommand::List { file } => {
            let records = TokenFile::new(file).records()?;
            let line = |record: &setpoint_access::TokenRecord| {
                let state = if now >= record.expires { "expired" } else { "valid until" };
                let (id, name, groups) = (record.id, &record.name, record.groups.join(","));
                format!("{id}  {name}  [{groups}]  {state} {}", record.expires_text())
            };
            Ok(records.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        TokenCommand::Revoke { file, id } => {
            let id: TokenId = id.parse().map_err(|_| TokenCommandError::Id(id.clone()))?;
            let removed = TokenFile::new(file).remove(id)?;
            Ok(format!("the token {id} of {} is revoked", removed.name))
        }
    }
}

fn lifetime(text: &str) -> Result<Duration, TokenCommandError> {
    let parsed = humantime::parse_duration(text);
    let lifetime = parsed.map_err(|source| TokenCommandError::Ttl { text: text.to_owned(), source })?;
    if (TTL_MIN..=TTL_MAX).contains(&lifetime) {
        Ok(lifetime)
    } else {
        Err(TokenCommandError::TtlRange(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use setpoint_access::{TokenRefusal, TokenTable};

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn create(file: &Path, entropy: u8, user: &str) -> Result<String, TokenCommandError> {
        let (user, group) = (user.to_owned(), vec!["deployers".to_owned()]);
        let command = TokenCommand::Create { file: file.to_owned(), user, group, ttl: "1h".to_owned() };
        run(&TokenArgs { command }, &[entropy; TOKEN_ENTROPY_BYTES], NOW)
    }

    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        (folder, path)
    }

    fn table(path: &Path) -> TokenTable {
        TokenFile::new(path).table().expect("a file that the command wrote")
    }

    #[test]
    fn a_token_identifies_its_user_until_it_expires_or_is_revoked() {
        let (_folder, path) = file();
        let token = create(&path, 1, "ci").expect("made");
        let other = create(&path, 2, "cd").expect("made");
        let (_, principal) = table(&path).identify(&token, NOW).expect("valid");
        assert_eq!(principal.as_str(), "user:ci");
        assert!(principal.is_in("deployers"));
        let later = Timestamp(NOW.0 + 60 * 60 * 1000);
        assert_eq!(table(&path).identify(&token, later), Err(TokenRefusal::Expired));

        let list = TokenArgs { command: TokenCommand::List { file: path.clone() } };
        let listed = run(&list, &[0; TOKEN_ENTROPY_BYTES], NOW).expect("listed");
        assert_eq!(listed.lines().count(), 2, "{listed}");
        let id = listed.split(' ').next().expect("an id").to_owned();
        let revoke = TokenArgs { command: TokenCommand::Revoke { file: path.clone(), id } };
        run(&revoke, &[0; TOKEN_ENTROPY_BYTES], NOW).expect("revoked");
        assert_eq!(table(&path).identify(&token, NOW), Err(TokenRefusal::Unknown));
        assert!(table(&path).identify(&other, NOW).is_ok());
        run(&revoke, &[0; TOKEN_ENTROPY_BYTES], NOW).expect_err("it is gone");
    }

    #[test]
    fn the_file_is_its_owners_and_does_not_have_the_token_in_it() {
        let (_folder, path) = file();
        let token = create(&path, 0xab, "ci").expect("made");
        let text = std::fs::read_to_string(&path).expect("text");
        let secret = token.rsplit('_').next().expect("a secret");
        assert!(secret.len() == 64 && !text.contains(secret), "{text}");
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn comments_stay_and_what_cannot_be_is_refused_without_a_trace() {
        let (_folder, path) = file();
        std::fs::write(&path, "# ours\n").expect("written");
        create(&path, 1, "ci").expect("made");
        create(&path, 2, "a\nb").expect_err("no name");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.starts_with("# ours\n") && text.lines().count() == 2, "{text}");
        for ttl in ["0s", "never", "100000d"] {
            let (file, user) = (path.clone(), "x".to_owned());
            let command = TokenCommand::Create { file, user, group: Vec::new(), ttl: ttl.to_owned() };
            run(&TokenArgs { command }, &[3; TOKEN_ENTROPY_BYTES], NOW).expect_err(ttl);
        }
        assert_eq!(std::fs::read_to_string(&path).expect("text"), text);
    }
}
