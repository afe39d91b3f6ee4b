//! How a connection to an upstream is made.
//!
//! [`Dial`] is the seam that tests replace: everything above it, the pool, HTTP and the exchange, runs in them as it does
//! in earnest, over a pair of pipes in memory and on a paused clock.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::fault::in_handshake;
use super::race::race;
use super::{Target, tls};

/// Makes connections to one upstream.
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    /// A new connection, ready to carry HTTP.
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>>;

    /// The same where nothing but HTTP/1.1 will do.
    fn dial_http_1(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        self.dial()
    }
}

/// A connection's bytes.
pub enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// Anything else: a pipe in memory, a tunnel.
    Other(Box<dyn Io>),
    /// The same where HTTP/2 has been agreed on, and not HTTP/1.1.
    Http2(Box<dyn Io>),
}

/// Bytes both ways.
pub trait Io: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> Io for T {}

// Without what it holds: a pipe in memory would show the bytes on their way.
impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp(_) => "Tcp",
            Self::Tls(_) => "Tls",
            Self::Other(_) => "Other",
            Self::Http2(_) => "Http2",
        })
    }
}

/// Connections over TCP, with TLS where the target wants it.
pub(crate) struct TcpDial {
    host: String,
    port: u16,
    tls: Option<Tls>,
}

/// What TLS to an upstream takes.
struct Tls {
    name: ServerName<'static>,
    /// Offers HTTP/2 too, unless it is switched off.
    any: TlsConnector,
    http_1: TlsConnector,
}

/// Which versions of HTTP are offered to an upstream over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    Any,
    Http1,
}

impl TcpDial {
    pub(crate) fn new(
        target: &Target,
        roots: &tls::Roots,
        client: Option<&tls::ClientCertificate>,
        http2: bool,
    ) -> Result<Self, tls::TlsError> {
        let tls = if target.is_tls() {
            let (config, name) = tls::config(target.host(), roots, client)?;
            let offering = |protocols: &[&[u8]]| {
                let mut config = config.clone();
                config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
                TlsConnector::from(Arc::new(config))
            };
            let http_1 = offering(&[b"http/1.1"]);
            let any = if http2 { offering(&[b"h2", b"http/1.1"]) } else { http_1.clone() };
            Some(Tls { name, any, http_1 })
        } else {
            None
        };
        Ok(Self { host: target.host().to_owned(), port: target.port(), tls })
    }

    async fn connect(&self, offer: Offer) -> io::Result<Stream> {
        let tcp = connect_tcp(&self.host, self.port).await?;
        tcp.set_nodelay(true)?;
        let Some(Tls { name, any, http_1 }) = &self.tls else { return Ok(Stream::Tcp(tcp)) };
        let connector = if offer == Offer::Any { any } else { http_1 };
        let tls = connector.connect(name.clone(), tcp).await.map_err(in_handshake)?;
        Ok(Stream::Tls(Box::new(tls)))
    }
}

/// Tries the name's addresses. A name without an address is told apart: [`io::ErrorKind::NotFound`].
pub(crate) async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let not_found = |why: String| io::Error::new(io::ErrorKind::NotFound, why);
    let addresses = tokio::net::lookup_host((host, port)).await;
    let addresses = addresses.map_err(|e| not_found(e.to_string()))?;
    race(addresses, not_found("the name has no address".to_owned()), TcpStream::connect).await
}

impl Dial for TcpDial {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        Box::pin(self.connect(Offer::Any))
    }

    fn dial_http_1(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        Box::pin(self.connect(Offer::Http1))
    }
}

impl fmt::Debug for TcpDial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpDial({}:{}, tls: {})", self.host, self.port, self.tls.is_some())
    }
}

impl<D: Dial + ?Sized> Dial for Arc<D> {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        (**self).dial()
    }

    fn dial_http_1(&self) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        (**self).dial_http_1()
    }
}

impl Stream {
    /// Whether HTTP/2 has been agreed on (RFC 7301).
    pub(super) fn is_http_2(&self) -> bool {
        match self {
            Self::Tls(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
            Self::Http2(_) => true,
            Self::Tcp(_) | Self::Other(_) => false,
        }
    }

    /// Lets the connection end with a reset, where there is such a thing.
    pub(crate) fn reset_at_end(&self) {
        #[cfg(target_os = "linux")]
        if let Some(tcp) = self.tcp() {
            // A socket that refuses it has ended already.
            let _ = rustix::net::sockopt::set_socket_linger(tcp, Some(std::time::Duration::ZERO));
        }
    }

    /// Lets it end in order again.
    pub(crate) fn close_at_end(&self) {
        #[cfg(target_os = "linux")]
        if let Some(tcp) = self.tcp() {
            let _ = rustix::net::sockopt::set_socket_linger(tcp, None);
        }
    }

    /// Has the kernel look now and then whether the other side is still there.
    pub(crate) fn keep_alive(&self) {
        #[cfg(target_os = "linux")]
        if let Some(tcp) = self.tcp() {
            let _ = rustix::net::sockopt::set_socket_keepalive(tcp, true);
        }
    }

    #[cfg(target_os = "linux")]
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(tcp) => Some(tcp),
            Self::Tls(tls) => Some(tls.get_ref().0),
            Self::Http2(_) | Self::Other(_) => None,
        }
    }

    /// Whether the kernel has nothing to read, not even an end. Over TLS there may be more than answers, so it is not asked.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tcp(tcp) => {
                use rustix::net::{RecvFlags, recv};
                let peeked = recv(tcp, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
                peeked.is_err_and(|error| error == rustix::io::Errno::AGAIN)
            }
            _ => true,
        }
    }
}

/// Calls the same method of whichever stream it is.
macro_rules! each {
    ($self:ident.$method:ident($($arg:expr),*)) => {
        match $self.get_mut() {
            Stream::Tcp(s) => Pin::new(s).$method($($arg),*),
            Stream::Tls(s) => Pin::new(s).$method($($arg),*),
            Stream::Other(s) | Stream::Http2(s) => Pin::new(s).$method($($arg),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(s) => s.is_write_vectored(),
            Self::Tls(s) => s.is_write_vectored(),
            Self::Other(s) | Self::Http2(s) => s.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.poll_shutdown(cx))
    }
}
