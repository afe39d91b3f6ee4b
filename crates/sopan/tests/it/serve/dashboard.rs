//! The page at `/` of the admin port, as a browser shows it, and the events that it lives on.
//!
//! `browser` drives a Chromium, `page` holds what stands there against what is told, `scene` is who is behind it, and `timed` has the
//! tests: a browser takes all that the machine has.

mod browser;
mod page;
mod scene;
mod timed;
