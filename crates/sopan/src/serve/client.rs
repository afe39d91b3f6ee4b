//! Whose request is it, as far as fairness is concerned?

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use sopan_core::queue::ClientId;

use crate::config::ClientBy;

/// Tells clients apart. What they send is kept as a hash with a key of this process, never as such.
#[derive(Debug)]
pub(super) struct Clients {
    by: ClientBy,
    hasher: RandomState,
}

/// The spaces of identities, so that no address is taken for a connection's number.
const IPV4: u128 = 1 << 64;
const IPV6: u128 = 2 << 64;
const CONNECTION: u128 = 3 << 64;
const FIELD: u128 = 4 << 64;

impl Clients {
    pub(super) fn new(by: ClientBy) -> Self {
        Self { by, hasher: RandomState::new() }
    }

    /// The client of every request of a connection, unless each is to be looked at.
    pub(super) fn of_connection(&self, peer: SocketAddr, number: u64) -> ClientId {
        match self.by {
            ClientBy::Connection => ClientId(CONNECTION | u128::from(number)),
            ClientBy::Ip | ClientBy::Header(_) => self.of_address(peer.ip()),
        }
    }

    /// IPv4 and its mapping into IPv6 are the same client.
    fn of_address(&self, ip: IpAddr) -> ClientId {
        match ip.to_canonical() {
            IpAddr::V4(v4) => ClientId(IPV4 | u128::from(v4.to_bits())),
            IpAddr::V6(v6) => ClientId(IPV6 | self.hash(v6)),
        }
    }

    /// The client of a request: by its field, if clients are told apart by one and it has it, else by its connection.
    pub(super) fn of_request(&self, fields: &HeaderMap, connection: ClientId) -> ClientId {
        let ClientBy::Header(name) = &self.by else { return connection };
        fields.get(name).map_or(connection, |value| ClientId(FIELD | self.hash((name.as_str(), value.as_bytes()))))
    }

    fn hash(&self, what: impl Hash) -> u128 {
        u128::from(self.hasher.hash_one(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_client_whatever_its_ports_and_connections() {
        let by_ip = Clients::new(ClientBy::Ip);
        let by_connection = Clients::new(ClientBy::Connection);
        let id = |clients: &Clients, peer: &str, number| clients.of_connection(peer.parse().unwrap(), number);
        assert_eq!(id(&by_ip, "10.0.0.1:1", 1), id(&by_ip, "10.0.0.1:2", 2));
        assert_eq!(id(&by_ip, "10.0.0.1:1", 1), id(&by_ip, "[::ffff:10.0.0.1]:1", 1));
        assert_ne!(id(&by_ip, "10.0.0.1:1", 1), id(&by_ip, "10.0.0.2:1", 1));
        assert_eq!(id(&by_ip, "[2001:db8::1]:1", 1), id(&by_ip, "[2001:db8::1]:2", 2));
        assert_ne!(id(&by_ip, "[2001:db8::1]:1", 1), id(&by_ip, "[2001:db8::2]:1", 1));
        assert_ne!(id(&by_connection, "10.0.0.1:1", 1), id(&by_connection, "10.0.0.1:1", 2));
    }

    #[test]
    fn a_field_tells_clients_apart_and_without_it_the_address_does() {
        let team = http::HeaderName::from_static("x-team");
        let clients = Clients::new(ClientBy::Header(team.clone()));
        let connection = clients.of_connection("10.0.0.1:1".parse().unwrap(), 1);
        let of = |value: Option<&str>| {
            let fields = value.map(|v| (team.clone(), v.parse().unwrap())).into_iter().collect();
            clients.of_request(&fields, connection)
        };
        assert_eq!(of(None), connection);
        assert_eq!(of(Some("a")), of(Some("a")));
        assert_ne!(of(Some("a")), of(Some("b")));
    }
}
