use super::*;

fn entry(client: u128, arrival: u64) -> Entry {
    Entry { client: ClientId(client), weight: 1, arrival, cost: 1, bytes: 10, since: Instant::ORIGIN, deadline: None }
}

/// Grants everything and tells the arrivals in the order they went.
fn drain(queue: &mut Queue) -> Vec<u64> {
    let expected: Vec<_> = queue.in_order().map(|id| queue.entry(id).unwrap().arrival).collect();
    let went: Vec<_> = std::iter::from_fn(|| queue.first().map(|id| queue.grant(id).unwrap().arrival)).collect();
    assert_eq!(went, expected, "in_order foretells who goes");
    went
}

#[track_caller]
fn check(entries: &[Entry], expected: &[u64]) {
    let mut queue = Queue::new();
    for entry in entries {
        queue.insert(*entry);
    }
    assert_eq!(drain(&mut queue), expected);
    assert_eq!((queue.bytes(), queue.clients(), queue.len()), (0, 0, 0), "an empty queue remembers nothing");
}

#[test]
fn one_client_goes_first_come_first_served() {
    check(&[entry(1, 1), entry(1, 2), entry(1, 3)], &[1, 2, 3]);
}

#[test]
fn a_retry_takes_its_old_place() {
    check(&[entry(1, 5), entry(1, 6), entry(1, 2)], &[2, 5, 6]);
}

#[test]
fn one_client_cannot_starve_another() {
    check(&[entry(1, 1), entry(1, 2), entry(1, 3), entry(1, 4), entry(2, 5), entry(2, 6)], &[1, 5, 2, 6, 3, 4]);
}

#[test]
fn turns_are_shared_by_weight() {
    let heavy = |arrival| Entry { weight: 2, ..entry(1, arrival) };
    let entries: Vec<_> = (1..=6).map(heavy).chain((11..=13).map(|a| entry(2, a))).collect();
    check(&entries, &[1, 11, 2, 3, 12, 4, 5, 13, 6]);
}

#[test]
fn a_dearer_turn_moves_its_client_further_back() {
    let dear = |arrival| Entry { cost: 3, ..entry(1, arrival) };
    check(&[dear(1), dear(2), entry(2, 11), entry(2, 12), entry(2, 13), entry(2, 14)], &[1, 11, 12, 13, 2, 14]);
}

#[test]
fn a_client_that_was_quiet_does_not_save_up_turns() {
    let mut queue = Queue::new();
    for arrival in 1..=100 {
        queue.insert(entry(1, arrival));
    }
    for _ in 0..50 {
        let first = queue.first().unwrap();
        queue.grant(first);
    }
    for arrival in 101..=104 {
        queue.insert(entry(2, arrival));
    }
    assert_eq!(drain(&mut queue)[..8], [101, 51, 102, 52, 103, 53, 104, 54]);
}

#[test]
fn a_client_with_one_connection_gets_its_share_against_one_with_many() {
    let mut queue = Queue::new();
    let mut arrivals = 1000;
    for arrival in 1..=100 {
        queue.insert(entry(1, arrival));
    }
    queue.insert(entry(2, 500));
    let mut turns = [0, 0];
    for _ in 0..1000 {
        let first = queue.first().unwrap();
        let gone = queue.grant(first).unwrap();
        turns[gone.client.0 as usize - 1] += 1;
        arrivals += 1;
        queue.insert(Entry { arrival: arrivals, ..gone });
    }
    assert_eq!(turns, [500, 500]);
}

#[test]
fn who_leaves_costs_nothing_and_is_not_found_again() {
    let mut queue = Queue::new();
    let a = queue.insert(entry(1, 1));
    let b = queue.insert(entry(1, 2));
    queue.insert(entry(2, 3));
    assert!(queue.remove(a).is_some());
    assert!(queue.remove(a).is_none() && queue.grant(a).is_none() && queue.entry(a).is_none());
    assert_eq!(queue.first(), Some(b));
    assert_eq!(queue.bytes(), 20);
    assert_eq!(drain(&mut queue), [2, 3]);
}

