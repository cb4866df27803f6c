//! The settings of access control and of the audit log.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use setpoint_access::AuditOptions;

use super::Problems;
use crate::options::Settings;

/// Below, a file would hold a few lines only.
const AUDIT_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 40;
const AUDIT_FILES: RangeInclusive<u32> = 0..=1000;

/// Who may do what, and what is written down of it.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// What no role allows is denied.
    pub roles: bool,
    pub token_file: Option<PathBuf>,
    pub audit: Option<AuditOptions>,
}

pub fn check(settings: &Settings, data_dir: &Path, problems: &mut Problems) -> AccessConfig {
    let roles = match settings.access.as_deref() {
        None | Some("open") => false,
        Some("roles") => true,
        Some(other) => {
            problems.add("access", format!("{other:?} is neither open nor roles"));
            false
        }
    };
    if roles && settings.token_file.is_none() && settings.client_ca_file.is_none() {
        let text =
            "roles needs a way for clients to show who they are: --token-file, or --client-ca-file with TLS";
        problems.add("access", text);
    }
    if !roles && settings.token_file.is_some() {
        problems.add("token-file", "goes with --access roles only; nobody would look at the tokens");
    }
    let default = roles.then(|| data_dir.join("audit.log"));
    let path = settings.audit_file.clone().or(default);
    let audit = path.map(|path| {
        let default = AuditOptions::new(&path);
        let bytes = settings.audit_file_bytes;
        AuditOptions {
            file_bytes_max: problems.within("audit-file-bytes", bytes, default.file_bytes_max, AUDIT_BYTES),
            files_kept: problems.within(
                "audit-files-kept",
                settings.audit_files_kept,
                default.files_kept,
                AUDIT_FILES,
            ),
            ..default
        }
    });
    AccessConfig { roles, token_file: settings.token_file.clone(), audit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;

    fn checked(settings: Settings) -> Result<ServerConfig, String> {
        ServerConfig::try_from(settings).map_err(|problems| problems.to_string())
    }

    fn refused(settings: Settings) -> String {
        checked(settings).expect_err("these settings cannot be used")
    }

    #[test]
    fn access_control_needs_a_proof_to_look_at_and_keeps_an_audit_log() {
        let file = |name: &str| Some(PathBuf::from(name));
        let roles = Settings { access: Some("roles".to_owned()), ..Settings::default() };
        assert!(refused(roles.clone()).contains("--access: roles needs a way for clients"));
        assert!(
            refused(Settings { access: Some("on".to_owned()), ..Settings::default() })
                .contains("neither open nor")
        );
        let unused = Settings { token_file: file("tokens"), ..Settings::default() };
        assert!(refused(unused).contains("--token-file: goes with --access roles only"));
        let open = checked(Settings::default()).expect("fine").access;
        assert!(!open.roles && open.audit.is_none());
        let on = Settings { token_file: file("tokens"), data_dir: file("data"), ..roles };
        let audit = checked(on.clone()).expect("fine").access.audit.expect("kept by default");
        assert_eq!((audit.path, audit.files_kept), (PathBuf::from("data/audit.log"), 9));
        let many = Settings { audit_files_kept: Some(5000), audit_file_bytes: Some(1), ..on.clone() };
        let problems = refused(many);
        assert!(problems.contains("audit-files-kept: 5000") && problems.contains("audit-file-bytes: 1 "));
        let tls = Settings { cert_file: file("c"), key_file: file("k"), client_ca_file: file("a"), ..on };
        assert!(checked(tls.clone()).expect("fine").client_tls.expect("TLS").client_auth_optional);
        let closed = Settings { access: None, token_file: None, ..tls };
        assert!(!checked(closed).expect("fine").client_tls.expect("TLS").client_auth_optional);
    }
}
