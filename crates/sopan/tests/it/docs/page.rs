//! Which blocks a page in Markdown has, and what is to be done with each.
//!
//! Only fenced blocks count, and of their surroundings the heading above and the comment right before.

/// A page, and its blocks from top to bottom.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) name: String,
    pub(super) blocks: Vec<Block>,
    /// The headings of the second level.
    pub(super) sections: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Where its first line of text stands, counted from 1.
    pub(super) line: usize,
    pub(super) language: String,
    pub(super) does: Does,
    pub(super) text: String,
    /// The heading of the second level that it stands under; none before the first.
    pub(super) section: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Does {
    /// `sh`: run, and must succeed.
    Run,
    /// `console`: each line after `$ ` is run, and what follows must be what it prints.
    RunAndCompare,
    /// A language and a name: saved as this file, for the blocks after it.
    Save { name: String },
    /// No language, or `text`: for the eye.
    Look,
    /// A comment before it says why it is not run.
    Shown { why: String },
    /// A language, and nothing that says what for.
    Unclear,
}

impl Page {
    pub(super) fn read(name: &str, text: &str) -> Self {
        let mut page = Self { name: name.to_owned(), blocks: Vec::new(), sections: Vec::new() };
        let (mut before, mut open) = ("", None::<Block>);
        for (number, line) in (1..).zip(text.lines()) {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(info)) => {
                    let (language, rest) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
                    open = Some(Block {
                        line: number + 1,
                        language: language.to_owned(),
                        does: Does::of(language, rest.trim(), before),
                        text: String::new(),
                        section: page.sections.last().cloned(),
                    });
                }
                (Some(_), Some("")) => page.blocks.extend(open.take()),
                (Some(block), _) => block.text += &format!("{line}\n"),
                (None, None) => {
                    page.sections.extend(line.strip_prefix("## ").map(str::to_owned));
                    before = if line.is_empty() { before } else { line };
                }
            }
        }
        assert!(open.is_none(), "{name} ends within a block");
        page
    }

    pub(super) fn is_run(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block.does, Does::Run | Does::RunAndCompare))
    }

    /// The blocks before the first section, which prepare all of them, and those of this one.
    pub(super) fn prepared(&self, section: &str) -> (Vec<Block>, Vec<Block>) {
        let under = |section: Option<&str>| {
            self.blocks.iter().filter(|block| block.section.as_deref() == section).cloned().collect()
        };
        (under(None), under(Some(section)))
    }
}

impl Does {
    fn of(language: &str, name: &str, before: &str) -> Self {
        if let Some(why) = before.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->")) {
            return Self::Shown { why: why.to_owned() };
        }
        match language {
            "sh" => Self::Run,
            "console" => Self::RunAndCompare,
            "" | "text" => Self::Look,
            _ if !name.is_empty() => Self::Save { name: name.to_owned() },
            _ => Self::Unclear,
        }
    }
}

/// A command of a `console` block and what it is to print.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) typed: String,
    pub(super) prints: String,
}

/// The commands of a `console` block. A line that begins with `> ` goes on with the one before.
pub(super) fn commands(text: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(typed), _) => commands.push(Command { typed: typed.to_owned(), prints: String::new() }),
            (None, Some(last)) => match line.strip_prefix("> ").filter(|_| last.prints.is_empty()) {
                Some(more) => last.typed += &format!("\n{more}"),
                None => last.prints += &format!("{line}\n"),
            },
            (None, None) => panic!("a console block begins with `{line}`, not with `$ `"),
        }
    }
    commands
}

/// Whether this was printed: a line `...` stands for any lines, and what differs from run to run counts as equal.
pub(super) fn is_as_shown(printed: &str, shown: &str) -> bool {
    fn rest_is(printed: &[String], shown: &[String]) -> bool {
        match shown.split_first() {
            None => printed.is_empty(),
            Some((line, rest)) if line == "..." => (0..=printed.len()).any(|skip| rest_is(&printed[skip..], rest)),
            Some((line, rest)) => printed.first() == Some(line) && rest_is(&printed[1..], rest),
        }
    }
    let lines = |text: &str| text.lines().map(|line| evened(line.trim_end())).collect::<Vec<_>>();
    rest_is(&lines(printed), &lines(shown))
}

