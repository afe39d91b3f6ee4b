//! Any bytes as directives for caches, of a request and of an answer.
#![no_main]

#[path = "../properties/directives.rs"]
mod directives;

libfuzzer_sys::fuzz_target!(|input: &[u8]| directives::check(input));
