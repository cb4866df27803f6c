//! A server that answers what a test says, for the tests of whoever asks over the network.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// From the path that was asked for to the bytes of the answer. None: it takes the request and says nothing.
pub type Answers = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// An answer with a body.
pub fn ok(body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

/// One without.
pub fn status(line: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n"))
}

pub async fn serve(
    tls: Option<TlsAcceptor>,
    answers: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let answers: Answers = Arc::new(answers);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answers, tls) = (answers.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => answer(stream, answers).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            answer(stream, answers).await;
                        }
                    }
                }
            });
        }
    });
    address
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answers: Answers) {
    let (mut head, mut bytes) = (Vec::new(), [0; 512]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut bytes).await {
            Ok(read @ 1..) => head.extend_from_slice(&bytes[..read]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    match answers(head.split(' ').nth(1).unwrap_or_default()) {
        Some(answer) => {
            // Whoever asked may have gone.
            stream.write_all(answer.as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
        None => std::future::pending().await,
    }
}
