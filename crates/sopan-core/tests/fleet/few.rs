//! Instances with few clients beside such with many, and what it costs that more is asked for than waits.

use super::world::*;

/// Runs 25 s at 200/s, 20 of which count; answers what part of an equal share each got, how many left in a second, and how many
/// times the ledger was asked for each.
fn run(loads: &[Load]) -> (Vec<f64>, f64, f64) {
    let mut world = World::new(Settings::new(&["200/s burst 20"], loads.to_vec()));
    world.run_for(5 * SECOND);
    let (asks, from, before) = (world.asks, world.now, world.sent.len());
    world.run_for(20 * SECOND);
    let sent = (world.sent.len() - before) as f64;
    let equal = sent / loads.len() as f64;
    let shares = (0..loads.len()).map(|at| world.sent_by(at, from, world.now) as f64 / equal).collect();
    (shares, sent / 20.0, (world.asks - asks) as f64 / sent)
}

#[test]
fn few_clients_that_ask_at_once_again_get_as_much_as_many() {
    for clients in [&[2, 8, 32, 128][..], &[1, 1, 100, 100], &[4, 4, 200], &[1, 500], &[2, 2, 2, 2]] {
        let loads: Vec<_> = clients.iter().map(|clients| Load::Greedy(*clients)).collect();
        let (shares, per_s, asks) = run(&loads);
        assert!(shares.iter().all(|share| (0.8..1.2).contains(share)), "{clients:?}: {shares:.2?}");
        assert!(per_s > 199.0 && asks <= 0.1, "{clients:?}: {per_s} a second, {asks:.3} asks each");
    }
}

/// Their turns come due before they ask again. What is leased to them in vain the others could have used.
#[test]
fn clients_that_take_their_time_waste_little_of_what_the_others_could_use() {
    // So many clients, and how long after an answer they ask again.
    type Clients = (u32, u64);
    const CASES: [(&[Clients], f64); 6] = [
        (&[(2, 5), (8, 5), (32, 5), (128, 0)], 199.0),
        (&[(2, 50), (8, 50), (32, 50), (128, 0)], 198.0),
        (&[(2, 200), (2, 200), (2, 200), (40, 50)], 196.0),
        (&[(15, 200), (15, 200), (15, 200), (15, 200)], 197.0),
        (&[(2, 500), (8, 500), (32, 500), (128, 0)], 188.0),
        (&[(1, 1000), (100, 0)], 199.0),
    ];
    for (clients, least) in CASES {
        let loads: Vec<_> = clients.iter().map(|(clients, pause)| Load::Slow(*clients, pause * MS)).collect();
        let (shares, per_s, _) = run(&loads);
        assert!(per_s >= least, "{clients:?}: {per_s} a second, shares {shares:.2?}");
    }
}
