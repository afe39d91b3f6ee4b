//! What is counted of clients that have keys: how many of their requests were answered, refused, or left, and how many were
//! sent to each upstream for them.
//!
//! Only of those that the settings name, so that no label comes over a wire. Where there are none there is nothing to show.

use std::array;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use sopan_engine::event::Event;

use super::tally::Tally;
use crate::serve::number_of;

/// What is counted of each client, in the order of the settings.
#[derive(Debug)]
pub(super) struct ByClient(Vec<Client>);

#[derive(Debug)]
struct Client {
    name: Arc<str>,
    requests: [Counter; RESULTS.len()],
}

/// What becomes of requests; where in the list is told by [`result`].
const RESULTS: [&str; 3] = ["answered", "refused", "left"];

fn result(event: &Event<'_>) -> usize {
    match (event.refused, event.status) {
        (Some(_), _) => 1,
        (None, Some(_)) => 0,
        (None, None) => 2,
    }
}

impl ByClient {
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let client = |name: String| Client { name: name.into(), requests: array::from_fn(|_| Counter::default()) };
        Self(names.into_iter().map(client).collect())
    }

    /// Counts an exchange; answers with the name of its client, if a key told it.
    pub(super) fn ended(&self, event: &Event<'_>) -> Option<&Arc<str>> {
        let Client { name, requests } = self.0.get(number_of(event.client)?)?;
        requests[result(event)].inc();
        Some(name)
    }

    /// A counter for each, for who counts by upstream as well.
    pub(super) fn counters(&self) -> Box<[Counter]> {
        self.0.iter().map(|_| Counter::default()).collect()
    }

    pub(super) fn register(&self, registry: &mut Registry, upstreams: &[Arc<Tally>]) {
        if self.0.is_empty() {
            return;
        }
        let help = "Attempts to send requests of clients that have keys upstream: what each took of the limits";
        let name = |client: &Client| Arc::clone(&client.name);
        let sent = |tally: &Arc<Tally>| (Arc::clone(&tally.upstream), tally.by_client.clone());
        let sent = Sent { clients: self.0.iter().map(name).collect(), upstreams: upstreams.iter().map(sent).collect() };
        registry.register("client_attempts", help, sent);
        let help =
            "Requests of clients that have keys, by what became of them; left if the client went before an answer";
        let clients = self.0.iter().map(|client| (Arc::clone(&client.name), client.requests.clone())).collect();
        registry.register("client_requests", help, Counted(clients));
    }
}

/// The same for who scrapes.
#[derive(Debug)]
struct Counted(Vec<(Arc<str>, [Counter; RESULTS.len()])>);

impl EncodeMetric for Counted {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (client, requests) in &self.0 {
            for (result, counter) in RESULTS.iter().zip(requests) {
                counter.encode(encoder.encode_family(&[("client", &**client), ("result", *result)])?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// Attempts, by upstream and client.
#[derive(Debug)]
struct Sent {
    clients: Vec<Arc<str>>,
    upstreams: Vec<(Arc<str>, Box<[Counter]>)>,
}

impl EncodeMetric for Sent {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (upstream, counters) in &self.upstreams {
            for (client, counter) in self.clients.iter().zip(counters) {
                counter.encode(encoder.encode_family(&[("upstream", &**upstream), ("client", &**client)])?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use sopan_core::queue::ClientId;

    use super::super::Metrics;
    use super::super::tests::{check_form, check_lines, event};
    use super::*;
    use crate::serve::of_key;

    #[test]
    fn requests_of_clients_with_keys_are_counted_wherever_they_go() {
        let names = |names: [&str; 2]| names.map(str::to_owned);
        let metrics = Metrics::with_clients(names(["shop", "mail"]), names(["etl", "web"]), None);
        let of = |number| Event { client: of_key(number), ..event(200) };
        metrics.observer(0).ended(&of(1));
        metrics.observer(1).ended(&Event { attempts: 3, ..of(1) });
        metrics.none().ended(&Event { refused: Some("not-allowed"), status: Some(StatusCode::FORBIDDEN), ..of(1) });
        metrics.observer(0).ended(&Event { status: None, ..of(0) });
        // Of nobody who is known, and of an address.
        metrics.observer(0).ended(&of(2));
        metrics.observer(0).ended(&Event { client: ClientId(1 << 64), ..event(200) });
        let text = metrics.text();
        check_form(&text);
        let line = |client, result, count| {
            format!("sopan_client_requests_total{{client=\"{client}\",result=\"{result}\"}} {count}")
        };
        let lines = [
            line("web", "answered", 2),
            line("web", "refused", 1),
            line("web", "left", 0),
            line("etl", "answered", 0),
            line("etl", "refused", 0),
            line("etl", "left", 1),
        ];
        check_lines(&text, &lines.each_ref().map(String::as_str));
        let sent = |upstream, client, count| {
            format!("sopan_client_attempts_total{{upstream=\"{upstream}\",client=\"{client}\"}} {count}")
        };
        // Two attempts each, but for the one that says otherwise; none was made for who was refused.
        let sent = [sent("shop", "etl", 2), sent("shop", "web", 2), sent("mail", "web", 3), sent("mail", "etl", 0)];
        check_lines(&text, &sent.each_ref().map(String::as_str));
        assert!(!Metrics::new([], None).text().contains("client_requests"));
    }
}
