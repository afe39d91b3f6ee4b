//! Settings of `sopan status` and `sopan top`: which sopan, and what it must be told to answer.

use std::fmt;

use sopan_engine::Target;

use super::Wrong;
use super::read::Check;
use super::serve::ADMIN_TOKEN;
use crate::cli;

/// What `sopan status` does, and `sopan top`.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) admin: AdminPort,
    /// Whether all of it is printed, for programs.
    pub(crate) json: bool,
}

/// An admin port somewhere.
#[derive(Clone)]
pub(crate) struct AdminPort {
    /// A name or an address; that of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What it wants to be told.
    pub(crate) secret: Option<String>,
}

/// What was typed, checked.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn watch(typed: &cli::Watch, json: bool) -> Result<Watch, Wrong> {
    let mut check = Check::default();
    let admin = check.read("--admin", &typed.admin, admin_port);
    let secret = std::env::var_os(ADMIN_TOKEN).map(|secret| secret_of(secret.as_encoded_bytes()));
    let secret = check.take(ADMIN_TOKEN, secret.transpose());
    let admin = admin.zip(secret).map(|((host, port), secret)| AdminPort { host, port, secret });
    check.finish(admin.map(|admin| Watch { admin, json }))
}

fn admin_port(text: &str) -> Result<(String, u16), String> {
    let target = if text.contains("://") { Target::parse(text) } else { Target::parse(&format!("http://{text}")) };
    // `8001` alone would be the host 0.0.31.65, which is told the secret.
    let is_port = |host: &str| host.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = |target: &Target| !target.is_tls() && target.to_string().matches('/').count() == 2;
    let plain = target.ok().filter(|target| is_plain(target) && !is_port(target.host()));
    let plain = plain.ok_or_else(|| {
        format!("`{text}` is not where an admin port is; write for example http://127.0.0.1:8001 or 127.0.0.1:8001")
    })?;
    Ok((plain.host().trim_matches(['[', ']']).to_owned(), plain.port()))
}

/// As it goes into a field.
fn secret_of(bytes: &[u8]) -> Result<String, &'static str> {
    let secret =
        std::str::from_utf8(bytes.trim_ascii()).ok().filter(|secret| secret.bytes().all(|b| b.is_ascii_graphic()));
    secret.map(str::to_owned).ok_or("the secret has characters that no field can carry; it cannot be that of a sopan")
}

impl fmt::Display for AdminPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Debug for AdminPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminPort({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_port_is_named_by_its_address_or_its_url() {
        for (text, expected) in [
            ("127.0.0.1:8001", Some("127.0.0.1:8001")),
            ("http://127.0.0.1:8001", Some("127.0.0.1:8001")),
            ("http://127.0.0.1:8001/", Some("127.0.0.1:8001")),
            ("sopan.svc", Some("sopan.svc:80")),
            ("[::1]:8001", Some("[::1]:8001")),
            ("https://sopan.svc", None),
            ("http://127.0.0.1:8001/state", None),
            ("http://me@127.0.0.1:8001", None),
            ("127.0.0.1:port", None),
            ("8001", None),
            ("", None),
        ] {
            let read = watch(&cli::Watch { admin: text.to_owned() }, false);
            assert_eq!(read.ok().map(|watch| watch.admin.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_secret_is_never_shown() {
        let admin = AdminPort { host: "::1".to_owned(), port: 1, secret: Some("SECRET".to_owned()) };
        assert_eq!(format!("{admin:?} {admin}"), "AdminPort([::1]:1) [::1]:1");
        assert_eq!(secret_of(b" abc\n"), Ok("abc".to_owned()));
        assert!(secret_of(b"a\r\nX: y").is_err() && secret_of(b"\xff").is_err());
    }
}
