//! The page at `/`: what goes on, for people.
//!
//! It is a form that the state fills in: `index.html` says what stands where, `fill.js` fills it, and the rest is how to get the
//! [state](super::live), draw what was, and write numbers. All of it is in the program, and it asks for nothing from elsewhere;
//! what the browser is allowed is said with each file. It holds nothing that is not in every copy of the program, so it is given
//! to whoever may ask by this host, and asks for the secret itself where there is one.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use axum::routing::{MethodRouter, get};

use super::Scene;

/// Scripts and styles come as files from here, and nothing else comes or goes.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of it.
#[derive(Debug, Clone, Copy)]
struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const fn file(path: &'static str, kind: &'static str, text: &'static str) -> File {
    File { path, kind, text }
}

const FILES: [File; 12] = [
    file("/", HTML, include_str!("dashboard/index.html")),
    file("/dashboard/page.css", CSS, include_str!("dashboard/page.css")),
    file("/dashboard/icon.svg", SVG, include_str!("dashboard/icon.svg")),
    file("/dashboard/main.js", SCRIPT, include_str!("dashboard/main.js")),
    file("/dashboard/stream.js", SCRIPT, include_str!("dashboard/stream.js")),
    file("/dashboard/fill.js", SCRIPT, include_str!("dashboard/fill.js")),
    file("/dashboard/words.js", SCRIPT, include_str!("dashboard/words.js")),
    file("/dashboard/past.js", SCRIPT, include_str!("dashboard/past.js")),
    file("/dashboard/plot.js", SCRIPT, include_str!("dashboard/plot.js")),
    file("/dashboard/uPlot.iife.min.js", SCRIPT, include_str!("dashboard/vendor/uPlot.iife.min.js")),
    file("/dashboard/uPlot.min.css", CSS, include_str!("dashboard/vendor/uPlot.min.css")),
    // Who has the program has this too, as the licence wants it.
    file("/dashboard/uPlot.txt", TEXT, include_str!("dashboard/vendor/LICENSE")),
];

/// Whether a path is of the page, which has no secret in it.
pub(super) fn has(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

pub(super) fn routes() -> impl Iterator<Item = (&'static str, MethodRouter<Arc<Scene>>)> {
    FILES.into_iter().map(|file| (file.path, get(move || async move { show(file) })))
}

fn show(file: File) -> Response<Body> {
    let mut response = Response::new(Body::from(file.text));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
