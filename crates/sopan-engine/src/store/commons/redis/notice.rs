//! How is written what is told to all?
//!
//! As a line: `u TAG BY BEFORE NUMBER SCOPE` of what became untrue, where the scope is `t` with the name of a target, a space and
//! the target, `b` with a path, or `a`; and `l COURSE` of who leads no more.

use super::super::name::{Name, Tag};
use super::super::server::{Notice, Step, Untrue};

/// No number is larger: after one that is, none could come.
const NUMBER_MAX: u64 = 1 << 52;

/// A scope as it stands in such a line, and as scripts are told it.
pub(super) fn scope(scope: &Untrue) -> String {
    match scope {
        Untrue::Target { name, target } => format!("t{name} {target}"),
        Untrue::Below(path) => format!("b{path}"),
        Untrue::All => "a".to_owned(),
    }
}

/// What was told; none if it is nothing that an instance of this version would tell.
pub(super) fn read(line: &[u8]) -> Option<Notice> {
    let line = std::str::from_utf8(line).ok()?;
    if let Some(course) = line.strip_prefix("l ") {
        return Name::parse(course).map(Notice::LetGo);
    }
    let mut words = line.strip_prefix("u ")?.splitn(5, ' ');
    let tag = Tag::parse(words.next()?)?;
    let by = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut number = || words.next()?.parse().ok().filter(|number| *number < NUMBER_MAX);
    let step = Step { before: number()?, number: number()? };
    let scope = words.next()?;
    let scope = match scope.split_at_checked(1)? {
        ("t", rest) => {
            let (name, target) = rest.split_once(' ')?;
            Untrue::Target { name: Name::parse(name)?, target: target.to_owned() }
        }
        ("b", path) => Untrue::Below(path.to_owned()),
        ("a", "") => Untrue::All,
        _ => return None,
    };
    Some(Notice::Untrue { tag, by, step, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_and_nothing_else() {
        let tag = Tag([7; 8]);
        let name = Name([9; 16]);
        let step = Step { before: 1_792_584_000_000_000, number: 1_792_584_000_000_001 };
        for told in [
            Untrue::Target { name, target: "/a b?c=d e".to_owned() },
            Untrue::Target { name, target: String::new() },
            Untrue::Below("/v2/orders".to_owned()),
            Untrue::All,
        ] {
            let line = format!("u {tag} 00000000000000ff {} {} {}", step.before, step.number, scope(&told));
            assert_eq!(read(line.as_bytes()), Some(Notice::Untrue { tag, by: 255, step, scope: told }), "{line}");
        }
        assert_eq!(read(format!("l {name}").as_bytes()), Some(Notice::LetGo(name)));
        for line in [
            "",
            "u",
            "u x",
            "l 00",
            &format!("u {tag} ff 1 2"),
            &format!("u {tag} ff 1 2 "),
            &format!("u {tag} ff 1 2 c"),
            &format!("u {tag} ff 1 2 ax"),
            &format!("u {tag} ff 1 2 t{name}"),
            &format!("u {tag} ff -1 2 a"),
            &format!("u {tag} ff 1 18446744073709551615 a"),
        ] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }
}
