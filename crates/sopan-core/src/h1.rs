//! What does an HTTP/1.1 message say, where does it end, and how is it written (RFC 9112)?
//!
//! Both sides of an intermediary at once: [`request::read`] for what clients send, [`response::read`] for what upstreams
//! answer, [`body::Decoder`] for the bodies of both, [`framer::Framer`] for all that is sent. Bytes in, values out; who
//! calls does the reading and writing.
//!
//! Strict: a message that two parsers could understand in two ways is refused, never mended, and nothing is copied
//! through: what is sent is made anew from the parsed parts. So no byte of one party becomes a message of another.

pub mod authority;
pub mod body;
pub mod fields;
pub mod framer;
pub mod request;
pub mod response;

/// The largest head that is read, and the longest request target.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
