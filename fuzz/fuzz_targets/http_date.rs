//! Any bytes as an HTTP-date.
#![no_main]

#[path = "../properties/http_date.rs"]
mod http_date;
#[path = "../properties/reception.rs"]
mod reception;

libfuzzer_sys::fuzz_target!(|input: &[u8]| http_date::check(input));
