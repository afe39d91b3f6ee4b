//! Entity tags, and whether a client has an answer already (RFC 9110 §8.8.3, §13.1.2).
//!
//! Some APIs do not count a request that they answer with 304; whether that is so here is a setting.

use http::HeaderMap;
use http::header::IF_NONE_MATCH;

/// Whether answers have an `ETag`, and what a 304 costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Etag {
    /// There is none.
    #[default]
    Off,
    /// A 304 costs as much as any other answer.
    On,
    /// It costs nothing.
    Free,
}

impl Etag {
    /// All of them, with their names on command lines.
    pub const ALL: [(&'static str, Self); 3] = [("off", Self::Off), ("on", Self::On), ("free", Self::Free)];
}

/// The strong tag of a body.
pub(crate) fn of(body: &[u8]) -> String {
    // FNV-1a: the same in every run, and nobody here means to deceive.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("\"{:016x}\"", body.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Whether a client that sends these fields has what has this tag.
pub(crate) fn is_known(request: &HeaderMap, tag: &str) -> bool {
    let lines = request.get_all(IF_NONE_MATCH).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).any(|known| {
        // Weak comparison; our tags have no comma in them.
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    })
}
