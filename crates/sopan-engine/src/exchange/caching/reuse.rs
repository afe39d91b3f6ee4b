//! An answer made of one in store.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{AGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use sopan_core::cache::multipart::Multipart;
use sopan_core::cache::range::{Part, Span, unsatisfied};
use sopan_core::cache::status::CacheStatus;
use sopan_core::cache::{Extent, Reuse, Shape, Stored};
use sopan_core::decimal::Decimal;

use crate::event::Cached;
use crate::exchange::answer::{AnswerBody, Sharing};
use crate::exchange::filed::{self, Filed};
use crate::exchange::flow::Reader;
use crate::exchange::{Answer, End, Exchange};
use crate::store::{Body, Entry, Key, Variant};

pub(super) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// What describes a body, and is not told where none of it is sent (RFC 9110 §15.4.5 and §15.5.17).
const OF_THE_BODY: [HeaderName; 5] = [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE];

/// About what our own lines of a head take.
const OWN_LINES: usize = 192;

impl Exchange<'_> {
    /// Answers with one of these stored answers, no file of which is needed.
    pub(super) fn reuse_at_once(&mut self, entry: &Entry, reuse: &Reuse) -> Answer {
        let variant = &entry.variants[reuse.index];
        self.story.cache = Some(if reuse.stale.is_some() { Cached::Stale } else { Cached::Hit });
        self.story.cache_detail = reuse.stale;
        let takes_lines = self.hop().is_some_and(|hop| hop.takes_lines);
        let held = match (&variant.body, &variant.lines) {
            (Body::Memory(held), Some(lines)) if takes_lines && reuse.shape == Shape::Whole => {
                return self.give_written(variant.stored.status, lines, held, reuse);
            }
            (Body::Memory(held), _) => held.clone(),
            (Body::File(_), _) => Bytes::new(),
        };
        let (response, wanted) = self.head_from(variant, reuse, &hit(reuse));
        self.give(response, &held, wanted)
    }

    /// Answers with all of a stored answer, the lines of whose head are written already. That is what most hits are, and to
    /// make a map of fields to be written once would cost more than all else.
    fn give_written(&mut self, status: StatusCode, stored: &[u8], held: &Bytes, reuse: &Reuse) -> Answer {
        let mut lines = Vec::with_capacity(stored.len() + OWN_LINES);
        for part in [stored, b"age: ", Decimal::of(reuse.age).as_bytes(), b"\r\ncache-status: "] {
            lines.extend_from_slice(part);
        }
        hit(reuse).write(&mut lines);
        lines.extend_from_slice(b"\r\n");
        let mut response = Response::new(Some(held.clone()));
        *response.status_mut() = status;
        self.finish_written(response, lines)
    }

    /// The same, also from a file; none if that is lost.
    pub(super) async fn reuse(&mut self, key: &Key, entry: &Entry, reuse: &Reuse, how: Cached) -> Option<Answer> {
        self.answer_from(key, &entry.variants[reuse.index], reuse, how, &hit(reuse)).await
    }

    /// Answers with this one; none if its body is lost.
    pub(super) async fn answer_from(
        &mut self,
        key: &Key,
        variant: &Variant,
        reuse: &Reuse,
        how: Cached,
        status: &CacheStatus,
    ) -> Option<Answer> {
        let (response, wanted) = self.head_from(variant, reuse, status);
        if let Body::Memory(held) = &variant.body {
            self.caching = None;
            (self.story.cache, self.story.cache_detail) = (Some(how), status.detail);
            return Some(self.give(response, held, wanted));
        }
        let store = &self.upstream.cache.as_ref()?.store;
        let mut pieces = VecDeque::new();
        for piece in wanted.pieces(variant.body.len()) {
            pieces.push_back(match piece {
                Piece::Text(text) => filed::Piece::Text(text),
                Piece::Held(Span { first, last }) => {
                    filed::Piece::Stored(store.read(key, variant, first..last + 1).await.ok()?)
                }
            });
        }
        (self.story.cache, self.story.cache_detail) = (Some(how), status.detail);
        let upstream = Arc::clone(self.upstream);
        Some(self.begin(response, End::Done, |told| AnswerBody::Filed(Box::new(Filed::new(pieces, told, upstream)))))
    }

    /// The head of an answer from store, and what of the body goes with it.
    fn head_from(&self, variant: &Variant, reuse: &Reuse, status: &CacheStatus) -> (Response<()>, Wanted) {
        let mut response = Response::new(());
        *response.status_mut() = variant.stored.status;
        *response.headers_mut() = variant.stored.headers.clone();
        let wanted = shape(&mut response, variant, &reuse.shape, || self.upstream.jitter.number());
        let headers = response.headers_mut();
        headers.insert(AGE, HeaderValue::from(reuse.age));
        headers.append(CACHE_STATUS, status.value());
        self.lead_back(headers);
        (response, wanted)
    }

    /// Gives the client what it wants of a body.
    fn give(&mut self, response: Response<()>, held: &Bytes, wanted: Wanted) -> Answer {
        let slice = |span: Span| held.slice(span.first as usize..=span.last as usize);
        let body = match wanted {
            Wanted::Nothing => None,
            Wanted::All => Some(held.clone()),
            Wanted::Some(span) => Some(slice(span)),
            Wanted::Pieces(pieces) => {
                let mut body = BytesMut::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => body.extend_from_slice(&text),
                        Piece::Held(span) => body.extend_from_slice(&slice(span)),
                    }
                }
                Some(body.freeze())
            }
        };
        self.finish(response.map(|()| body), End::Done)
    }

    /// Answers with one that is coming for another request; none if this one needs more than that.
    pub(super) fn answer_as_it_comes(
        &mut self,
        stored: &Stored,
        reader: Reader,
        reuse: &Reuse,
        told: &CacheStatus,
    ) -> Option<Answer> {
        let mut response = Response::new(());
        *response.status_mut() = stored.status;
        *response.headers_mut() = stored.headers.clone();
        let reader = match reuse.shape {
            Shape::Whole => Some(reader),
            Shape::Head => None,
            Shape::NotModified => {
                without_body(&mut response, StatusCode::NOT_MODIFIED);
                None
            }
            Shape::Part(_) | Shape::Parts(_) | Shape::Unsatisfiable => return None,
        };
        self.caching = None;
        self.story.cache = Some(Cached::Coalesced);
        let headers = response.headers_mut();
        headers.insert(AGE, HeaderValue::from(reuse.age));
        headers.append(CACHE_STATUS, told.value());
        self.lead_back(headers);
        Some(match reader {
            Some(reader) => {
                self.begin(response, End::Done, |told| AnswerBody::Sharing(Box::new(Sharing::new(reader, told))))
            }
            None => self.finish(response.map(|()| None), End::Done),
        })
    }
}

