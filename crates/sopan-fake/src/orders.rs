//! The shop behind the fake API: orders that are the same in every run, and those that clients create.
//!
//! Only data and its pages; status codes and fields are the API's.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::dice::Dice;
use crate::http_date::iso8601;

/// Where the collection lives; links to other pages are made from it.
pub(crate) const ORDERS_PATH: &str = "/api/v1/orders";

/// A page holds at most so many orders, as vendors bound theirs.
pub const PAGE_SIZE_MAX: u64 = 1000;

/// So many orders can be created; a client that runs wild must not eat the machine's memory.
pub(crate) const CREATED_MAX: usize = 1_000_000;

/// 2026-01-01T00:00:00Z, when the shop opened; an order came in every 17 minutes.
const OPENED: Duration = Duration::from_secs(1_767_225_600);
const ORDER_EVERY: Duration = Duration::from_secs(17 * 60);

const CUSTOMERS: [&str; 8] = ["Agus", "Budi", "Citra", "Dewi", "Eko", "Putri", "Rizky", "Siti"];
const STATUSES: [&str; 4] = ["diproses", "dikirim", "selesai", "dibatalkan"];

/// One order.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) code: String,
    pub(crate) customer: &'static str,
    pub(crate) items: u64,
    pub(crate) total_idr: u64,
    pub(crate) status: &'static str,
    pub(crate) created_at: String,
    /// The same as a time.
    #[serde(skip)]
    pub(crate) at: SystemTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
}

/// One page of the collection.
#[derive(Debug, Serialize)]
pub(crate) struct Page {
    data: Vec<Order>,
    page: u64,
    pages: u64,
    total: u64,
    /// Path and query of the next page, relative to the server, so that it is right behind any address; null on the
    /// last page.
    next: Option<String>,
}

/// One order by itself, wrapped as a page wraps many.
#[derive(Debug, Serialize)]
pub(crate) struct Single {
    data: Order,
}

impl Single {
    pub(crate) fn id(&self) -> u64 {
        self.data.id
    }
}

/// All orders: ids from 1, first those that were always there, then those created.
#[derive(Debug)]
pub(crate) struct Shop {
    opened_with: u64,
    created: Vec<Created>,
}

#[derive(Debug)]
struct Created {
    client_id: String,
    at: SystemTime,
}

impl Shop {
    pub(crate) fn new(opened_with: u64) -> Self {
        Self { opened_with, created: Vec::new() }
    }

    /// Page `number`, counted from 1, of pages of `size`. There is always a first page; one beyond the last is empty.
    /// Only what came in at `since` or later.
    pub(crate) fn page(&self, number: u64, size: u64, since: SystemTime) -> Page {
        let view = self.since(since);
        let total = view.total();
        let pages = total.div_ceil(size).max(1);
        let since = if since > UNIX_EPOCH { format!("&since={}", iso8601(since)) } else { String::new() };
        let next = (number < pages).then(|| format!("{ORDERS_PATH}?page={}&size={size}{since}", number + 1));
        Page { data: view.orders((number - 1).saturating_mul(size), size), page: number, pages, total, next }
    }

    /// The orders that came in at `since` or later, the oldest first. They come in in the order of their ids.
    pub(crate) fn since(&self, since: SystemTime) -> View<'_> {
        let (mut earlier, mut later) = (0, self.total());
        while earlier < later {
            let middle = earlier + (later - earlier) / 2;
            if self.at(middle + 1) < since { earlier = middle + 1 } else { later = middle }
        }
        View { shop: self, before: earlier, newest_first: false }
    }

    /// When the order of that id, which there is, came in.
    fn at(&self, id: u64) -> SystemTime {
        if id > self.opened_with { self.created[(id - self.opened_with - 1) as usize].at } else { seeded_at(id) }
    }

    /// The order of that id, by itself.
    pub(crate) fn single(&self, id: u64) -> Option<Single> {
        Some(Single { data: self.order(id)? })
    }

    fn order(&self, id: u64) -> Option<Order> {
        if id == 0 || id > self.total() {
            return None;
        }
        let created = (id > self.opened_with).then(|| &self.created[(id - self.opened_with - 1) as usize]);
        let at = self.at(id);
        let mut dice = Dice::new(id);
        let items = 1 + dice.below(9);
        Some(Order {
            id,
            code: format!("TK-{id:06}"),
            customer: CUSTOMERS[dice.below(CUSTOMERS.len() as u64) as usize],
            items,
            total_idr: items * 5_000 * (1 + dice.below(40)),
            status: if created.is_some() { "baru" } else { STATUSES[dice.below(STATUSES.len() as u64) as usize] },
            created_at: iso8601(at),
            at,
            client_id: created.map(|created| created.client_id.clone()),
        })
    }

    /// Creates an order; none when there is no room for more. Asking twice creates two, which is what a test of
    /// requests sent twice wants to see.
    pub(crate) fn create(&mut self, client_id: String, at: SystemTime) -> Option<Single> {
        if self.created.len() >= CREATED_MAX {
            return None;
        }
        self.created.push(Created { client_id, at });
        self.single(self.total())
    }

    /// How many orders each client id has created.
    pub(crate) fn created_by(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for created in &self.created {
            *counts.entry(created.client_id.clone()).or_default() += 1;
        }
        counts
    }

    fn total(&self) -> u64 {
        self.opened_with.saturating_add(self.created.len() as u64)
    }
}

