//! Interim answers (1xx, RFC 9110 §15.2) on their way to a client: an intermediary passes them on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use http::Response;
use parking_lot::Mutex;
use sopan_core::headers::strip_hop_by_hop;

/// The interim answers to one client's requests that have not been sent on yet. A door makes one for a connection, hands it
/// over with each [`Inbound`](crate::exchange::Inbound), and takes out what has come whenever it has polled the exchange;
/// it must poll it again then.
#[derive(Clone, Default)]
pub struct Interims(Arc<Mutex<VecDeque<Response<()>>>>);

/// More do not wait: the upstream is not read further until the client has taken some.
const WAITING_MAX: usize = 4;
/// An upstream that cannot be held back, since others are answered on the same connection, has so many at most.
const WAITING_HARD_MAX: usize = 16;

impl Interims {
    /// The next one.
    pub fn take(&self) -> Option<Response<()>> {
        self.0.lock().pop_front()
    }

    /// Whether the upstream must wait with more.
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().len() >= WAITING_MAX
    }

    /// Whether there are more than any client can be meant to get.
    pub(crate) fn is_flooded(&self) -> bool {
        self.0.lock().len() >= WAITING_HARD_MAX
    }

    /// Adds one, without what belongs to the upstream's hop.
    pub(crate) fn add(&self, mut interim: Response<()>) {
        strip_hop_by_hop(interim.headers_mut());
        self.0.lock().push_back(interim);
    }
}

impl fmt::Debug for Interims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interims({} waiting)", self.0.lock().len())
    }
}
