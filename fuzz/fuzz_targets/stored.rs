//! Any bytes as an answer in store.
#![no_main]

#[path = "../properties/answer.rs"]
mod answer;
#[path = "../properties/stored.rs"]
mod stored;

libfuzzer_sys::fuzz_target!(|input: &[u8]| stored::check(input));
