use proptest::prelude::*;

use super::*;

const AT_ROOT: Origin<'_> =
    Origin { scheme: "https", host: "api.example.com", port: 443, prefix: "", mount: "", elsewhere: None };
const V2: Origin<'_> = Origin { prefix: "/v2", ..AT_ROOT };
/// Asked at `/shop`.
const SHOP: Origin<'_> = Origin { mount: "/shop", ..AT_ROOT };
const SHOP_V2: Origin<'_> = Origin { mount: "/shop", ..V2 };
const ODD_PORT: Origin<'_> = Origin { scheme: "http", host: "127.0.0.1", port: 8765, ..AT_ROOT };
const V6: Origin<'_> = Origin { scheme: "http", host: "::1", port: 80, ..V2 };

const PROXY: &str = "127.0.0.1:8000";

fn rewritten(name: &'static str, lines: &[&[u8]], origin: &Origin<'_>) -> Vec<Vec<u8>> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_bytes(line).unwrap());
    }
    rewrite_links(&mut headers, origin, PROXY);
    headers.get_all(name).iter().map(|line| line.as_bytes().to_vec()).collect()
}

#[track_caller]
fn check(origin: &Origin<'_>, name: &'static str, line: &str, expected: &str) {
    let got = rewritten(name, &[line.as_bytes()], origin);
    assert_eq!(got.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>(), [expected], "{line}");
}

/// `=` stands for "stays as it is".
#[track_caller]
fn check_reference(origin: &Origin<'_>, reference: &str, expected: &str) {
    let expected = if expected == "=" { reference } else { expected };
    check(origin, "location", reference, expected);
    check(origin, "content-location", reference, expected);
    check(origin, "link", &format!("<{reference}>; rel=next"), &format!("<{expected}>; rel=next"));
    check(origin, "x-location", reference, reference);
}

#[test]
fn a_link_to_the_upstream_leads_to_the_proxy() {
    for (reference, expected) in [
        ("https://api.example.com/orders?page=2", "http://127.0.0.1:8000/orders?page=2"),
        ("https://api.example.com:443/orders#a?b", "http://127.0.0.1:8000/orders#a?b"),
        ("HTTPS://API.Example.COM:0443/Orders%2f", "http://127.0.0.1:8000/Orders%2f"),
        ("https://api.example.com:/x", "http://127.0.0.1:8000/x"),
        ("https://api.example.com", "http://127.0.0.1:8000/"),
        ("https://api.example.com?page=2", "http://127.0.0.1:8000/?page=2"),
        ("https://api.example.com/a/../b//c", "http://127.0.0.1:8000/a/../b//c"),
        ("//api.example.com/x", "http://127.0.0.1:8000/x"),
        // They mean the same on both sides.
        ("/orders?page=2", "="),
        ("orders/2", "="),
        ("../orders", "="),
        ("?page=2", "="),
        ("#end", "="),
        ("", "="),
        // They lead elsewhere.
        ("http://api.example.com/x", "="),
        ("https://api.example.com:8443/x", "="),
        ("https://api.example.com.evil.test/x", "="),
        ("https://api.example.com./x", "="),
        ("https://other.test/?to=https://api.example.com/x", "="),
        ("https://me:pw@api.example.com/x", "="),
        ("https://api.example.com@evil.test/x", "="),
        ("//other.test/x", "="),
        ("mailto:me@api.example.com", "="),
        // They cannot be read.
        ("https:/api.example.com/x", "="),
        ("https://api.example.com:+443/x", "="),
        ("https://api.example.com:x/x", "="),
        ("https://api.example.com\\@evil.test/x", "="),
        ("https://", "="),
        ("//", "="),
        (":", "="),
        ("x://api.example.com", "="),
    ] {
        check_reference(&AT_ROOT, reference, expected);
    }
    check_reference(&ODD_PORT, "http://127.0.0.1:8765/x", "http://127.0.0.1:8000/x");
    check_reference(&ODD_PORT, "http://127.0.0.1/x", "=");
}

