//! Any bytes as `Retry-After`, `Date` and `Age` of an answer.
#![no_main]

#[path = "../properties/reception.rs"]
mod reception;
#[path = "../properties/retry_after.rs"]
mod retry_after;

libfuzzer_sys::fuzz_target!(|input: &[u8]| retry_after::check(input));
