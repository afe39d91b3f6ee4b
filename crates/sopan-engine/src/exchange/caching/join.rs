//! Joining the rest of a body to the part of it that is stored.
//!
//! Whether both are of one body is decided in the core. Here the rest is read into its place, in memory that counts as what
//! is under way to the store; so it is asked for only where that will do.

use std::future::poll_fn;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use sopan_core::cache::range::{Span, part_of_answer};
use sopan_core::cache::status::CacheStatus;
use sopan_core::cache::{Ask, Extent, Reuse, Stored};

use super::Caching;
use crate::event::Cached;
use crate::exchange::{Answer, Exchange};
use crate::store::{Body, Entry, Variant};

/// Whether the rest of a part, where that is what is asked for, can be joined to it: only in memory, where both have to fit. To
/// have all of it anew costs no more tokens.
pub(super) fn is_joined(entry: &Entry, ask: &Ask, memory_max: u64) -> bool {
    let Some(missing) = ask.missing else { return true };
    let held = entry.variants.get(ask.index).map(|part| &part.body);
    matches!(held, Some(Body::Memory(held)) if held.len() as u64 + missing.length() <= memory_max)
}

impl Exchange<'_> {
    /// Joins the part that comes to the one that is stored; none if it does not come whole, or too much is under way to the
    /// store already.
    pub(super) async fn join(
        &mut self,
        caching: &mut Caching,
        part: &Variant,
        stored: Stored,
        reuse: &Reuse,
        answer: &HeaderMap,
    ) -> Option<Answer> {
        let cache = self.upstream.cache.as_ref()?;
        let (Extent::Part(before), Body::Memory(held)) = (part.stored.extent, &part.body) else { return None };
        let (held_at, span) = (before.span, part_of_answer(answer)?.span);
        let (first, last) = (held_at.first.min(span.first), held_at.last.max(span.last));
        let length = (last - first).checked_add(1).filter(|length| *length <= cache.store.memory_body_max())?;
        let _under_way = cache.store.filling().hold(length)?;
        let mut both = BytesMut::zeroed(length as usize);
        let place = |at: Span| (at.first - first) as usize..=(at.last - first) as usize;
        self.read_into(both.get_mut(place(span))?).await?;
        both.get_mut(place(held_at)).filter(|place| place.len() == held.len())?.copy_from_slice(held);
        let body = both.freeze();
        self.put_back();
        let both = Body::Memory(body.clone());
        let is_stored = cache.store.put(&caching.key, stored.clone(), both, &[part.id], caching.epoch);
        if let Some(leader) = caching.leader.take() {
            leader.stored();
        }
        let told = CacheStatus {
            forward: Some(caching.forward()),
            forward_status: Some(StatusCode::PARTIAL_CONTENT),
            stored: is_stored,
            ttl: Some(reuse.ttl),
            ..CacheStatus::default()
        };
        // What the store has made of it may be gone already.
        let both = Variant::new(part.id, stored, Body::Memory(body));
        self.answer_from(&caching.key, &both, reuse, Cached::Miss, &told).await
    }

    /// Reads a body that fills this room; none if it does not, or not in time. The head waits for it, and so it has no more
    /// time than a head has.
    async fn read_into(&mut self, mut room: &mut [u8]) -> Option<()> {
        loop {
            let idle = self.upstream.idle_timeout;
            let patience = self.left().map_or(idle, |left| left.min(idle));
            let conn = self.conn.as_mut()?;
            let frame = poll_fn(|cx| conn.poll_body(cx));
            match tokio::time::timeout(patience, frame).await {
                Ok(None) => return room.is_empty().then_some(()),
                Ok(Some(Ok(frame))) => {
                    let data = frame.into_data().unwrap_or_default();
                    room.split_off_mut(..data.len())?.copy_from_slice(&data);
                }
                Err(_) | Ok(Some(Err(_))) => return None,
            }
        }
    }
}
