//! Whose request is it, as far as fairness is concerned?

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName};
use sopan_core::queue::ClientId;

use crate::config::{self, ClientBy};

/// Tells clients apart. What they send is kept as a hash with a key of this process, never as such.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    hasher: RandomState,
    /// The fields that tell clients apart, somewhere.
    fields: Vec<HeaderName>,
    /// The names of clients that have keys.
    keyed: Vec<String>,
}

/// What a connection says of whose its requests are, made once, whichever upstreams they go to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connected {
    address: ClientId,
    number: u64,
}

/// The spaces of identities, so that no address is taken for a connection's number. An address of IPv6 is itself; the others are
/// among those that begin with eight zeros, which nobody has (RFC 4291 §2.4).
const IPV4: u128 = 1 << 64;
const IPV6: u128 = 2 << 64;
const CONNECTION: u128 = 3 << 64;
const FIELD: u128 = 4 << 64;
const KEY: u128 = 5 << 64;
/// The number of a field stands here.
const FIELD_NUMBER: u32 = 72;

/// The client whose key has this number in the settings.
pub(crate) fn of_key(number: usize) -> ClientId {
    ClientId(KEY | number as u128)
}

/// The number of a client in the settings, if its key tells who it is.
pub(crate) fn number_of(client: ClientId) -> Option<usize> {
    if client.0 >> 64 == KEY >> 64 { usize::try_from(client.0 & u128::from(u64::MAX)).ok() } else { None }
}

impl Clients {
    /// Clients as the settings tell them apart.
    pub(super) fn new(settings: &config::Serve) -> Self {
        let mut fields = Vec::new();
        for served in &settings.upstreams {
            if let ClientBy::Header(name) = &served.client_by
                && !fields.contains(name)
            {
                fields.push(name.clone());
            }
        }
        let keyed = settings.clients.iter().flat_map(|clients| &clients.clients).map(|client| client.name.clone());
        Self { hasher: RandomState::new(), fields, keyed: keyed.collect() }
    }

    /// What people call a client: by the name in the settings, its address, the number of its connection, or the field that
    /// tells it apart with a little of a hash of its value.
    pub(crate) fn name(&self, client: ClientId) -> Cow<'_, str> {
        let ClientId(id) = client;
        if client == ClientId::OTHER {
            return "other".into();
        }
        if let Some(name) = number_of(client).and_then(|number| self.keyed.get(number)) {
            return name.into();
        }
        let low = id as u64;
        let field = || usize::try_from(id >> FIELD_NUMBER).ok().and_then(|number| self.fields.get(number));
        match (id >> 64) << 64 {
            IPV4 => Ipv4Addr::from_bits(low as u32).to_string().into(),
            IPV6 => Ipv6Addr::from_bits(low.into()).to_string().into(),
            CONNECTION => format!("connection {low}").into(),
            space
                if space & (0xff << 64) == FIELD
                    && let Some(field) = field() =>
            {
                format!("header {field} #{:04x}", low & 0xffff).into()
            }
            _ => Ipv6Addr::from_bits(id).to_string().into(),
        }
    }

    /// A connection, which no other has the number of.
    pub(super) fn connected(&self, peer: SocketAddr, number: u64) -> Connected {
        Connected { address: Self::of_address(peer.ip()), number }
    }

    /// IPv4 and its mapping into IPv6 are the same client.
    fn of_address(ip: IpAddr) -> ClientId {
        match ip.to_canonical() {
            IpAddr::V4(v4) => ClientId(IPV4 | u128::from(v4.to_bits())),
            IpAddr::V6(v6) => of_ipv6(v6),
        }
    }

    /// The client of a request. One without the field that tells clients apart is its address's.
    pub(super) fn of_request(&self, by: &ClientBy, fields: &HeaderMap, connection: Connected) -> ClientId {
        let of_field = |name: &HeaderName| {
            let value = fields.get(name)?.as_bytes();
            let number = self.fields.iter().position(|field| field == name).unwrap_or_default() as u128;
            Some(ClientId(FIELD | number << FIELD_NUMBER | self.hash((name.as_str(), value))))
        };
        match by {
            ClientBy::Ip => connection.address,
            ClientBy::Connection => ClientId(CONNECTION | u128::from(connection.number)),
            ClientBy::Header(name) => of_field(name).unwrap_or(connection.address),
        }
    }

    fn hash(&self, what: impl Hash) -> u128 {
        u128::from(self.hasher.hash_one(what))
    }
}

/// What is no address of the internet has its upper half in common with one of the spaces, or could have.
const NOT_ASSIGNED: u128 = 256;

