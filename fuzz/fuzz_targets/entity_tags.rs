//! Any bytes as an `ETag` and as lines of `If-None-Match`.
#![no_main]

#[path = "../properties/answer.rs"]
#[allow(dead_code, reason = "another target asks more of it")]
mod answer;
#[path = "../properties/entity_tags.rs"]
mod entity_tags;

libfuzzer_sys::fuzz_target!(|input: &[u8]| entity_tags::check(input));