/// Dates, decimal fractions, and the seconds of a Retry-After, each written in one way. Whole numbers stay.
fn evened(line: &str) -> String {
    const VARIES: [(&str, &str); 4] = [
        ("dddd-dd-ddTdd:dd:dd.dddZ", "DATE"),
        ("aaa, dd aaa dddd dd:dd:dd GMT", "DATE"),
        ("retry-after: +", "retry-after: SECONDS"),
        ("+.+", "FRACTION"),
    ];
    let (mut evened, mut rest, mut last) = (String::new(), line, ' ');
    'line: while let Some(next) = rest.chars().next() {
        let in_a_number = last.is_ascii_digit() || last == '.';
        for (pattern, word) in VARIES {
            let Some(length) = matched(rest, pattern).filter(|_| !in_a_number) else { continue };
            // Three dots make an address and not a fraction.
            if word == "FRACTION" && rest[length..].starts_with('.') {
                continue;
            }
            evened += word;
            (rest, last) = (&rest[length..], ' ');
            continue 'line;
        }
        evened.push(next);
        (rest, last) = (&rest[next.len_utf8()..], next);
    }
    evened
}

/// How long the start of the text is that follows the pattern: `d` a digit, `+` digits, `a` a letter, else itself.
fn matched(text: &str, pattern: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for sign in pattern.bytes() {
        let digits = || bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        at += match (sign, bytes.get(at)?) {
            (b'+', _) => Some(digits()).filter(|digits| *digits > 0)?,
            (b'd', byte) if byte.is_ascii_digit() => 1,
            (b'a', byte) if byte.is_ascii_alphabetic() => 1,
            (_, byte) if sign == *byte && !matches!(sign, b'd' | b'a') => 1,
            _ => return None,
        };
    }
    Some(at)
}

#[test]
fn what_a_block_does_is_seen_from_its_fence_and_the_line_before() {
    let text = "# T\n```sh\na\nb\n```\n## One\n<!-- not run: no -->\n\n```sh\nc\n```\nx\n```python x.py\nd\n```\n```\n```\n```go\n```\n";
    let page = Page::read("p", text);
    let seen: Vec<_> = page.blocks.iter().map(|block| (block.line, &*block.text, block.does.clone())).collect();
    let expected = [
        (3, "a\nb\n", Does::Run),
        (10, "c\n", Does::Shown { why: "no".to_owned() }),
        (14, "d\n", Does::Save { name: "x.py".to_owned() }),
        (17, "", Does::Look),
        (19, "", Does::Unclear),
    ];
    assert_eq!(seen, expected);
    let (before, under) = page.prepared("One");
    assert_eq!((before.len(), under.len()), (1, 4));
}

#[test]
fn what_varies_is_equal_and_nothing_else_is() {
    for (printed, shown, is_equal) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\nb\n", "a\n", false),
        ("a\n", "a\nb\n", false),
        ("120 orders\n", "121 orders\n", false),
        ("took 1.25 s\n", "took 17.0 s\n", true),
        ("at 127.0.0.1:8000\n", "at 127.0.0.2:8000\n", false),
        ("2026-11-30T00:02:53.979Z WARN x", "2024-01-01T10:20:30.000Z WARN x", true),
        ("date: Wed, 21 Oct 2026 12:00:00 GMT", "date: Mon, 30 Nov 2026 01:02:03 GMT", true),
        ("retry-after: 9", "retry-after: 10", true),
        ("a\nb\nc\nd\n", "a\n...\nd\n", true),
        ("a\nb\nc\nd\n", "a\n...\nc\n", false),
        ("a\n", "...\n", true),
    ] {
        assert_eq!(is_as_shown(printed, shown), is_equal, "{printed:?} {shown:?}");
    }
}

#[test]
fn a_console_block_is_commands_and_what_they_print() {
    let typed = |typed: &str, prints: &str| Command { typed: typed.to_owned(), prints: prints.to_owned() };
    assert_eq!(commands("$ a \\\n>   b\nx\ny\n$ c\n"), [typed("a \\\n  b", "x\ny\n"), typed("c", "")]);
}