#[test]
fn the_prefix_is_taken_off_and_what_is_outside_of_it_is_written_out() {
    for (reference, expected) in [
        ("https://api.example.com/v2/orders?page=2", "http://127.0.0.1:8000/orders?page=2"),
        ("https://api.example.com/v2", "http://127.0.0.1:8000/"),
        ("https://api.example.com/v2?a", "http://127.0.0.1:8000/?a"),
        ("//api.example.com/v2/x", "http://127.0.0.1:8000/x"),
        ("/v2/orders?page=2#a", "/orders?page=2#a"),
        ("/v2", "/"),
        ("/v2/", "/"),
        ("/v2?a", "/?a"),
        ("/v2#a", "/#a"),
        ("/v2/a/./b/...", "/a/./b/..."),
        // Outside.
        ("https://api.example.com/v1/x", "="),
        ("https://api.example.com/v2x", "="),
        ("https://api.example.com", "="),
        ("//api.example.com/v1/x", "https://api.example.com/v1/x"),
        ("/v1/x?y", "https://api.example.com/v1/x?y"),
        ("/v2x", "https://api.example.com/v2x"),
        ("/V2/x", "https://api.example.com/V2/x"),
        ("/", "https://api.example.com/"),
        ("/v2/../x", "https://api.example.com/v2/../x"),
        ("/v2/.\t./x", "https://api.example.com/v2/.\t./x"),
        ("/v2/a/%2E./x", "https://api.example.com/v2/a/%2E./x"),
        ("https://api.example.com/v2/..", "="),
        ("/v2/x?../y", "/x?../y"),
        // Without its prefix it would be a host.
        ("/v2//evil.test/x", "http://127.0.0.1:8000//evil.test/x"),
        ("/v2/\\evil.test/x", "http://127.0.0.1:8000/\\evil.test/x"),
        ("/v2/\t/evil.test/x", "http://127.0.0.1:8000/\t/evil.test/x"),
        ("orders/2", "="),
        ("?page=2", "="),
    ] {
        check_reference(&V2, reference, expected);
    }
    check_reference(&V6, "http://[0::1]:80/v2/x", "http://127.0.0.1:8000/x");
    check_reference(&V6, "/v1", "http://[::1]/v1");
    check_reference(&Origin { port: 8080, ..V6 }, "/v1", "http://[::1]:8080/v1");
}

#[test]
fn where_the_client_has_a_prefix_in_its_place_a_link_gets_that() {
    for (reference, at_root, at_v2) in [
        ("https://api.example.com/v2/x?y#z", "http://127.0.0.1:8000/shop/v2/x?y#z", "http://127.0.0.1:8000/shop/x?y#z"),
        ("https://api.example.com/v2", "http://127.0.0.1:8000/shop/v2", "http://127.0.0.1:8000/shop/"),
        ("https://api.example.com/v2?a", "http://127.0.0.1:8000/shop/v2?a", "http://127.0.0.1:8000/shop/?a"),
        ("https://api.example.com", "http://127.0.0.1:8000/shop/", "="),
        ("//api.example.com/v2/x", "http://127.0.0.1:8000/shop/v2/x", "http://127.0.0.1:8000/shop/x"),
        ("//api.example.com/v1/x", "http://127.0.0.1:8000/shop/v1/x", "https://api.example.com/v1/x"),
        ("/v2/orders?page=2#a", "/shop/v2/orders?page=2#a", "/shop/orders?page=2#a"),
        ("/v2", "/shop/v2", "/shop/"),
        ("/v2?a", "/shop/v2?a", "/shop/?a"),
        ("/", "/shop/", "https://api.example.com/"),
        ("/shop/x", "/shop/shop/x", "https://api.example.com/shop/x"),
        // Behind the prefix two slashes are no host's any more.
        ("/v2//evil.test/x", "/shop/v2//evil.test/x", "/shop//evil.test/x"),
        ("/v2/\\evil.test/x", "/shop/v2/\\evil.test/x", "/shop/\\evil.test/x"),
        // It may climb out, and lead to another upstream.
        ("/v2/../x", "https://api.example.com/v2/../x", "https://api.example.com/v2/../x"),
        ("/..", "https://api.example.com/..", "https://api.example.com/.."),
        ("/v2/a/%2E./x", "https://api.example.com/v2/a/%2E./x", "https://api.example.com/v2/a/%2E./x"),
        ("https://api.example.com/v2/..", "=", "="),
        ("//api.example.com/v2/..\\x", "https://api.example.com/v2/..\\x", "https://api.example.com/v2/..\\x"),
        ("/v2/x?../y", "/shop/v2/x?../y", "/shop/x?../y"),
        ("orders/2", "=", "="),
        ("../orders", "=", "="),
        ("?page=2", "=", "="),
        ("https://other.test/v2/x", "=", "="),
        ("//other.test/v2/x", "=", "="),
    ] {
        check_reference(&SHOP, reference, at_root);
        check_reference(&SHOP_V2, reference, at_v2);
    }
    // The same on both sides, but for what is outside of it.
    let same = Origin { mount: "/v2", ..V2 };
    check_reference(&same, "/v2/x", "=");
    check_reference(&same, "/v1/x", "https://api.example.com/v1/x");
}