/// What a client is told of an answer from store.
fn hit(reuse: &Reuse) -> CacheStatus {
    CacheStatus { hit: true, ttl: Some(reuse.ttl), detail: reuse.stale, ..CacheStatus::default() }
}

/// What of a body in store is sent, its bytes counted from the first one that is held.
enum Wanted {
    Nothing,
    All,
    Some(Span),
    Pieces(Vec<Piece>),
}

enum Piece {
    Text(Bytes),
    Held(Span),
}

impl Wanted {
    /// As pieces, of a body this long.
    fn pieces(self, length: u64) -> Vec<Piece> {
        match self {
            Self::Nothing => Vec::new(),
            Self::All => length.checked_sub(1).map(|last| Piece::Held(Span { first: 0, last })).into_iter().collect(),
            Self::Some(span) => vec![Piece::Held(span)],
            Self::Pieces(pieces) => pieces,
        }
    }
}

/// Gives the head its shape; answers what of the body goes with it. `number` is any that nobody can guess.
fn shape(response: &mut Response<()>, variant: &Variant, shape: &Shape, number: impl FnOnce() -> u128) -> Wanted {
    let (first, complete) = match variant.stored.extent {
        Extent::Whole(_) => (0, Some(variant.body.len())),
        Extent::Part(part) => (part.span.first, part.complete),
    };
    let held = |span: Span| Span { first: span.first - first, last: span.last - first };
    match shape {
        Shape::Whole => Wanted::All,
        Shape::Head => {
            // Of a body that came in chunks nobody has told the length yet.
            if let Some(length) = complete {
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            Wanted::Nothing
        }
        Shape::NotModified => {
            without_body(response, StatusCode::NOT_MODIFIED);
            Wanted::Nothing
        }
        Shape::Part(span) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let part = Part { span: *span, complete };
            response.headers_mut().insert(CONTENT_RANGE, part.content_range());
            Wanted::Some(held(*span))
        }
        Shape::Parts(spans) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let headers = response.headers_mut();
            let around = Multipart::new(spans, complete.unwrap_or_default(), headers.get(CONTENT_TYPE), number());
            headers.insert(CONTENT_TYPE, around.content_type);
            let parts = around.heads.into_iter().zip(spans);
            let pieces = parts.flat_map(|(head, span)| [Piece::Text(head), Piece::Held(held(*span))]);
            Wanted::Pieces(pieces.chain([Piece::Text(around.tail)]).collect())
        }
        Shape::Unsatisfiable => {
            without_body(response, StatusCode::RANGE_NOT_SATISFIABLE);
            let range = unsatisfied(complete.unwrap_or_default());
            response.headers_mut().insert(CONTENT_RANGE, range);
            Wanted::Nothing
        }
    }
}

fn without_body(response: &mut Response<()>, status: StatusCode) {
    *response.status_mut() = status;
    for name in OF_THE_BODY {
        response.headers_mut().remove(name);
    }
}
