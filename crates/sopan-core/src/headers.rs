//! Which fields belong to one hop, and which may not be shown?
//!
//! An intermediary takes off what speaks of one connection before it passes a message on ([`strip_hop_by_hop`]), and
//! after a body what has no place there ([`strip_trailers`]); nobody may read a secret in a log ([`redact_url`],
//! [`Shown`]).

mod hop_by_hop;
mod redact;
mod trailers;
mod upgrade;

pub use hop_by_hop::{is_hop_by_hop, strip_hop_by_hop};
pub use redact::{Shown, is_secret, redact_url};
pub use trailers::strip_trailers;
pub use upgrade::{is_upgrade_offered, offered_upgrade};
