//! Which upstream takes a request?
//!
//! A route for the host that is asked wins, then the longest that the path begins with, then the upstream without a route.
//! Bytes are compared as they are, in whole segments: whoever writes `/%73hop` does not mean `/shop`, and whatever `..` in a
//! path may mean to its upstream, it changes nothing of which upstream that is. What is taken off the path, and put into
//! links again, is the engine's business.

use std::cmp::Reverse;

use http::header::HOST;
use http::request::Parts;
use sopan_core::safety::{AskedHost, HostName};

use crate::config::Route;

/// The routes of a door. An upstream is known by its number.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    hosts: Vec<(HostName, usize)>,
    /// The longest first.
    paths: Vec<(String, usize)>,
    any: Option<usize>,
}

impl Routes {
    pub(crate) fn new<'r>(routes: impl IntoIterator<Item = &'r Route>) -> Self {
        let mut all = Self::default();
        for (number, route) in routes.into_iter().enumerate() {
            match route {
                Route::Any => all.any = Some(number),
                Route::Path(path) => all.paths.push((path.clone(), number)),
                Route::Host(host) => all.hosts.push((host.clone(), number)),
            }
        }
        all.paths.sort_by_key(|(path, _)| Reverse(path.len()));
        all
    }

    /// The hosts that are routes.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &HostName> {
        self.hosts.iter().map(|(host, _)| host)
    }

    /// The upstream that takes a request; none if none does.
    pub(crate) fn find(&self, request: &Parts) -> Option<usize> {
        self.by_host(request).or_else(|| self.by_path(request.uri.path())).or(self.any)
    }

    fn by_host(&self, request: &Parts) -> Option<usize> {
        if self.hosts.is_empty() {
            return None;
        }
        // The authority of a whole URL counts, whatever is beside it (RFC 9112 §3.2.2).
        let asked = match request.uri.authority() {
            Some(authority) => authority.as_str().as_bytes(),
            None => request.headers.get(HOST)?.as_bytes(),
        };
        let asked = AskedHost::of(asked)?;
        self.hosts.iter().find(|(host, _)| host.is(asked)).map(|(_, number)| *number)
    }

    fn by_path(&self, path: &str) -> Option<usize> {
        let begins =
            |route: &str| path.strip_prefix(route).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.paths.iter().find(|(route, _)| begins(route)).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn host(name: &str) -> Route {
        Route::Host(HostName::parse(name).unwrap())
    }

    fn path(path: &str) -> Route {
        Route::Path(path.to_owned())
    }

    #[track_caller]
    fn check(routes: &Routes, target: &str, host: Option<&str>, expected: Option<usize>) {
        let mut request = Request::builder().uri(target);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let (request, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(routes.find(&request), expected, "{target} at {host:?}");
    }

    #[test]
    fn a_host_wins_over_a_path_and_the_longest_path_over_a_shorter_one() {
        let all = [path("/shop"), Route::Any, path("/shop/eu"), host("shop.test"), host("127.0.0.2"), host("::1")];
        let routes = Routes::new(&all);
        for (target, host, expected) in [
            ("/shop", Some("localhost"), Some(0)),
            ("/shop/", None, Some(0)),
            ("/shop?x=/shop/eu", None, Some(0)),
            ("/shop/eux", None, Some(0)),
            ("/shop/eu", None, Some(2)),
            ("/shop/eu?x", None, Some(2)),
            ("/shop/eu/x", None, Some(2)),
            // Which upstream is asked does not hang on what a path may mean.
            ("/shop/../other", None, Some(0)),
            ("/shop/eu/../../shop/x", None, Some(2)),
            ("/x/../shop", None, Some(1)),
            ("/%73hop", None, Some(1)),
            ("/Shop", None, Some(1)),
            ("//shop", None, Some(1)),
            ("/shopping", None, Some(1)),
            ("/", None, Some(1)),
            ("*", None, Some(1)),
            ("*", Some("shop.test"), Some(3)),
            ("/shop", Some("Shop.Test.:8000"), Some(3)),
            ("/shop", Some("a.shop.test"), Some(0)),
            ("/x", Some("127.0.0.2:8000"), Some(4)),
            ("/x", Some("[0::1]:8000"), Some(5)),
            // The host of a whole URL counts.
            ("http://shop.test:81/shop", Some("localhost"), Some(3)),
            ("http://localhost/shop", Some("shop.test"), Some(0)),
            ("http://localhost", Some("shop.test"), Some(1)),
        ] {
            check(&routes, target, host, expected);
        }
    }

    #[test]
    fn a_longer_path_is_taken_from_a_shorter_one() {
        let all = [path("/shop"), Route::Any, path("/shop/eu"), path("/shopping"), host("shop.test")];
        for (route, expected) in [
            (&all[0], &["/shop/eu"][..]),
            (&all[1], &["/shop", "/shop/eu", "/shopping"]),
            (&all[2], &[]),
            (&all[3], &[]),
            (&all[4], &[]),
        ] {
            assert_eq!(route.taken_by(&all), expected, "{route}");
        }
    }

    #[test]
    fn what_no_route_takes_goes_nowhere() {
        let routes = Routes::new(&[path("/shop"), host("shop.test")]);
        for (target, host) in
            [("/", None), ("/shopping", Some("localhost")), ("*", Some("localhost")), ("/x", Some(""))]
        {
            check(&routes, target, host, None);
        }
        check(&Routes::new(&[Route::Any]), "/x", None, Some(0));
    }
}