#[test]
fn no_link_leads_to_another_upstream() {
    let elsewhere = |paths: &[&str]| Elsewhere::new(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
    let (few, many) = (elsewhere(&["/shop/eu"]), elsewhere(&["/shop/eu", "/caf%C3%A9", "/a/b/c/d"]));
    let (few, many) = (few.as_ref(), many.as_ref());
    let (shop, shop_v2) = (Origin { elsewhere: few, ..SHOP }, Origin { elsewhere: few, ..SHOP_V2 });
    let root = Origin { elsewhere: many, ..AT_ROOT };
    assert_eq!(elsewhere(&[]), None);
    for (reference, at_shop, at_shop_v2) in [
        ("/eu/x?y#z", "https://api.example.com/eu/x?y#z", "https://api.example.com/eu/x?y#z"),
        ("/v2/eu", "/shop/v2/eu", "https://api.example.com/v2/eu"),
        ("/eu?y", "https://api.example.com/eu?y", "https://api.example.com/eu?y"),
        ("//api.example.com/eu", "https://api.example.com/eu", "https://api.example.com/eu"),
        ("https://api.example.com/eu/x", "=", "="),
        ("https://api.example.com/v2/eu/x", "http://127.0.0.1:8000/shop/v2/eu/x", "="),
        ("/v2/europe", "/shop/v2/europe", "/shop/europe"),
        ("/v2/x/eu?/eu", "/shop/v2/x/eu?/eu", "/shop/x/eu?/eu"),
        // As some clients follow it.
        ("/v2/./eu/x", "/shop/v2/./eu/x", "https://api.example.com/v2/./eu/x"),
        ("/v2/%65u", "/shop/v2/%65u", "https://api.example.com/v2/%65u"),
        ("/v2/.\te\tu\\x", "/shop/v2/.\te\tu\\x", "/shop/.\te\tu\\x"),
        ("/v2\t/e\tu\\x", "/shop/v2\t/e\tu\\x", "https://api.example.com/v2\t/e\tu\\x"),
        ("/v2/%zz%2", "/shop/v2/%zz%2", "/shop/%zz%2"),
    ] {
        check_reference(&shop, reference, at_shop);
        check_reference(&shop_v2, reference, at_shop_v2);
    }
    for (reference, expected) in [
        ("/shop/eu", "https://api.example.com/shop/eu"),
        ("/a/../shop//../eu/x", "https://api.example.com/a/../shop//../eu/x"),
        ("/../shop%2Feu", "https://api.example.com/../shop%2Feu"),
        ("/caf%c3%a9/x", "https://api.example.com/caf%c3%a9/x"),
        ("https://api.example.com/shop/eu/x", "="),
        ("/shop", "="),
        ("/shop/eu/..", "="),
        ("https://api.example.com/shop/x", "http://127.0.0.1:8000/shop/x"),
    ] {
        check_reference(&root, reference, expected);
    }
}

#[test]
fn every_target_of_a_link_field_is_rewritten_and_nothing_else() {
    let ours = "https://api.example.com/x";
    let theirs = "http://127.0.0.1:8000/x";
    for (line, expected) in [
        ("<OURS>", "<THEIRS>"),
        ("<OURS>; rel=\"next\", <OURS>;rel=last", "<THEIRS>; rel=\"next\", <THEIRS>;rel=last"),
        (" , ,<OURS> ;rel=a ,\t<OURS>,", " , ,<THEIRS> ;rel=a ,\t<THEIRS>,"),
        ("<https://other.test/>, <OURS>", "<https://other.test/>, <THEIRS>"),
        ("<OURS>; title=\"a, <OURS>; \\\" <OURS>\", <OURS>", "<THEIRS>; title=\"a, <OURS>; \\\" <OURS>\", <THEIRS>"),
        ("<OURS>; anchor=\"OURS\"", "<THEIRS>; anchor=\"OURS\""),
        ("<OURS>; title*=UTF-8''%e2; x", "<THEIRS>; title*=UTF-8''%e2; x"),
        // It cannot be read, so none of it is touched.
        ("<OURS>, OURS", "<OURS>, OURS"),
        ("<OURS>, <OURS", "<OURS>, <OURS"),
        ("<OURS> rel=next", "<OURS> rel=next"),
        ("<OURS>; title=\"a", "<OURS>; title=\"a"),
        ("<OURS>; title=\"a\\", "<OURS>; title=\"a\\"),
        ("<OURS>; title=a,b", "<OURS>; title=a,b"),
        ("OURS", "OURS"),
        ("", ""),
    ] {
        let filled = |text: &str| text.replace("THEIRS", theirs).replace("OURS", ours);
        check(&AT_ROOT, "link", &filled(line), &filled(expected));
    }
}

#[test]
fn lines_keep_their_order_and_odd_bytes_stay() {
    let lines: [&[u8]; 3] = [b"<https://api.example.com/\xfc>; title=\"\xff\"", b"<b>", b"<//api.example.com/c>"];
    let expected: [&[u8]; 3] = [b"<http://127.0.0.1:8000/\xfc>; title=\"\xff\"", b"<b>", b"<http://127.0.0.1:8000/c>"];
    assert_eq!(rewritten("link", &lines, &AT_ROOT), expected);
    assert_eq!(rewritten("location", &[b"/v2/\xfc"], &V2), [b"/\xfc"]);
    assert_eq!(rewritten("location", &[b"https://api\xfc.example.com/"], &V2), [b"https://api\xfc.example.com/"]);
}

proptest! {
    #[test]
    fn a_link_that_is_rewritten_leads_to_the_proxy_or_to_the_upstream(
        reference in r"(https:)?(//)?(api\.example\.com)?(/v2)?[</.:@?#a%\\\t;,\xff]{0,12}",
    ) {
        let reference: Vec<u8> = reference.chars().map(|c| c as u8).collect();
        for origin in [&AT_ROOT, &V2, &SHOP, &SHOP_V2] {
            let got = rewritten("location", &[&reference], origin).pop().unwrap();
            if got != reference {
                let leads_to = |url: &[u8]| got.starts_with(url);
                let is_path = got[0] == b'/' && !matches!(got.get(1), Some(b'/' | b'\\' | b'\t'));
                prop_assert!(is_path || leads_to(b"http://127.0.0.1:8000/") || leads_to(b"https://api.example.com"));
            }
            // In a link it becomes the same, whatever is beside it.
            let link = |reference: &[u8]| [b", <", reference, b">; title=\"<//api.example.com/v2>\", <x>"].concat();
            prop_assert_eq!(rewritten("link", &[&link(&reference)], origin), [link(&got)]);
        }
    }
}
