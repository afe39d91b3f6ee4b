//! Any bytes as `Vary` of an answer, and as the fields of two requests.
#![no_main]

#[path = "../properties/vary.rs"]
mod vary;

libfuzzer_sys::fuzz_target!(|input: &[u8]| vary::check(input));
