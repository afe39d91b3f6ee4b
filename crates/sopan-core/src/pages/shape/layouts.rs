//! The shape of many records, looked at closely only where a record is unlike all before it.
//!
//! Most records of a collection have the same fields of the same kinds. So each is passed over once, without what its strings and
//! numbers say, and summed up in a number; only one whose number is new adds to the [`Shape`]. That is several times as fast, and
//! the shape says the same of which fields there are, of which kinds, and which are always there.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::Shape;

/// So many layouts are known again, which take 1 MiB at most. Records beyond them are looked at one by one.
const LAYOUTS_MAX: usize = 1 << 16;

/// The shape of what was taken in so far.
#[derive(Debug, Clone, Default)]
pub struct Layouts {
    shape: Shape,
    seen: HashSet<u64>,
}

impl Layouts {
    /// Goes on with what records were like so far.
    pub fn new(shape: Shape) -> Self {
        Self { shape, seen: HashSet::new() }
    }

    /// Takes in one more record. Answers with whether it was unlike those before it.
    pub fn add(&mut self, record: &RawValue) -> bool {
        let layout = layout(record.get().as_bytes());
        let is_known = match self.seen.len() {
            LAYOUTS_MAX.. => self.seen.contains(&layout),
            _ => !self.seen.insert(layout),
        };
        if !is_known {
            self.shape.add(record);
        }
        !is_known
    }

    /// What they have in common. It counts layouts, not records.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}

/// A number for the names and kinds of a JSON text, in their order, that is hardly the same for others.
fn layout(text: &[u8]) -> u64 {
    let mut sum = Sum { hash: 0, lists: 0, last: 0 };
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let from = at;
                at = end_of_string(text, at);
                if is_name(&text[at..]) { sum.name(&text[from..at]) } else { sum.scalar(b's') }
            }
            b'{' | b'[' => sum.open(*byte),
            b'}' | b']' => sum.close(*byte),
            b't' | b'f' | b'n' => {
                let kind = if *byte == b'n' { b'0' } else { b'b' };
                sum.scalar(kind);
                at += text[at..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
            }
            b'0'..=b'9' | b'-' => {
                let length = text[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                let is_whole = text[at..at + length].iter().all(u8::is_ascii_digit);
                sum.scalar(if is_whole { b'i' } else { b'n' });
                at += length;
            }
            // Blanks, commas and colons.
            _ => {}
        }
    }
    sum.hash
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')
}

/// Behind the quote at the end of a string that begins here.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// Whether what stood before this was the name of a field.
fn is_name(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

struct Sum {
    hash: u64,
    /// For each level, the innermost lowest, whether it is a list. JSON is read 128 levels deep.
    lists: u128,
    /// The kind of a scalar that came last, if nothing else came since.
    last: u8,
}

impl Sum {
    fn add(&mut self, byte: u8) {
        self.hash = (self.hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn name(&mut self, name: &[u8]) {
        name.iter().for_each(|byte| self.add(*byte));
        self.last = 0;
    }

    /// A list is the same however many of a kind follow each other in it.
    fn scalar(&mut self, kind: u8) {
        if self.lists & 1 == 1 && self.last == kind {
            return;
        }
        self.add(kind);
        self.last = kind;
    }

    fn open(&mut self, byte: u8) {
        self.add(byte);
        (self.lists, self.last) = (self.lists << 1 | u128::from(byte == b'['), 0);
    }

    fn close(&mut self, byte: u8) {
        self.add(byte);
        (self.lists, self.last) = (self.lists >> 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_apart_by_names_and_kinds_and_not_by_what_they_say() {
        for (one, other, is_same) in [
            (r#"{"a":1,"b":"x"}"#, r#"{ "a" : -20 , "b":"y\"}:" }"#, true),
            (r#"{"a":1}"#, r#"{"a":1.0}"#, false),
            (r#"{"a":1}"#, r#"{"b":1}"#, false),
            (r#"{"a":1}"#, r#"{"a":null}"#, false),
            (r#"{"a":null}"#, r#"{"a":true}"#, false),
            (r#"{"a":true}"#, r#"{"a":false}"#, true),
            (r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#, false),
            (r#"{"a":[1,2,3]}"#, r#"{"a":[4]}"#, true),
            (r#"{"a":[1,"x"]}"#, r#"{"a":[1]}"#, false),
            (r#"{"a":[]}"#, r#"{"a":[1]}"#, false),
            (r#"{"a":"a"}"#, r#"{"a":"b"}"#, true),
            (r#"{"a":{"x":1},"b":1}"#, r#"{"a":{"x":1,"b":1}}"#, false),
        ] {
            assert_eq!(layout(one.as_bytes()) == layout(other.as_bytes()), is_same, "{one} {other}");
        }
    }

    #[test]
    fn the_shape_of_layouts_says_what_that_of_all_records_says() {
        let records: Vec<_> = (0..500_u32)
            .map(|n| match n % 7 {
                0 => format!(r#"{{"id":{n},"tags":["a","b"],"at":null}}"#),
                1 => format!(r#"{{"id":{n},"tags":[],"at":"x"}}"#),
                2 => format!(r#"{{"id":{n},"tags":[{{"n":{n}}}],"at":"x"}}"#),
                3 => format!(r#"{{"id":{n}.5,"tags":["a"],"at":"x","more":{{"a":[1,[{n}]]}}}}"#),
                _ => format!(r#"{{"id":{n},"tags":["a"],"at":"x"}}"#),
            })
            .collect();
        let (mut all, mut layouts, mut unlike) = (Shape::default(), Layouts::default(), 0);
        for record in &records {
            let record = serde_json::from_str(record).unwrap();
            all.add(record);
            unlike += usize::from(layouts.add(record));
        }
        assert_eq!((layouts.shape().schema(), unlike), (all.schema(), 5));
        assert_eq!(layouts.shape().drift(&all), []);
        // Where it goes on, it says the same.
        let mut again = Layouts::new(layouts.shape().clone());
        assert!(records.iter().filter(|record| again.add(serde_json::from_str(record).unwrap())).count() == 5);
        assert_eq!(again.shape().schema(), all.schema());
    }

    #[test]
    fn what_is_cut_off_in_the_middle_is_passed_over_to_its_end() {
        for text in ["\"", "\"\\", "{\"a", "[1,", "-", "tru", "]]]", ""] {
            layout(text.as_bytes());
        }
    }
}
