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

/// An agent that answers every question for a log with three lines, and says what it was asked.
async fn agent() -> (String, Arc<Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let line = text.lines().next().unwrap_or_default().to_owned();
            let answer = match () {
                () if line.contains("/gone?") => {
                    ("404 Not Found", "no replica default/gone is, or was, on this node\n")
                }
                () if !text.contains("Bearer secret") => ("401 Unauthorized", "show the agent's token\n"),
                () => ("200 OK", "one\ntwo\nthree"),
            };
            let answer =
                format!("HTTP/1.1 {}\r\ncontent-length: {}\r\n\r\n{}", answer.0, answer.1.len(), answer.1);
            kept.lock().push(line);
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, asked)
}

#[tokio::test]
async fn logs_come_from_the_agents_that_run_the_replicas() {
    use crate::theatre::{Theatre, act};
    let (address, asked) = agent().await;
    let theatre = Theatre::new(setpoint_testkit::World::new());
    let client = theatre.world.client_as("controller");
    let happens = |line: String| {
        let client = client.clone();
        async move { act(&client, &crate::script::words(&line)).await.expect("it is done") }
    };
    let node = |name: &str, address: &str| {
        format!(
            "create '{{\"kind\":\"Node\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"zone\":\"z\"}},\"status\":{{\"agent\":{{\"address\":\"{address}\"}}}}}}'"
        )
    };
    let replica = |name: &str, node: &str| {
        format!(
            "create '{{\"kind\":\"Replica\",\"metadata\":{{\"namespace\":\"default\",\"name\":\"{name}\"}},\"spec\":{{\"workload\":\"web\",\"template\":{{\"image\":\"x\"}}}},\"status\":{{\"node\":\"{node}\"}}}}'"
        )
    };
    // A port that nobody listens on any more.
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .to_string();
    for line in [
        node("here", &address),
        node("away", &gone),
        replica("a", "here"),
        replica("b", "here"),
        replica("gone", "here"),
        replica("far", "away"),
        replica("waits", ""),
        "create '{\"kind\":\"Workload\",\"metadata\":{\"namespace\":\"default\",\"name\":\"web\"},\"spec\":{\"template\":{\"image\":\"x\"}}}'".to_owned(),
    ] {
        happens(line).await;
    }
    let token = theatre.path("token");
    std::fs::write(&token, "secret\n").expect("a file");
    let played = |line: &str| {
        let words = crate::script::words(
            &format!("setpoint logs {line}")
                .replace("TOKEN", &format!("--agent-token-file {}", token.display())),
        );
        let theatre = &theatre;
        async move { theatre.play(&words, "", Duration::from_secs(30)).await }
    };
    let one = played("a --tail 3 -f --since 1m TOKEN").await;
    assert_eq!((one.out.as_str(), one.exit), ("one\ntwo\nthree\n", Some(0)), "{}", one.err);
    let line = asked.lock().pop().expect("a question");
    assert!(
        line.starts_with("GET /v1/logs/default/a?follow=true&timestamps=false&tail=3&sinceMs=17"),
        "{line}"
    );
    let two = played("replica/a replica/b TOKEN").await;
    assert_eq!(two.out.lines().filter(|line| line.starts_with("[a] ")).count(), 3, "{}", two.out);
    assert_eq!(two.out.lines().filter(|line| line.starts_with("[b] ")).count(), 3, "{}", two.out);
    for (line, exit, says) in [
        ("a", 5, "--agent-token-file"),
        ("gone TOKEN", 3, "no replica default/gone"),
        ("far TOKEN", 6, "the agent of node/away cannot be reached at"),
        ("waits TOKEN", 3, "has no node yet"),
        ("nobody TOKEN", 3, "nobody"),
        ("node/here TOKEN", 2, "writes nothing"),
    ] {
        let failed = played(line).await;
        assert_eq!(failed.exit, Some(exit), "{line}: {}", failed.err);
        assert!(failed.err.contains(says) && failed.out.is_empty(), "{line}: {}", failed.err);
    }
    // Of a workload, what can be had is shown, and what cannot is said.
    let all = played("workload/web TOKEN").await;
    assert_eq!((all.out.lines().count(), all.err.lines().count()), (6, 2), "{}{}", all.out, all.err);
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
