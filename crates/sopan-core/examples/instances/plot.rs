//! Lines over two axes, as SVG: as much as the pictures of one page take.
//!
//! It is written by hand so that drawing them needs no library. Colours can be told apart by those who do not see all, and each
//! line has marks of its own shape.

use std::fmt::Write;
use std::path::Path;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
const COLOURS: [&str; 4] = ["#0072b2", "#009e73", "#d55e00", "#cc79a7"];

pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: Axis<'a>,
    pub(crate) y: Axis<'a>,
    pub(crate) lines: &'a [Line],
    pub(crate) legend: &'a str,
}

pub(crate) struct Axis<'a> {
    pub(crate) title: &'a str,
    pub(crate) log: bool,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Axis<'_> {
    /// Where a value lies, from 0 to 1; what is beyond is at the edge.
    fn place(&self, value: f64) -> f64 {
        let (value, from, to) = if self.log {
            (value.max(f64::MIN_POSITIVE).ln(), self.from.ln(), self.to.ln())
        } else {
            (value, self.from, self.to)
        };
        ((value - from) / (to - from)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (from, to) = (self.from.log10().ceil() as i32, self.to.log10().floor() as i32);
            (from..=to).map(|power| 10f64.powi(power)).collect()
        } else {
            (0..=5).map(|n| self.from + (self.to - self.from) * f64::from(n) / 5.0).collect()
        }
    }
}

impl Plot<'_> {
    pub(crate) fn write(&self, path: &Path) {
        let svg = self.draw().unwrap_or_default();
        if let Err(e) = std::fs::write(path, svg) {
            println!("{} cannot be written: {e}", path.display());
        }
    }

    fn draw(&self) -> Result<String, std::fmt::Error> {
        let mut svg = String::new();
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let x = |value| LEFT + self.x.place(value) * (right - LEFT);
        let y = |value| bottom - self.y.place(value) * (bottom - TOP);
        writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<title>{}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>",
            self.title, self.title
        )?;
        for tick in self.x.ticks() {
            let at = x(tick);
            writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{tick}</text>",
                bottom + 18.0
            )?;
        }
        for tick in self.y.ticks() {
            let at = y(tick);
            writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{tick}</text>",
                LEFT - 8.0,
                at + 4.0
            )?;
        }
        let middle = (TOP + bottom) / 2.0;
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n<text transform=\"rotate(-90 18 {middle})\" x=\"18\" \
             y=\"{middle}\" text-anchor=\"middle\">{}</text>\n<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 14.0,
            self.x.title,
            self.y.title,
            right + 14.0,
            TOP + 8.0,
            self.legend
        )?;
        for (n, (line, colour)) in self.lines.iter().zip(COLOURS).enumerate() {
            let points: Vec<_> = line.points.iter().map(|(a, b)| (x(*a), y(*b))).collect();
            let path: Vec<_> = points.iter().map(|(a, b)| format!("{a:.1},{b:.1}")).collect();
            writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            )?;
            let marks: Vec<_> = points.iter().map(|(a, b)| mark(n, *a, *b)).collect();
            let at = TOP + 30.0 + 22.0 * n as f64;
            let own = mark(n, right + 20.0, at - 4.0);
            writeln!(svg, "<path d=\"{}{own}\" fill=\"{colour}\"/>", marks.concat())?;
            writeln!(svg, "<text x=\"{:.1}\" y=\"{at:.1}\">{}</text>", right + 32.0, line.name)?;
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }
}

/// A mark of the n-th shape.
fn mark(n: usize, x: f64, y: f64) -> String {
    match n {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.5 8h-9z", y - 5.0),
        _ => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0),
    }
}
