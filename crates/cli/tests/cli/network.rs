//! What only a network can do: nobody there, certificates of others.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_cli::{Stage, Terminal, run};
use setpoint_client::Entropy;
use setpoint_types::Timestamp;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Exit code and standard error of a command over the real network.
async fn played(words: &[&str]) -> (u8, String) {
    let err = Kept::default();
    let stage = Stage {
        input: Box::new(Cursor::new(Vec::new())),
        out: Box::new(Kept::default()),
        err: Box::new(err.clone()),
        terminal: Terminal::default(),
        variables: BTreeMap::from([("HOME".to_owned(), "/nowhere".to_owned())]),
        clock: Arc::new(|| Timestamp(0)),
        connector: None,
        entropy: Entropy::seeded(1),
    };
    let exit = run(words.iter().map(Into::into), stage).await;
    let text = String::from_utf8_lossy(&err.0.lock()).into_owned();
    (exit.code(), text)
}

#[tokio::test]
async fn nobody_there_is_said_with_what_to_look_at() {
    // A port that was ours a moment ago, and is nobody's now.
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let (exit, err) = played(&["setpoint", "get", "nodes", "-s", &format!("127.0.0.1:{port}")]).await;
    assert_eq!(exit, 6, "{err}");
    assert!(
        err.starts_with("error: no server answered at http://") && err.contains(&format!("127.0.0.1:{port}")),
        "{err}"
    );
    assert!(err.contains("-s") && err.lines().count() == 1, "{err}");
}

/// A server whose certificate nobody the client trusts has signed.
#[tokio::test]
async fn a_certificate_of_somebody_else_is_told_apart_from_no_server() {
    let made = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let (theirs, ours) = (made("127.0.0.1"), made("127.0.0.1"));
    let key = tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer::from(theirs.signing_key.serialize_der());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![theirs.cert.der().clone()], key.into())
        .expect("a key that fits");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("ca.pem"), ours.cert.pem()).expect("a file");
    let config = folder.path().join("config");
    let text = format!(
        "current-context: c\nclusters:\n- name: c\n  endpoints: ['https://127.0.0.1:{port}']\n  certificate-authority: ca.pem\n\
         users: []\ncontexts:\n- name: c\n  cluster: c\n"
    );
    std::fs::write(&config, text).expect("a file");
    let words = ["setpoint", "get", "nodes", "--config", &config.display().to_string()];
    let (exit, err) = tokio::time::timeout(Duration::from_secs(60), played(&words)).await.expect("an end");
    server.abort();
    assert_eq!(exit, 6, "{err}");
    assert!(err.contains("certificate") && err.contains("certificate-authority"), "{err}");
    assert!(!err.contains("no server answered"), "{err}");
}

/// The script that bash is given asks the program, and takes its answer.
#[test]
fn bash_completes_commands() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_setpoint"));
    let script = r#"
        source <("$1" completion bash)
        setpoint() { "$program" "$@"; }
        program=$1
        COMP_WORDS=(setpoint roll); COMP_CWORD=1; _setpoint; echo "${COMPREPLY[@]}"
        COMP_WORDS=(setpoint rollout un); COMP_CWORD=2; _setpoint; echo "${COMPREPLY[@]}"
    "#;
    let output =
        std::process::Command::new("bash").args(["-c", script, "bash"]).arg(program).output().expect("bash");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "rollout\nundo\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_shell_has_a_script_that_asks_the_program() {
    let program = env!("CARGO_BIN_EXE_setpoint");
    for (shell, says) in
        [("zsh", "#compdef setpoint"), ("fish", "complete -c setpoint"), ("bash", "complete -o default")]
    {
        let output =
            std::process::Command::new(program).args(["completion", shell]).output().expect("the program");
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(script.contains(says) && script.contains("setpoint __complete -- "), "{shell}: {script}");
    }
}
