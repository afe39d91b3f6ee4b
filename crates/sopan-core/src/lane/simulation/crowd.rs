//! Clients that always ask for more: who gets what of a lane.

use std::ops::Range;

use super::*;

/// What a crowd got that always asks for more: each client has one request waiting or under way all the time.
struct Crowd {
    simulation: Simulation,
    turns: BTreeMap<ClientId, u64>,
}

impl Crowd {
    const SECONDS: u64 = 20;

    fn run(clients: u128, limits: &[&str], own: &[(u128, &str)]) -> Self {
        let own: Vec<_> = own
            .iter()
            .map(|(client, limit)| ClientLimits {
                client: ClientId(*client),
                name: String::new(),
                limits: parse(&[limit]),
            })
            .collect();
        let mut simulation = Simulation::new(0);
        simulation.model = Model::with_own(&own);
        let policy = LanePolicy { limits: parse(limits), clients: own, ..Default::default() };
        simulation.lane = Lane::new(policy, Breaker::new(BreakerPolicy::default()), Budget::new(true));
        simulation.places = None;
        let mut crowd = Self { simulation, turns: BTreeMap::new() };
        (0..clients).for_each(|client| crowd.ask(client));
        crowd.serve();
        crowd.simulation.check_limits();
        crowd
    }

    fn ask(&mut self, client: u128) {
        let simulation = &mut self.simulation;
        simulation.arrivals += 1;
        let entry = Entry {
            client: ClientId(client),
            weight: 1,
            arrival: simulation.arrivals,
            cost: 1,
            bytes: 1,
            since: Instant::ORIGIN,
            deadline: None,
        };
        simulation.enter(entry, Visit::First);
    }

    fn serve(&mut self) {
        let end = Self::SECONDS * 1_000 * MS;
        while self.simulation.now < end {
            let simulation = &mut self.simulation;
            for id in std::mem::take(&mut simulation.called) {
                simulation.lane.ready(id, true);
                simulation.ready.push(id);
            }
            let next = simulation.step();
            if simulation.reserved.is_empty() && simulation.called.is_empty() {
                // Timers are a little late.
                let late = simulation.dice.roll(MS / 5);
                simulation.now = next.map_or(end, |next| next.as_nanos()) + late;
                continue;
            }
            for (turn, entry) in std::mem::take(&mut self.simulation.reserved) {
                self.simulation.write_out(turn, entry);
                let now = at(self.simulation.now);
                self.simulation.written.drain(..).for_each(|turn| self.simulation.lane.finish(turn, now));
                *self.turns.entry(entry.client).or_default() += 1;
                self.ask(entry.client.0);
            }
        }
    }

    /// Of those that these limits allow in the time.
    fn share(&self, per_second: u64) -> f64 {
        self.simulation.sent.len() as f64 / (per_second * Self::SECONDS) as f64
    }

    fn turns(&self, clients: Range<u128>) -> (u64, u64) {
        let turns = || clients.clone().map(|client| self.turns[&ClientId(client)]);
        (turns().min().unwrap(), turns().max().unwrap())
    }
}

#[test]
fn a_greedy_crowd_gets_the_whole_rate_and_fair_shares() {
    for (limits, per_second) in [(&["100/s"][..], 100), (&["1000/s burst 20"], 1000), (&["50 per 1s"], 50)] {
        let crowd = Crowd::run(20, limits, &[]);
        let share = crowd.share(per_second);
        assert!(share > 0.99, "{limits:?}: {share}");
        let (least, most) = crowd.turns(0..20);
        assert!(most - least <= 1, "{limits:?}: {:?}", crowd.turns);
    }
}

#[test]
fn what_a_client_may_not_have_by_its_own_limits_goes_to_the_others() {
    let slow = |limit| (0..3).map(|client| (client, limit)).collect::<Vec<_>>();
    // (the lane's limits, those of each of three clients, what each of these should get in all)
    for (limits, per_second, own, expected) in [
        (&["100/s"][..], 100, "2/s burst 2", 2 * Crowd::SECONDS),
        (&["200/s burst 20"], 200, "5 per 1s", 5 * Crowd::SECONDS),
        (&["50 per 1s"], 50, "1/s", Crowd::SECONDS),
        (&["100/s"], 100, "1000/s", 5 * Crowd::SECONDS),
    ] {
        let crowd = Crowd::run(20, limits, &slow(own));
        let share = crowd.share(per_second);
        assert!(share > 0.99, "{limits:?}, {own}: the whole of the lane is used: {share}");
        let (least, most) = crowd.turns(3..20);
        assert!(most - least <= 1, "{limits:?}, {own}: equal shares for the others: {:?}", crowd.turns);
        let (least, most) = crowd.turns(0..3);
        let is_fair = least * 100 >= expected * 95 && most <= expected + 2;
        assert!(is_fair, "{limits:?}, {own}: {least} to {most}, not {expected}");
    }
}
