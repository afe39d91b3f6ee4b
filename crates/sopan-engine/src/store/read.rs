//! How do bytes of a stored body come to a client?
//!
//! From memory at once. From a file in pieces of a few blocks, each read and verified on a thread where blocking is allowed,
//! one ahead of the client. A body that is not what was written breaks off before the first wrong byte, and its answer is
//! dropped.

use std::fmt;
use std::fs::File;
use std::future::Future as _;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::disk::{BLOCK, BodyLost, FileBody};
use super::{Body, Cache, Key, Variant};

/// Blocks that are read at once: 256 KiB.
const AHEAD: u64 = 4;

/// Bytes of a stored body, from one to another.
pub(crate) struct BodyReader(Inner);

enum Inner {
    Here(Option<Bytes>),
    File(Box<FileReader>),
}

struct FileReader {
    cache: Arc<Cache>,
    key: Key,
    body: Arc<FileBody>,
    file: Arc<File>,
    /// What was read and is to be given next.
    here: Option<Bytes>,
    /// What is being read meanwhile.
    reading: Option<JoinHandle<Result<Bytes, BodyLost>>>,
    /// What is to be read after that.
    next: Range<u64>,
    /// Bytes that were not given yet.
    left: u64,
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyReader({} bytes left)", self.len())
    }
}

impl BodyReader {
    /// The bytes in this range, of which the first ones are there when it returns: what has been lost is best known while
    /// the upstream can still be asked.
    pub(super) async fn open(
        cache: &Arc<Cache>,
        key: &Key,
        variant: &Variant,
        range: Range<u64>,
    ) -> Result<Self, BodyLost> {
        debug_assert!(range.start <= range.end && range.end <= variant.body.len(), "the range is within the body");
        let body = match &variant.body {
            Body::Memory(bytes) => {
                let bytes = bytes.slice(range.start as usize..range.end as usize);
                return Ok(Self(Inner::Here(Some(bytes).filter(|bytes| !bytes.is_empty()))));
            }
            Body::File(body) => Arc::clone(body),
        };
        let opening = Arc::clone(&body);
        let opened = tokio::task::spawn_blocking(move || opening.open()).await.unwrap_or(Err(BodyLost::Gone));
        let file = match opened {
            Ok(file) => Arc::new(file),
            Err(lost) => return Err(cache.lose(key, body.id, lost)),
        };
        let (cache, key) = (Arc::clone(cache), key.clone());
        let left = range.end - range.start;
        let mut reader = Box::new(FileReader { cache, key, body, file, here: None, reading: None, next: range, left });
        reader.read_ahead();
        std::future::poll_fn(|cx| reader.poll_read(cx)).await?;
        Ok(Self(Inner::File(reader)))
    }

    /// How many bytes are still to come.
    pub(crate) fn len(&self) -> u64 {
        match &self.0 {
            Inner::Here(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            Inner::File(reader) => reader.left,
        }
    }

    /// The next bytes; none at the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyLost>>> {
        match &mut self.0 {
            Inner::Here(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Inner::File(reader) => reader.poll_next(cx),
        }
    }
}

impl FileReader {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyLost>>> {
        if let Err(lost) = ready!(self.poll_read(cx)) {
            (self.next, self.left) = (0..0, 0);
            return Poll::Ready(Some(Err(lost)));
        }
        let here = self.here.take();
        self.read_ahead();
        self.left -= here.as_ref().map_or(0, |here| here.len() as u64);
        Poll::Ready(here.map(Ok))
    }

    /// Ready when there is something here, or nothing to come.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyLost>> {
        if self.here.is_none()
            && let Some(reading) = &mut self.reading
        {
            // It is given up only with the runtime.
            let read = ready!(Pin::new(reading).poll(cx)).unwrap_or(Err(BodyLost::Gone));
            self.reading = None;
            self.here = Some(read.map_err(|lost| self.cache.lose(&self.key, self.body.id, lost))?);
        }
        Poll::Ready(Ok(()))
    }

    fn read_ahead(&mut self) {
        if self.reading.is_some() || self.next.is_empty() {
            return;
        }
        let block = BLOCK as u64;
        let first = self.next.start / block;
        let end = ((first + AHEAD) * block).min(self.next.end);
        let within = (self.next.start - first * block) as usize..(end - first * block) as usize;
        let (body, file) = (Arc::clone(&self.body), Arc::clone(&self.file));
        let read = move || body.read(&file, first, end.div_ceil(block) - first).map(|bytes| bytes.slice(within));
        self.reading = Some(tokio::task::spawn_blocking(read));
        self.next.start = end;
    }
}
