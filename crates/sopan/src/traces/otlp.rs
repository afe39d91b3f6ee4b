//! How are spans written down for those who collect them?
//!
//! As an `ExportTraceServiceRequest` of OpenTelemetry's protocol, in Protocol Buffers: the one form that every collector
//! reads. That is a message within a message within a message, each with its length in front, and numbers for names; the
//! numbers here are those of `opentelemetry/proto/trace/v1/trace.proto`, which do not change any more.

use super::spans::{Kind, Span, Value};
use sopan_core::trace::Trace;

/// What the spans of several exchanges have in common.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) service_name: String,
    pub(super) version: &'static str,
}

/// A request that exports these; each is of the trace beside it.
pub(super) fn request(common: &Common, spans: &[(Trace, Vec<Span>)]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |resource| {
            attribute(resource, 1, "service.name", &common.service_name.clone().into());
            attribute(resource, 1, "service.version", &common.version.into());
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.text(1, "sopan");
                scope.text(2, common.version);
            });
            for (trace, spans) in spans {
                for span in spans {
                    scope_spans.message(2, |message| write(message, *trace, span));
                }
            }
        });
    });
    request.0
}

/// The parent's place is known, and it is elsewhere.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// `STATUS_CODE_ERROR`
const ERROR: u64 = 2;

fn write(message: &mut Message, trace: Trace, span: &Span) {
    message.bytes(1, &trace.id.to_bytes());
    message.bytes(2, &span.id.to_bytes());
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.to_bytes());
    }
    message.text(5, &span.name);
    message.number(
        6,
        match span.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
    );
    message.fixed64(7, span.from);
    message.fixed64(8, span.to);
    for (key, value) in &span.attributes {
        attribute(message, 9, key, value);
    }
    if let Some(words) = &span.error {
        message.message(15, |status| {
            status.text(2, words);
            status.number(3, ERROR);
        });
    }
    let remote = if span.is_parent_elsewhere { IS_REMOTE } else { 0 };
    message.fixed32(16, u32::from(trace.flags) | HAS_IS_REMOTE | remote);
}

fn attribute(message: &mut Message, field: u32, key: &str, value: &Value) {
    message.message(field, |pair| {
        pair.text(1, key);
        pair.message(2, |any| match value {
            Value::Text(text) => any.bytes(1, text.as_bytes()),
            Value::Whole(number) => any.varint_field(3, *number as u64),
            Value::Number(number) => any.fixed64(4, number.to_bits()),
        });
    });
}

/// A message of Protocol Buffers. What has its default is left out, but where that says something.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn text(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.varint_field(field, number);
        }
    }

    fn varint_field(&mut self, field: u32, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    fn fixed64(&mut self, field: u32, bits: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&bits.to_le_bytes());
    }

    fn fixed32(&mut self, field: u32, bits: u32) {
        self.tag(field, 5);
        self.0.extend_from_slice(&bits.to_le_bytes());
    }

    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held against what `protoc --decode` and the generated code of others make of it.
    #[test]
    fn numbers_lengths_and_words_are_written_as_protocol_buffers_have_them() {
        let mut message = Message::default();
        message.number(1, 0);
        message.number(1, 1);
        message.number(1, 300);
        message.varint_field(2, u64::MAX);
        message.text(3, "");
        message.text(16, "é");
        message.message(4, |inner| inner.fixed32(1, 1));
        message.fixed64(5, 1.5_f64.to_bits());
        let expected: &[&[u8]] = &[
            &[0x08, 0x01],
            &[0x08, 0xac, 0x02],
            &[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x82, 0x01, 0x02, 0xc3, 0xa9],
            &[0x22, 0x05, 0x0d, 0x01, 0x00, 0x00, 0x00],
            &[0x29, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f],
        ];
        assert_eq!(message.0, expected.concat());
    }
}
