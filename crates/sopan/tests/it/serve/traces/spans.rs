//! Spans, read from what a collector gets: an `ExportTraceServiceRequest` in Protocol Buffers.
//!
//! Field numbers are those of `opentelemetry/proto/trace/v1/trace.proto`.

/// One span, its ids in hexadecimal.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) service: String,
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) name: String,
    /// 1 within the program, 2 a server's, 3 a client's.
    pub(super) kind: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) is_error: bool,
}

impl Span {
    /// What an attribute says; empty if there is none.
    pub(super) fn said(&self, key: &str) -> &str {
        self.attributes.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value)
    }
}

/// All spans of a request, in their order.
pub(super) fn read(request: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource_spans in messages(request, 1) {
        let resource = messages(resource_spans, 1).remove(0);
        let service = attributes(resource, 1).into_iter().find(|(key, _)| key == "service.name").unwrap().1;
        for scope_spans in messages(resource_spans, 2) {
            spans.extend(messages(scope_spans, 2).into_iter().map(|message| span(message, &service)));
        }
    }
    spans
}

fn span(message: &[u8], service: &str) -> Span {
    let bytes = |field| messages(message, field).pop().unwrap_or_default();
    let hex = |field| bytes(field).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (trace, id) = (hex(1), hex(2));
    assert_eq!((trace.len(), id.len()), (32, 16));
    let number = |field| numbers(message, field).pop().unwrap_or_default();
    Span {
        service: service.to_owned(),
        trace,
        id,
        parent: hex(4),
        name: text(bytes(5)),
        kind: number(6),
        from: number(7),
        to: number(8),
        attributes: attributes(message, 9),
        is_error: messages(message, 15).first().is_some_and(|status| numbers(status, 3) == [2]),
    }
}

fn attributes(message: &[u8], field: u64) -> Vec<(String, String)> {
    let pair = |pair: &[u8]| {
        let value = messages(pair, 2).remove(0);
        let text = messages(value, 1).pop().map(text);
        let whole = || numbers(value, 3).pop().map(|number| (number as i64).to_string());
        let number = || numbers(value, 4).pop().map(|bits| f64::from_bits(bits).to_string());
        (self::text(messages(pair, 1).remove(0)), text.or_else(whole).or_else(number).unwrap())
    };
    messages(message, field).into_iter().map(pair).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What stands under a field that has a length.
fn messages(message: &[u8], field: u64) -> Vec<&[u8]> {
    let with_length = |(known, part)| if let Part::Bytes(bytes) = part { Some((known, bytes)) } else { None };
    parts(message).into_iter().filter_map(with_length).filter(|(known, _)| *known == field).map(|(_, b)| b).collect()
}

/// What stands under a field that is a number of any kind.
fn numbers(message: &[u8], field: u64) -> Vec<u64> {
    let number = |(known, part)| if let Part::Number(number) = part { Some((known, number)) } else { None };
    parts(message).into_iter().filter_map(number).filter(|(known, _)| *known == field).map(|(_, n)| n).collect()
}

enum Part<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

fn parts(mut message: &[u8]) -> Vec<(u64, Part<'_>)> {
    let mut parts = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let fixed = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let part = match tag & 7 {
            0 => Part::Number(varint(&mut message)),
            1 => Part::Number(fixed(take(&mut message, 8))),
            2 => {
                let length = varint(&mut message) as usize;
                Part::Bytes(take(&mut message, length))
            }
            5 => Part::Number(fixed(take(&mut message, 4))),
            wire => panic!("there is no wire type {wire}"),
        };
        parts.push((tag >> 3, part));
    }
    parts
}

fn varint(message: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = take(message, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

fn take<'m>(message: &mut &'m [u8], length: usize) -> &'m [u8] {
    let (taken, rest) = message.split_at(length);
    *message = rest;
    taken
}
