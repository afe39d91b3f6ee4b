//! Which requests an upstream takes, as it is written: a path or a host. Who takes a request of several is asked in
//! [`crate::serve`].

use std::fmt;

use sopan_core::safety::HostName;

/// What an upstream takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    /// Everything that no other takes.
    Any,
    /// What begins with these segments: `/shop`, without a slash at its end.
    Path(String),
    /// What is for this host, on whatever port.
    Host(HostName),
}

impl Route {
    /// Reads a path or a host.
    ///
    /// # Errors
    /// Neither, or a path that no request can have.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"<>`*".contains(&byte);
            let path = text.trim_end_matches('/');
            let is_path = path.bytes().all(is_plain) && !path.contains("//");
            let climbs = path.split('/').any(|segment| matches!(segment, "." | ".."));
            return match path {
                "" => Err(format!("`{text}` is every path; leave the route away to take what no other upstream takes")),
                path if is_path && !climbs => Ok(Self::Path(path.to_owned())),
                _ => Err(format!(
                    "`{text}` is not a path that requests have; write for example /shop, which takes all below it, without a query, blanks, *, .. or //"
                )),
            };
        }
        let host = HostName::parse(text).ok_or_else(|| {
            format!(
                "`{text}` is neither a path nor a host; write for example /shop, or shop.example.com without a port"
            )
        })?;
        Ok(Self::Host(host))
    }

    /// What is in front of every path that is asked by it.
    pub(crate) fn mount(&self) -> &str {
        match self {
            Self::Path(path) => path,
            Self::Any | Self::Host(_) => "",
        }
    }

    /// What beneath the mount others take. Asked by its host, an upstream is asked by every path.
    pub(crate) fn taken_by<'r>(&self, others: impl IntoIterator<Item = &'r Self>) -> Vec<String> {
        let mount = match self {
            Self::Host(_) => return Vec::new(),
            Self::Any | Self::Path(_) => self.mount(),
        };
        let is_beneath = |path: &str| path.strip_prefix(mount).is_some_and(|rest| rest.starts_with('/'));
        others.into_iter().map(Self::mount).filter(|path| is_beneath(path)).map(str::to_owned).collect()
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Path(path) => f.write_str(path),
            Self::Host(HostName::Name(name)) => f.write_str(name),
            Self::Host(HostName::Ip(ip)) => ip.fmt(f),
        }
    }
}
