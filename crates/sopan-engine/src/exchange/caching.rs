//! The two steps in which an exchange meets the cache: before its first wait, and behind its last answer.
//!
//! What is decided, whether an answer in store will do, how the upstream is asked, what becomes of its answer, is decided
//! in `sopan_core::cache`; here it is done. A fresh hit is answered on the spot, without a task, a wait or a token
//! ([`Exchange::from_store`]). All else has a [`Caching`] from then on, in which what the client asked is kept as it was,
//! since the head is changed on its way to the upstream. How an answer is made of what is stored is in `reuse`, asking in the
//! background in `background`, what an unsafe request makes untrue in `untrue`.

mod background;
mod reuse;
mod untrue;
mod whose;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use sopan_core::cache::directives::RequestDirectives;
use sopan_core::cache::status::{CacheStatus, Forward};
use sopan_core::cache::{
    After, Asked, Failure, Lookup, NotStored, Owner, Received, Reuse, Send, Stored, Times, after_failure, after_response,
    lookup,
};
use sopan_core::policy::PathTreatment;
use sopan_core::retry::{Outcome, Verdict};

use super::{Answer, End, Exchange};
use crate::body::Body;
use crate::coalesce::{Joined, Leader, Led};
use crate::event::{Cached, Observed};
use crate::refusal::Refusal;
use crate::store::{Entry, Epoch, Key};
