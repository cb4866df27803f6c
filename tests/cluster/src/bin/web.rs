//! What the workloads of the tests run: an HTTP server that says who it is, and that misbehaves as it is told to.
//!
//! ```text
//! web [--version TEXT] [--starts-after MS] [--lingers MS] [--never-ready] [--exits-after MS] [--alone FILE]
//! ```
//!
//! It listens on `PORT`. `GET /ready` is its readiness, any other path answers with what it is, as JSON. With `--alone` it holds a lock on
//! the file as long as it lives; one that finds the lock taken writes that down beside the file, in `FILE.twice`.
//!
//! It ends by itself after a while: a test that was killed leaves nothing for ever.

use std::error::Error;
use std::fs::File;
use std::future::pending;
use std::io::Write;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

const LIFE: Duration = Duration::from_secs(600);
/// For a request to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a request; the rest is not read.
const HEAD_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug, Default)]
struct Options {
    version: String,
    starts_after: Duration,
    lingers: Duration,
    never_ready: bool,
    exits_after: Option<Duration>,
    alone: Option<String>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--version" => options.version = value()?,
                "--starts-after" => options.starts_after = Duration::from_millis(value()?.parse()?),
                "--lingers" => options.lingers = Duration::from_millis(value()?.parse()?),
                "--never-ready" => options.never_ready = true,
                "--exits-after" => options.exits_after = Some(Duration::from_millis(value()?.parse()?)),
                "--alone" => options.alone = Some(value()?),
                _ => return Err(format!("{word} is not known").into()),
            }
        }
        Ok(options)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read(std::env::args().skip(1))?;
    let mut told = signal(SignalKind::terminate())?;
    let _held = options.alone.as_deref().map(hold).transpose()?;
    let port: u16 = std::env::var("PORT")?.parse()?;
    let exits = async {
        match options.exits_after {
            Some(after) => sleep(after).await,
            None => pending().await,
        }
    };
    let end = async {
        tokio::select! {
            _ = told.recv() => sleep(options.lingers).await,
            () = sleep(LIFE) => {}
        }
    };
    tokio::select! {
        served = serve(port, &options) => served?,
        () = exits => return Err("it was told to end like this".into()),
        () = end => {}
    }
    Ok(())
}

/// Holds the lock, or says that somebody else does.
fn hold(path: &str) -> std::io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    if file.try_lock().is_err() {
        let mut twice = File::options().create(true).append(true).open(format!("{path}.twice"))?;
        writeln!(twice, "{}", std::process::id())?;
    }
    Ok(file)
}

async fn serve(port: u16, options: &Options) -> std::io::Result<()> {
    sleep(options.starts_after).await;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let page = json!({
        "version": options.version,
        "replica": variable("SETPOINT_REPLICA"),
        "node": variable("SETPOINT_NODE"),
        "pid": std::process::id(),
    });
    let page = page.to_string();
    loop {
        let (stream, _) = listener.accept().await?;
        let (page, is_ready) = (page.clone(), !options.never_ready);
        tokio::spawn(async move { timeout(PATIENCE, answer(stream, &page, is_ready)).await });
    }
}

async fn answer(mut stream: TcpStream, page: &str, is_ready: bool) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        match stream.read(&mut bytes).await? {
            0 => return Ok(()),
            read => head.extend_from_slice(&bytes[..read]),
        }
    }
    let (status, body) = match head.starts_with(b"GET /ready") {
        true if is_ready => ("200 OK", "ready"),
        true => ("503 Service Unavailable", "not ready"),
        false => ("200 OK", page),
    };
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
