//! Whose request is it, as far as fairness is concerned?

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName};
use sopan_core::queue::ClientId;

use crate::config::ClientBy;

/// Tells clients apart. What they send is kept as a hash with a key of this process, never as such.
#[derive(Debug, Default)]
pub(super) struct Clients {
    hasher: RandomState,
}

/// What a connection says of whose its requests are, made once, whichever upstreams they go to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connected {
    address: ClientId,
    number: u64,
}

/// The spaces of identities, so that no address is taken for a connection's number.
const IPV4: u128 = 1 << 64;
const IPV6: u128 = 2 << 64;
const CONNECTION: u128 = 3 << 64;
const FIELD: u128 = 4 << 64;

impl Clients {
    /// A connection, which no other has the number of.
    pub(super) fn connected(&self, peer: SocketAddr, number: u64) -> Connected {
        Connected { address: self.of_address(peer.ip()), number }
    }

    /// IPv4 and its mapping into IPv6 are the same client.
    fn of_address(&self, ip: IpAddr) -> ClientId {
        match ip.to_canonical() {
            IpAddr::V4(v4) => ClientId(IPV4 | u128::from(v4.to_bits())),
            IpAddr::V6(v6) => of_ipv6(v6),
        }
    }

    /// The client of a request. One without the field that tells clients apart is its address's.
    pub(super) fn of_request(&self, by: &ClientBy, fields: &HeaderMap, connection: Connected) -> ClientId {
        let of_field = |name: &HeaderName| {
            let value = fields.get(name)?.as_bytes();
            Some(ClientId(FIELD | self.hash((name.as_str(), value))))
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

/// What people call it. `by` says how the upstream tells clients apart.
pub(crate) fn name_of(client: ClientId, by: &ClientBy) -> String {
    let low = client.0 as u64;
    match client.0 & !u128::from(u64::MAX) {
        _ if client == ClientId::OTHER => "other".to_owned(),
        IPV4 => Ipv4Addr::from_bits(low as u32).to_string(),
        IPV6 => Ipv6Addr::from_bits(low.into()).to_string(),
        CONNECTION => format!("connection {low}"),
        FIELD => {
            let name = if let ClientBy::Header(name) = by { name.as_str() } else { "" };
            format!("header {name} #{:04x}", low >> 48)
        }
        _ => Ipv6Addr::from_bits(client.0).to_string(),
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
    fn everybody_has_a_name_and_no_secret_in_it() {
        let clients = Clients::default();
        let team = HeaderName::from_static("x-team");
        let by_field = ClientBy::Header(team.clone());
        let name = |by: &ClientBy, peer: &str, number| {
            let connected = clients.connected(peer.parse().unwrap(), number);
            name_of(clients.of_request(by, &HeaderMap::new(), connected), by)
        };
        for (by, peer, expected) in [
            (&ClientBy::Ip, "10.0.0.1:1", "10.0.0.1"),
            (&ClientBy::Ip, "255.255.255.255:1", "255.255.255.255"),
            (&ClientBy::Ip, "[::ffff:10.0.0.1]:1", "10.0.0.1"),
            (&ClientBy::Ip, "[::1]:1", "::1"),
            (&ClientBy::Ip, "[2001:db8::7]:1", "2001:db8::7"),
            (&ClientBy::Ip, "[fe80::1]:1", "fe80::1"),
            // Nobody calls from there, and nobody is taken for a connection.
            (&ClientBy::Ip, "[0:0:0:3::7]:1", "::7"),
            (&ClientBy::Connection, "10.0.0.1:1", "connection 7"),
            (&by_field, "10.0.0.1:1", "10.0.0.1"),
        ] {
            assert_eq!(name(by, peer, 7), expected, "{peer} by {by:?}");
        }
        let fields = [(team, "SECRET".parse().unwrap())].into_iter().collect();
        let connected = clients.connected("10.0.0.1:1".parse().unwrap(), 7);
        let told = name_of(clients.of_request(&by_field, &fields, connected), &by_field);
        let digits = told.strip_prefix("header x-team #").unwrap();
        assert!(digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{told}");
        assert_eq!(name_of(ClientId::OTHER, &ClientBy::Ip), "other");
    }

    #[test]
    fn a_field_tells_clients_apart_and_without_it_the_address_does() {
        let team = HeaderName::from_static("x-team");
        let (clients, by) = (Clients::default(), ClientBy::Header(team.clone()));
        let connection = clients.connected("10.0.0.1:1".parse().unwrap(), 1);
        let of = |value: Option<&str>| {
            let fields = value.map(|v| (team.clone(), v.parse().unwrap())).into_iter().collect();
            clients.of_request(&by, &fields, connection)
        };
        assert_eq!(of(None), clients.of_request(&ClientBy::Ip, &HeaderMap::new(), connection));
        assert_eq!(of(Some("a")), of(Some("a")));
        assert_ne!(of(Some("a")), of(Some("b")));
    }
}
