//! What the engine logs, kept for a test to look at.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Dispatch, Level, Metadata, Subscriber};

/// Keeps all that is logged by this thread, which runs a test and all of its tasks.
pub(crate) struct Log {
    entries: Arc<Mutex<Vec<Entry>>>,
    _guard: DefaultGuard,
}

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<String, String>,
}

/// Has every event ask each time whether somebody keeps it. Else the thread that is the first to log it, and keeps no log,
/// settles that nobody does, just when another thread begins to keep one.
pub(crate) fn ask_each_time() {
    static ASKS: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Keeper::default()));
    LazyLock::force(&ASKS);
}

impl Log {
    pub(crate) fn keep() -> Self {
        ask_each_time();
        let keeper = Keeper::default();
        let entries = Arc::clone(&keeper.0);
        Self { entries, _guard: tracing::subscriber::set_default(keeper) }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// The texts of what was logged at WARN.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.entries().into_iter().filter(|entry| entry.level == Level::WARN).map(|entry| entry.message).collect()
    }
}

#[derive(Default)]
struct Keeper(Arc<Mutex<Vec<Entry>>>);

impl Subscriber for Keeper {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("sopan")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        self.0.lock().push(Entry { level: *event.metadata().level(), message, fields: fields.0 });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}