/// A part of the collection in an order in which an API gives it.
#[derive(Debug)]
pub(crate) struct View<'a> {
    shop: &'a Shop,
    /// Ids up to this one are not in it.
    before: u64,
    newest_first: bool,
}

impl View<'_> {
    pub(crate) fn newest_first(self) -> Self {
        Self { newest_first: true, ..self }
    }

    pub(crate) fn total(&self) -> u64 {
        self.shop.total() - self.before
    }

    /// At most `size` orders after the first `skip`.
    pub(crate) fn orders(&self, skip: u64, size: u64) -> Vec<Order> {
        let end = skip.saturating_add(size).min(self.total());
        let id = |place: u64| if self.newest_first { self.shop.total() - place } else { self.before + 1 + place };
        (skip..end).filter_map(|place| self.shop.order(id(place))).collect()
    }

    /// At most `size` orders after the one of that id, or from the first, and whether there are more. New ones move nothing
    /// that comes after an id.
    pub(crate) fn after(&self, id: Option<u64>, size: u64) -> (Vec<Order>, bool) {
        let skip = id.map_or(0, |id| {
            if self.newest_first {
                self.shop.total().saturating_sub(id).saturating_add(1)
            } else {
                id.saturating_sub(self.before)
            }
        });
        (self.orders(skip, size), skip.saturating_add(size) < self.total())
    }
}

fn seeded_at(id: u64) -> SystemTime {
    let since_opening = ORDER_EVERY.saturating_mul(u32::try_from(id).unwrap_or(u32::MAX));
    UNIX_EPOCH + OPENED + since_opening
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids on the page, number of pages, next link.
    #[track_caller]
    fn check(shop: &Shop, number: u64, size: u64, expected: (&[u64], u64, Option<&str>)) {
        let page = shop.page(number, size, UNIX_EPOCH);
        let ids: Vec<_> = page.data.iter().map(|order| order.id).collect();
        assert_eq!((ids.as_slice(), page.pages, page.next.as_deref()), expected);
    }

    #[test]
    fn pages_cover_the_collection_once_and_the_last_has_no_next() {
        let shop = Shop::new(5);
        check(&shop, 1, 2, (&[1, 2], 3, Some("/api/v1/orders?page=2&size=2")));
        check(&shop, 2, 2, (&[3, 4], 3, Some("/api/v1/orders?page=3&size=2")));
        check(&shop, 3, 2, (&[5], 3, None));
        check(&shop, 1, 5, (&[1, 2, 3, 4, 5], 1, None));
    }

    #[test]
    fn a_page_beyond_the_last_is_empty() {
        check(&Shop::new(5), 4, 2, (&[], 3, None));
        check(&Shop::new(5), u64::MAX, 1000, (&[], 1, None));
        check(&Shop::new(0), 1, 10, (&[], 1, None));
    }

    #[test]
    fn created_orders_follow_those_that_were_there() {
        let mut shop = Shop::new(2);
        let order = shop.create("a".to_owned(), UNIX_EPOCH).unwrap().data;
        assert_eq!((order.id, order.client_id.as_deref(), order.status), (3, Some("a"), "baru"));
        shop.create("a".to_owned(), UNIX_EPOCH);
        shop.create("b".to_owned(), UNIX_EPOCH);
        check(&shop, 2, 2, (&[3, 4], 3, Some("/api/v1/orders?page=3&size=2")));
        assert_eq!(shop.created_by(), BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]));
    }

    #[test]
    fn a_view_begins_at_a_time_and_goes_on_after_an_id_also_backwards() {
        let mut shop = Shop::new(5);
        let third = shop.order(3).unwrap().at;
        shop.create("a".to_owned(), third + Duration::from_secs(86_400));
        let ids = |orders: Vec<Order>| orders.iter().map(|order| order.id).collect::<Vec<_>>();
        let second = Duration::from_secs(1);
        for (since, first, total) in [
            (UNIX_EPOCH, 1, 6),
            (third - second, 3, 4),
            (third, 3, 4),
            (third + second, 4, 3),
            (third + 86_400 * second, 6, 1),
        ] {
            let view = shop.since(since);
            assert_eq!((ids(view.orders(0, 1)), view.total()), (vec![first], total));
        }
        assert_eq!(shop.since(third + 86_401 * second).total(), 0);
        let after = |view: &View<'_>, id| {
            let (orders, has_more) = view.after(id, 2);
            (ids(orders), has_more)
        };
        let view = shop.since(third);
        assert_eq!((after(&view, None), after(&view, Some(4))), ((vec![3, 4], true), (vec![5, 6], false)));
        let view = view.newest_first();
        assert_eq!((after(&view, None), after(&view, Some(5))), ((vec![6, 5], true), (vec![4, 3], false)));
        assert_eq!(after(&view, Some(3)), (vec![], false));
    }

    #[test]
    fn an_order_is_the_same_whenever_it_is_asked_for() {
        assert_eq!(Shop::new(9).order(7), Shop::new(100).order(7));
        assert_eq!(Shop::new(9).order(10), None);
        assert_eq!(Shop::new(9).order(0), None);
    }
}
