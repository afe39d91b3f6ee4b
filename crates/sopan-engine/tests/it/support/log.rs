//! What the engine logs, kept for a test to look at.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
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

impl Log {
    pub(crate) fn keep() -> Self {
        // With a single subscriber whoever comes first to a place that logs decides for all whether anybody listens there,
        // also a test in another thread that keeps nothing.
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| Dispatch::new(Keeper::default()));
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
