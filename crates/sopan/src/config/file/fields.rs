//! Fields with their values, by their names: a part of the file that nothing of is ever shown.

use std::ops::Range;

use super::super::layer::{Item, Value};
use super::super::problem::Place;
use super::super::setting::Setting;
use super::super::tree::{self, Key, Node};
use super::{ITEMS_MAX, Reader, resolve};

impl Reader {
    /// The fields below a key, each as a line: `Authorization: Bearer …`.
    pub(super) fn fields(&mut self, setting: &'static Setting, name: &str, key: &Key, node: &Node) -> Option<Value> {
        hide(node, &mut self.hidden);
        let place = Place::File(key.span.clone());
        let tree::Value::Map(entries) = &node.value else {
            let why = "it takes fields by their names; write for example Authorization: Bearer ${TOKEN} below it";
            self.tell(&key.span, name, why);
            return None;
        };
        if entries.len() > ITEMS_MAX {
            self.tell(&key.span, name, format!("there are {} of them; write {ITEMS_MAX} at most", entries.len()));
            return None;
        }
        let items: Vec<_> = entries.iter().filter_map(|(field, node)| self.field(name, field, node)).collect();
        (items.len() == entries.len() || !items.is_empty()).then_some(Value { setting, items, place })
    }

    fn field(&mut self, name: &str, field: &Key, node: &Node) -> Option<Item> {
        let tree::Value::Text(text) = &node.value else {
            self.tell(&field.span, name, "a field has one value; write for example Authorization: Bearer ${TOKEN}");
            return None;
        };
        let value = match resolve(text, &self.directory) {
            Ok(resolved) => resolved.unwrap_or_else(|| text.clone()),
            // It may name what is hidden, so it is told without that.
            Err(_) => {
                let why = "what it stands for is not there; set the variable that it names, or write the file";
                self.tell(&field.span, name, why);
                return None;
            }
        };
        let place = Place::File(field.span.clone());
        Some(Item { text: format!("{}: {value}", field.text), written: Some(format!("{}: …", field.text)), place })
    }
}

/// All that stands there.
fn hide(node: &Node, hidden: &mut Vec<Range<usize>>) {
    match &node.value {
        tree::Value::Nothing => {}
        tree::Value::Text(_) => hidden.push(node.span.clone()),
        tree::Value::List(items) => items.iter().for_each(|node| hide(node, hidden)),
        tree::Value::Map(entries) => entries.iter().for_each(|(_, node)| hide(node, hidden)),
    }
}

/// A text with stars in place of what is hidden, as long as before in bytes.
pub(super) fn without(text: &str, hidden: &[Range<usize>]) -> String {
    let mut is_hidden = vec![false; text.len()];
    hidden.iter().for_each(|range| is_hidden[range.clone()].fill(true));
    let star = |(at, c): (usize, char)| {
        let (shown, count) = if c != '\n' && is_hidden[at] { ('*', c.len_utf8()) } else { (c, 1) };
        std::iter::repeat_n(shown, count)
    };
    text.char_indices().flat_map(star).collect()
}
