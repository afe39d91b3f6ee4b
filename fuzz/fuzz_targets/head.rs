//! Any bytes as a request, as an answer, and as their bodies.
#![no_main]

#[path = "../properties/head.rs"]
mod head;
#[path = "../properties/strict.rs"]
#[allow(dead_code, reason = "other targets ask more of it")]
mod strict;

libfuzzer_sys::fuzz_target!(|input: &[u8]| head::check(input));
