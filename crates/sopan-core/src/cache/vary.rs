//! Which requests is an answer for (`Vary`, RFC 9111 §4.1)?

use http::{HeaderMap, HeaderName};

/// What an answer was chosen by: the fields that its `Vary` names, and what its request had in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selecting {
    /// Whether it was chosen by what no field shows (`Vary: *`), so that it is for no other request.
    pub is_beyond_fields: bool,
    /// Each field, in the order of names, and its lines joined and made comparable; none where the request had none.
    pub fields: Box<[(HeaderName, Option<Box<[u8]>>)]>,
}

impl Selecting {
    /// By what an answer with these fields was chosen, for a request with those.
    pub fn of(_answer: &HeaderMap, _request: &HeaderMap) -> Self {
        Self::default()
    }

    /// Whether a request would have been answered with it too.
    pub fn is_for(&self, _request: &HeaderMap) -> bool {
        !self.is_beyond_fields
    }
}
