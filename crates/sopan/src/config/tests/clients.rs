//! Who may ask, as a file says it.

use sopan_core::access::{Access, KeyDigest, KeyFields};

use super::super::file::File;
use super::super::problem::Source;
use super::super::serve::loaded;
use super::super::{Loaded, Typed};
use super::*;

const A: &str = "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a";
const B: &str = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";
const C: &str = "1111111111111111111111111111111111111111111111111111111111111111";

fn with(name: &str, text: &str) -> Loaded {
    let text = text.replace("DIGEST_A", A).replace("DIGEST_B", B).replace("DIGEST_C", C);
    loaded(Some(File::of(Source { path: name.to_owned(), text })), &Typed::default())
}

#[track_caller]
fn clients(name: &str, text: &str) -> Clients {
    let loaded = with(name, text);
    loaded.serve.unwrap_or_else(|| panic!("{}", loaded.wrong)).clients.unwrap()
}

const YAML: &str = "
key_fields: x-api-key
upstreams:
  shop: { url: https://shop.test, route: /shop }
  mail: { url: https://mail.test }
clients:
  etl:
    key_sha256: [DIGEST_A, DIGEST_B]
    weight: 3
    limits: [5/s burst 10, 100 per 1h]
    upstreams: [mail, shop]
    methods: [GET, HEAD]
    paths: [/shop/orders/, /v2]
    expires: 2026-12-31
  web-1: { key_sha256: DIGEST_C }
";

const TOML: &str = "
key_fields = ['x-api-key']
[upstreams.shop]
url = 'https://shop.test'
route = '/shop'
[upstreams.mail]
url = 'https://mail.test'
[clients.etl]
key_sha256 = ['DIGEST_A', 'DIGEST_B']
weight = 3
limits = ['5/s burst 10', '100 per 1h']
upstreams = ['mail', 'shop']
methods = ['GET', 'HEAD']
paths = ['/shop/orders/', '/v2']
expires = 2026-12-31
[clients.web-1]
key_sha256 = 'DIGEST_C'
";

const JSON: &str = r#"{
  "key_fields": "x-api-key",
  "upstreams": {"shop": {"url": "https://shop.test", "route": "/shop"}, "mail": {"url": "https://mail.test"}},
  "clients": {
    "etl": {
      "key_sha256": ["DIGEST_A", "DIGEST_B"], "weight": 3, "limits": ["5/s burst 10", "100 per 1h"],
      "upstreams": ["mail", "shop"], "methods": ["GET", "HEAD"], "paths": ["/shop/orders/", "/v2"],
      "expires": "2026-12-31"
    },
    "web-1": {"key_sha256": "DIGEST_C"}
  }
}"#;

#[test]
fn clients_are_the_same_in_every_form() {
    for (name, text) in [("s.yaml", YAML), ("s.toml", TOML), ("s.json", JSON)] {
        let Clients { fields, clients } = clients(name, text);
        assert_eq!(fields, KeyFields { x_api_key: true, ..KeyFields::NONE }, "{name}");
        let [etl, web] = &clients[..] else { panic!("{name}: {clients:?}") };
        let digest = |text| KeyDigest::read(text).unwrap();
        assert_eq!((&*etl.name, &etl.keys[..], etl.weight), ("etl", &[digest(A), digest(B)][..], 3), "{name}");
        assert_eq!(etl.limits, [limit("5/s burst 10"), limit("100 per 1h")]);
        let seconds = Duration::from_secs(1_798_761_600);
        let access = Access {
            upstreams: Some(vec![1, 0]),
            methods: Some(vec![http::Method::GET, http::Method::HEAD]),
            paths: Some(vec!["/shop/orders".to_owned(), "/v2".to_owned()]),
            expires: Some(std::time::SystemTime::UNIX_EPOCH + seconds),
        };
        assert_eq!(etl.access, access, "{name}");
        assert_eq!((&*web.name, &web.keys[..], web.weight, web.limits.len()), ("web-1", &[digest(C)][..], 1, 0));
        assert_eq!(web.access, Access::default());
    }
}

#[test]
fn without_clients_nobody_needs_a_key() {
    assert!(try_serve(&[]).unwrap().clients.is_none());
    let one = "upstreams: { shop: { url: https://shop.test } }\nkey_fields: [authorization]\n";
    assert!(with("s.yaml", one).serve.unwrap().clients.is_none());
}

#[test]
fn what_is_said_of_a_client_is_no_more_than_that() {
    let one = "upstreams: { shop: { url: https://shop.test } }\nclients: { etl: { key_sha256: DIGEST_A, CLIENT } }\n";
    let client = |said: &str| clients("s.yaml", &one.replace("CLIENT", said)).clients.remove(0);
    assert_eq!(client("paths: /").access.paths, Some(vec![String::new()]));
    assert_eq!(client("limits: unlimited").limits, []);
    assert_eq!(client("methods: PROPFIND").access.methods, Some(vec!["PROPFIND".parse().unwrap()]));
    // As an upstream has it, and a client of its own.
    let upstream = one.replace("shop.test", "shop.test, limits: 5/s").replace("CLIENT", "weight: 2");
    let serve = with("s.yaml", &upstream).serve.unwrap();
    assert_eq!((serve.upstreams[0].settings.lane.limits.len(), serve.clients.unwrap().clients[0].limits.len()), (1, 0));
    assert!(!format!("{:?}", client("weight: 2")).contains(&A[..6]));
}

#[test]
fn a_client_has_no_more_limits_than_an_upstream() {
    let one = |count| {
        let limits = vec!["5/s"; count].join(", ");
        let text = format!("clients: {{ etl: {{ key_sha256: {A}, limits: [{limits}] }} }}\n");
        with("s.yaml", &format!("upstreams: {{ shop: {{ url: https://shop.test }} }}\n{text}"))
    };
    assert_eq!(one(16).serve.unwrap().clients.unwrap().clients[0].limits.len(), 16);
    let said = one(17).wrong.to_string();
    assert!(said.contains("clients.etl.limits: there are 17 of them, and a client has 16 at most"), "{said}");
}

#[test]
fn there_are_no_more_clients_than_a_program_takes() {
    let many: String = (0..=1000).map(|n| format!("  c{n}: {{ key_sha256: {n:064x} }}\n")).collect();
    let loaded = with("s.yaml", &format!("upstreams: {{ shop: {{ url: https://shop.test }} }}\nclients:\n{many}"));
    let said = loaded.wrong.to_string();
    assert!(
        loaded.serve.is_none() && said.contains("there are 1001 of them, and one program takes up to 1000"),
        "{said}"
    );
}
