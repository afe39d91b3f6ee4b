//! Small numbered places that are used again, with a generation, so that a number kept too long finds nothing.

use super::TicketId;

#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    /// Where new places start counting: above every generation that was given out before.
    floor: u32,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), floor: 0 }
    }
}

const TAKEN: &str = "the index names a place in use";

impl<T> Slots<T> {
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> TicketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: self.floor, value: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        TicketId { index, generation: place.generation }
    }

    /// The value at an index that is known to be in use.
    pub(super) fn get(&self, index: u32) -> &T {
        self.places[index as usize].value.as_ref().expect(TAKEN)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut T {
        self.places[index as usize].value.as_mut().expect(TAKEN)
    }

    /// The value that was put there under this very id, if it is still there.
    pub(super) fn find(&self, id: TicketId) -> Option<&T> {
        self.places.get(id.index())?.value.as_ref().filter(|_| self.places[id.index()].generation == id.generation)
    }

    pub(super) fn find_mut(&mut self, id: TicketId) -> Option<&mut T> {
        self.places.get_mut(id.index()).filter(|p| p.generation == id.generation)?.value.as_mut()
    }

    pub(super) fn remove(&mut self, id: TicketId) -> T {
        debug_assert_eq!(self.places[id.index()].generation, id.generation);
        self.take(id.index)
    }

    pub(super) fn take(&mut self, index: u32) -> T {
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        let value = place.value.take().expect(TAKEN);
        self.free.push(index);
        if self.free.len() == self.places.len() && self.places.len() > KEPT_EMPTY {
            // Everything is free after a rush: give the memory back.
            self.floor = self.places.iter().map(|p| p.generation).max().unwrap_or(0);
            (self.places, self.free) = (Vec::new(), Vec::new());
        }
        value
    }
}

const KEPT_EMPTY: usize = 1024;