/// An address is its own identity. Those that begin with 56 zeros or more, which nobody calls from, `::1` excepted, are one
/// for each lower half.
fn of_ipv6(address: Ipv6Addr) -> ClientId {
    let bits = address.to_bits();
    let is_low = bits >> 64 < NOT_ASSIGNED;
    ClientId(if is_low { IPV6 | bits & u128::from(u64::MAX) } else { bits })
}

impl Connected {
    /// The client of a request of which nothing else is known.
    pub(super) fn address(self) -> ClientId {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_client_whatever_its_ports_and_connections() {
        let clients = Clients::default();
        let (by_ip, by_connection) = (ClientBy::Ip, ClientBy::Connection);
        let id = |by: &ClientBy, peer: &str, number| {
            clients.of_request(by, &HeaderMap::new(), clients.connected(peer.parse().unwrap(), number))
        };
        assert_eq!(id(&by_ip, "10.0.0.1:1", 1), id(&by_ip, "10.0.0.1:2", 2));
        assert_eq!(id(&by_ip, "10.0.0.1:1", 1), id(&by_ip, "[::ffff:10.0.0.1]:1", 1));
        assert_ne!(id(&by_ip, "10.0.0.1:1", 1), id(&by_ip, "10.0.0.2:1", 1));
        assert_eq!(id(&by_ip, "[2001:db8::1]:1", 1), id(&by_ip, "[2001:db8::1]:2", 2));
        assert_ne!(id(&by_ip, "[2001:db8::1]:1", 1), id(&by_ip, "[2001:db8::2]:1", 1));
        assert_ne!(id(&by_connection, "10.0.0.1:1", 1), id(&by_connection, "10.0.0.1:1", 2));
    }

    #[test]
    fn a_field_tells_clients_apart_and_without_it_the_address_does() {
        let team = HeaderName::from_static("x-team");
        let clients = Clients { fields: vec![team.clone()], ..Clients::default() };
        let by = ClientBy::Header(team.clone());
        let connection = clients.connected("10.0.0.1:1".parse().unwrap(), 1);
        let of = |value: Option<&str>| {
            let fields = value.map(|v| (team.clone(), v.parse().unwrap())).into_iter().collect();
            clients.of_request(&by, &fields, connection)
        };
        assert_eq!(of(None), clients.of_request(&ClientBy::Ip, &HeaderMap::new(), connection));
        assert_eq!(of(Some("a")), of(Some("a")));
        assert_ne!(of(Some("a")), of(Some("b")));
    }

    #[test]
    fn a_client_is_called_by_what_it_is_known_by() {
        let fields = vec![HeaderName::from_static("x-team"), HeaderName::from_static("x-user")];
        let clients = Clients { fields, keyed: vec!["etl".to_owned(), "web".to_owned()], ..Clients::default() };
        let of = |by: &ClientBy, peer: &str| {
            let fields =
                [("x-team", "a"), ("x-user", "a")].map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            clients.of_request(by, &HeaderMap::from_iter(fields), clients.connected(peer.parse().unwrap(), 7))
        };
        for (client, expected) in [
            (of(&ClientBy::Ip, "10.0.0.1:1"), "10.0.0.1"),
            (of(&ClientBy::Ip, "[::ffff:10.0.0.1]:1"), "10.0.0.1"),
            (of(&ClientBy::Ip, "[::1]:1"), "::1"),
            (of(&ClientBy::Ip, "[2001:db8::4:1]:1"), "2001:db8::4:1"),
            (of(&ClientBy::Ip, "[fe80::1]:1"), "fe80::1"),
            // Nobody calls from there, and nobody is taken for a connection, or for who has a key.
            (of(&ClientBy::Ip, "[0:0:0:3::7]:1"), "::7"),
            (of(&ClientBy::Ip, "[0:0:0:5::]:1"), "::"),
            (of(&ClientBy::Connection, "10.0.0.1:1"), "connection 7"),
            (of_key(0), "etl"),
            (of_key(1), "web"),
            (ClientId::OTHER, "other"),
        ] {
            assert_eq!(clients.name(client), expected);
        }
        for field in ["x-team", "x-user"] {
            let name = clients.name(of(&ClientBy::Header(field.parse().unwrap()), "10.0.0.1:1")).into_owned();
            let hash = name.strip_prefix(&format!("header {field} #")).unwrap_or_else(|| panic!("{name}"));
            assert!(hash.len() == 4 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        }
        assert_eq!((number_of(of_key(1)), number_of(of(&ClientBy::Ip, "10.0.0.1:1"))), (Some(1), None));
    }
}
