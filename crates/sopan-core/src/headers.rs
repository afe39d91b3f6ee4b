//! Which fields belong to one hop, which tell of it, where do they lead, and which may not be shown?
//!
//! An intermediary takes off what speaks of one connection before it passes a message on ([`strip_hop_by_hop`]), and
//! after a body what has no place there ([`strip_trailers`]). It says that it was there ([`append_via`]), of its client as
//! much as is wished ([`ForwardedPolicy`]), and has links lead back to itself ([`rewrite_links`]), without a secret of its own
//! that it has put into the query ([`Parameter`]). What was to go no further it answers itself ([`reach`]). Nobody may read a
//! secret in a log ([`redact_url`], [`Shown`]); who sends a request is told by those that it has ([`is_credential`]).

pub(crate) mod authority;
mod forwarded;
mod hop_by_hop;
mod last_hop;
mod links;
mod parameter;
mod redact;
mod trailers;
mod upgrade;
mod via;

pub use forwarded::{ForwardedPolicy, tells_who_asked};
pub use hop_by_hop::{is_hop_by_hop, strip_hop_by_hop};
pub use last_hop::{Reach, reach, reflect};
pub use links::{Elsewhere, Origin, is_link, rewrite_links};
pub use parameter::Parameter;
pub use redact::{Shown, is_credential, is_secret, redact_url};
pub use trailers::strip_trailers;
pub use upgrade::{is_upgrade_offered, offered_upgrade};
pub use via::{append_via, passes, went_in_a_circle};
