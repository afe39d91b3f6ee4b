//! Where does `Link` say that the next page is (RFC 8288)?

use http::HeaderMap;
use http::header::LINK;

/// A link of one field: its target as it is written, and its relations in small letters.
#[derive(Debug, PartialEq, Eq)]
struct Link<'a> {
    target: &'a str,
    relations: String,
}

/// The target of the first link whose relations hold `relation` and whose context is the page itself, as it is written.
pub fn with_relation<'a>(headers: &'a HeaderMap, relation: &str) -> Option<&'a str> {
    let fields = headers.get_all(LINK).into_iter().filter_map(|field| std::str::from_utf8(field.as_bytes()).ok());
    fields.flat_map(Links).find(|link| link.relations.split(' ').any(|other| other == relation)).map(|link| link.target)
}

/// The links of a field, as appendix B.2 reads them: what is no link ends it, since what follows cannot be told.
struct Links<'a>(&'a str);

impl<'a> Iterator for Links<'a> {
    type Item = Link<'a>;

    fn next(&mut self) -> Option<Link<'a>> {
        self.0 = self.0.trim_start_matches([' ', '\t', ',']);
        let (target, mut rest) = self.0.strip_prefix('<')?.split_once('>')?;
        let (mut relations, mut is_anchored) = (None, false);
        loop {
            rest = blank(rest);
            let Some(after) = rest.strip_prefix(';') else { break };
            rest = blank(after);
            let end = rest.find([' ', '\t', '=', ';', ',']).unwrap_or(rest.len());
            let name = &rest[..end];
            rest = blank(&rest[end..]);
            let mut value = String::new();
            if let Some(after) = rest.strip_prefix('=') {
                (value, rest) = parameter(blank(after));
            }
            match () {
                // Only the first counts.
                () if name.eq_ignore_ascii_case("rel") => _ = relations.get_or_insert(value),
                () if name.eq_ignore_ascii_case("anchor") => is_anchored = true,
                () => {}
            }
        }
        // What stands there beside it is skipped up to the next link.
        self.0 = rest.find(',').map_or("", |comma| &rest[comma..]);
        let relations = relations.filter(|_| !is_anchored).unwrap_or_default();
        let relations = relations.to_ascii_lowercase().split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        Some(Link { target: target.trim_ascii(), relations })
    }
}

/// A token or a quoted string, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, char) in quoted.char_indices() {
        match char {
            _ if is_escaped => {
                value.push(char);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(char),
        }
    }
    (value, "")
}

fn blank(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pg-2 of the cases, and what appendix B.2 says besides.
    #[test]
    fn the_next_page_is_found_in_every_form_of_link() {
        for (fields, expected) in [
            (&["<http://u.test/items?page=2&f=a,b,c>; rel=\"next\""][..], Some("http://u.test/items?page=2&f=a,b,c")),
            (
                &["<http://u.test/items?page=9>; rel=\"last\", <http://u.test/items?page=2>; rel=\"next\""],
                Some("http://u.test/items?page=2"),
            ),
            (&["<http://u.test/items?page=2>; rel=next"], Some("http://u.test/items?page=2")),
            (&["</2>;rel=\"next\";title=\"start, <http://x.test/>; rel=next\""], Some("/2")),
            (&["</x>;title=\"a\\\", <http://x.test/>; rel=next\", </2>; rel=next"], Some("/2")),
            (&["</2>; rel=\"next last\""], Some("/2")),
            (&["</2>; rel=\"last\tNEXT\""], Some("/2")),
            (
                &["<http://u.test/a>; rel=stylesheet; title, <http://u.test/items?page=2>; rel=\"next\""],
                Some("http://u.test/items?page=2"),
            ),
            (&["</items?page=2>; rel=\"next\""], Some("/items?page=2")),
            (&["<http://u.test/home>, <http://u.test/items?page=2>; rel=\"next\""], Some("http://u.test/items?page=2")),
            (&["<?page=2> ; REL = \"next\""], Some("?page=2")),
            (&["</1>; rel=prev", "</3>; rel=next"], Some("/3")),
            (&["</1>; rel=prev; rel=next, </3>; rel=next"], Some("/3")),
            (&["</o>; rel=next; anchor=\"/other\", </3>; rel=next"], Some("/3")),
            (&[",, , </3>;;rel=next,"], Some("/3")),
            (&["< /3 >; rel=next"], Some("/3")),
            (&["</3>; rel=nextpage"], None),
            (&["</3>; rel=\"next"], Some("/3")),
            (&["</3; rel=next"], None),
            (&["/3; rel=next"], None),
            (&[""], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            fields.iter().for_each(|field| _ = headers.append(LINK, field.parse().unwrap()));
            assert_eq!(with_relation(&headers, "next"), expected, "{fields:?}");
        }
    }
}
