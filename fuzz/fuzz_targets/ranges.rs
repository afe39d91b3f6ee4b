//! Any bytes as the length of a body, a `Range` and a `Content-Range`.
#![no_main]

#[path = "../properties/ranges.rs"]
mod ranges;

libfuzzer_sys::fuzz_target!(|input: &[u8]| ranges::check(input));