#[test]
fn an_undone_turn_gives_the_place_back() {
    let mut queue = Queue::new();
    queue.insert(entry(1, 1));
    queue.insert(entry(1, 2));
    queue.insert(entry(2, 3));
    let first = queue.first().unwrap();
    let gone = queue.grant(first).unwrap();
    queue.refund(gone.client, gone.cost);
    queue.insert(gone);
    assert_eq!(drain(&mut queue), [1, 3, 2]);
}

#[test]
fn bytes_are_counted_until_their_ticket_leaves() {
    let mut queue = Queue::new();
    let id = queue.insert(entry(1, 1));
    assert!(queue.grow(id, 0, 100) && queue.grow(id, 89, 100));
    assert!(!queue.grow(id, 1, 100), "full");
    assert_eq!(queue.bytes(), 100);
    queue.remove(id);
    queue.grow(id, 50, 100);
    assert_eq!(queue.bytes(), 0, "a ticket that left holds nothing");
}

#[test]
fn deadlines_come_in_order() {
    let mut queue = Queue::new();
    let at = |nanos| Some(Instant::from_nanos(nanos));
    let late = queue.insert(Entry { deadline: at(20), ..entry(1, 1) });
    let soon = queue.insert(Entry { deadline: at(10), ..entry(1, 2) });
    assert_eq!(queue.first_deadline(), Some((Instant::from_nanos(10), soon)));
    queue.remove(soon);
    assert_eq!(queue.first_deadline(), Some((Instant::from_nanos(20), late)));
    queue.grant(late);
    assert_eq!(queue.first_deadline(), None);
}

#[test]
fn what_goes_before_a_newcomer_is_foretold() {
    let mut queue = Queue::new();
    for arrival in 1..=10 {
        queue.insert(entry(1, arrival));
    }
    for arrival in 11..=13 {
        queue.insert(entry(2, arrival));
    }
    // (client, arrival of the newcomer, tickets that go before it)
    for (client, arrival, ahead) in [(1, 50, 13), (2, 50, 7), (3, 50, 2), (1, 0, 0)] {
        assert_eq!(queue.cost_ahead(ClientId(client), 1, arrival), ahead, "client {client}");
        let id = queue.insert(entry(client, arrival));
        let position = queue.in_order().position(|other| other == id).unwrap() as u64;
        assert!(position.abs_diff(ahead) <= 1, "client {client}: {position} instead of {ahead}");
        queue.remove(id);
    }
}

#[test]
fn of_very_many_clients_what_goes_before_is_estimated() {
    let mut queue = Queue::new();
    let clients = 3 * LOOKED_AT_MAX as u64;
    for arrival in 0..clients * 4 {
        queue.insert(entry(u128::from(arrival % clients), arrival));
    }
    for (client, arrival, exact) in [(1, u64::MAX, 4 * clients), (clients, u64::MAX, 0)] {
        let ahead = queue.cost_ahead(ClientId(client.into()), 1, arrival);
        assert!(ahead.abs_diff(exact) <= clients, "client {client}: {ahead} instead of {exact}");
    }
}

#[test]
fn clients_beyond_the_bound_share_one() {
    let mut queue = Queue::new();
    for client in 0..CLIENTS_MAX as u128 + 50 {
        queue.insert(entry(client, client as u64));
    }
    assert_eq!(queue.clients(), CLIENTS_MAX + 1);
    assert_eq!(queue.len(), CLIENTS_MAX + 50);
    assert_eq!(drain(&mut queue).len(), CLIENTS_MAX + 50);
    assert_eq!(queue.clients(), 0);
}

#[test]
fn resting_clients_are_forgotten_before_newcomers_have_to_share() {
    let mut queue = Queue::new();
    for client in 0..CLIENTS_MAX as u128 {
        queue.insert(entry(client, client as u64));
    }
    // One client has two tickets, so that the queue never empties and tags matter.
    queue.insert(entry(CLIENTS_MAX as u128 - 1, 1 << 40));
    let first = queue.first().unwrap();
    queue.grant(first);
    let id = queue.insert(entry(1 << 50, 1 << 41));
    assert_eq!(queue.entry(id).unwrap().client, ClientId(1 << 50));
    assert_eq!(queue.clients(), CLIENTS_MAX);
    assert!(!queue.by_id.contains_key(&ClientId::OTHER));
}
