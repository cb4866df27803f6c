//! A connection that sends the answers of one moment together.
//!
//! HTTP/2 carries many requests on a connection, and answers that are ready at about the same time would each cost a system
//! call. The first flush after a write only asks to be polled again, behind the tasks that are ready now; what they answer
//! goes out with the second. Nothing waits for a timer, and large writes pass straight through.
//!
//! That relies on being flushed each time we are polled, as an HTTP/2 connection does once it is established. A TLS
//! handshake flushes only once and then waits for the other side: such a connection must pass everything through.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// What is gathered at most; beyond, it is sent.
const GATHER_MAX: usize = 32 << 10;
/// A larger piece is not worth copying.
const PIECE_MAX: usize = 4 << 10;

pub struct Gathering<S> {
    socket: S,
    gathered: BytesMut,
    /// Whether pieces are gathered at all; from the first byte read on, when the connection is established.
    gathers: bool,
    established: bool,
    /// A flush was put off, and we will be polled again.
    deferred: bool,
}

impl<S> Gathering<S> {
    pub fn new(socket: S) -> Self {
        Self { socket, gathered: BytesMut::new(), gathers: true, established: false, deferred: false }
    }

    /// A connection that gathers nothing.
    pub fn passing(socket: S) -> Self {
        Self { gathers: false, ..Self::new(socket) }
    }
}

impl<S: Connected> Connected for Gathering<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.socket.connect_info()
    }
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.deferred = false;
        while self.gathered.has_remaining() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.gathered))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gathered.advance(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// True once there is room for a piece of this size; false if it should pass.
    fn poll_room(&mut self, cx: &mut Context<'_>, size: usize) -> Poll<io::Result<bool>> {
        if !self.gathers || !self.established {
            return Poll::Ready(Ok(false));
        }
        if size <= PIECE_MAX && self.gathered.len() + size <= GATHER_MAX {
            return Poll::Ready(Ok(true));
        }
        ready!(self.poll_send(cx))?;
        Poll::Ready(Ok(size <= PIECE_MAX))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        self.established |= buffer.filled().len() > before;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, piece: &[u8]) -> Poll<io::Result<usize>> {
        if ready!(self.poll_room(cx, piece.len()))? {
            self.gathered.extend_from_slice(piece);
            return Poll::Ready(Ok(piece.len()));
        }
        Pin::new(&mut self.socket).poll_write(cx, piece)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = pieces.iter().map(|piece| piece.len()).sum();
        if ready!(self.poll_room(cx, size))? {
            for piece in pieces {
                self.gathered.extend_from_slice(piece);
            }
            return Poll::Ready(Ok(size));
        }
        Pin::new(&mut self.socket).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.gathered.is_empty() && !self.deferred {
            self.deferred = true;
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    async fn established(
        mut ours: Gathering<tokio::io::DuplexStream>,
        theirs: &mut tokio::io::DuplexStream,
    ) -> Gathering<tokio::io::DuplexStream> {
        theirs.write_all(b"!").await.expect("there is room");
        ours.read_u8().await.expect("it was written");
        ours
    }

    #[tokio::test]
    async fn before_it_is_established_and_where_it_is_not_wanted_nothing_is_put_off() {
        let (ours, mut theirs) = duplex(1 << 10);
        let fresh = Gathering::new(ours);
        let (passing, mut other) = duplex(1 << 10);
        let passing = established(Gathering::passing(passing), &mut other).await;
        for (mut ours, theirs) in [(fresh, &mut theirs), (passing, &mut other)] {
            ours.write_all(b"hello").await.expect("there is room");
            ours.flush().await.expect("there is room");
            let mut read = [0; 5];
            theirs.read_exact(&mut read).await.expect("it was sent");
        }
    }

    #[tokio::test]
    async fn small_pieces_leave_with_the_second_flush() {
        let (ours, mut theirs) = duplex(1 << 20);
        let mut ours = established(Gathering::new(ours), &mut theirs).await;
        ours.write_all(b"one ").await.expect("it is gathered");
        ours.flush().await.expect("it is put off");
        ours.write_all(b"two").await.expect("it is gathered");
        assert_eq!(ours.gathered.len(), 7);
        ours.flush().await.expect("it is sent");
        let mut read = [0; 7];
        theirs.read_exact(&mut read).await.expect("both arrived");
        assert_eq!(&read, b"one two");
        assert!(ours.gathered.is_empty() && !ours.deferred);
    }

    #[tokio::test]
    async fn order_is_kept_and_nothing_is_lost() {
        let (ours, mut theirs) = duplex(1 << 10);
        let mut ours = established(Gathering::new(ours), &mut theirs).await;
        let pieces: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n; usize::from(n) * 50]).collect();
        let expected = pieces.concat();
        let reading = tokio::spawn(async move {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).await.expect("the other end ends in good order");
            read
        });
        for piece in &pieces {
            ours.write_all(piece).await.expect("the other end reads");
            ours.flush().await.expect("the other end reads");
        }
        poll_fn(|cx| Pin::new(&mut ours).poll_shutdown(cx)).await.expect("the rest is sent");
        drop(ours);
        assert_eq!(reading.await.expect("reading does not panic"), expected);
    }
}
