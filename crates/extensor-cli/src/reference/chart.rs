//! Curves on axes, and numbers in cells, as SVG that stands within a page: lines and letters take the
//! page's own colour, so that it can be read on light and on dark.

use std::fmt::Write;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 270.0;
/// Left, top, right, bottom of the lines' area.
const AREA: [f64; 4] = [52.0, 30.0, 468.0, 240.0];
/// Colours that stand out from white and from black, and differ in lightness too.
const COLOURS: [&str; 4] = ["#3b82f6", "#e8710a", "#16a34a", "#a855f7"];
/// How lines are told apart without colours.
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

/// A line.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is called in the legend.
    pub name: String,
    /// Its points; those that are not finite interrupt it.
    pub points: Vec<(f64, f64)>,
}

/// Lines on axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What is seen, for those who do not see it.
    pub label: String,
    /// What the horizontal axis shows.
    pub across_name: String,
    /// From where to where it goes.
    pub across: (f64, f64),
    /// From where to where the vertical axis goes; lines are cut off there.
    pub up: (f64, f64),
    /// The lines.
    pub curves: Vec<Curve>,
    /// Whether a tick `n` of an axis stands for 10ⁿ.
    pub powers: bool,
}

/// Round numbers between two, about so many, both ends included where they are round.
pub fn ticks((low, high): (f64, f64), about: f64) -> Vec<f64> {
    let rough = (high - low) / about;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter();
    let step = step.clone().find(|s| *s >= rough * 0.999).unwrap_or(rough);
    let first = (low / step - 1e-9).ceil() as i64;
    let all = (first..first + 30).map(|i| i as f64 * step);
    all.take_while(|v| *v <= high + step * 1e-9).collect()
}

/// A number on an axis, with the minus sign of formulas.
fn number(value: f64) -> String {
    let text = format!("{:.6}", value.abs());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if value < 0.0 && text != "0" { format!("−{text}") } else { text.to_string() }
}

fn power(value: f64) -> String {
    let digits = "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().collect::<Vec<_>>();
    let whole = format!("{:.0}", value.abs());
    let above: String = whole.bytes().map(|b| digits[usize::from(b - b'0')]).collect();
    format!("10{}{above}", if value < 0.0 { "⁻" } else { "" })
}

/// What XML would take for its own.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Chart {
    fn x(&self, value: f64) -> f64 {
        let [left, _, right, _] = AREA;
        left + (value - self.across.0) / (self.across.1 - self.across.0) * (right - left)
    }

    fn y(&self, value: f64) -> f64 {
        let [_, top, _, bottom] = AREA;
        bottom - (value - self.up.0) / (self.up.1 - self.up.0) * (bottom - top)
    }

    /// The picture, in one line. `id` must be its own on the page.
    pub fn svg(&self, id: &str) -> String {
        let [left, top, right, bottom] = AREA;
        let said = |value: f64| if self.powers { power(value) } else { number(value) };
        let mut body = String::new();
        for tick in ticks(self.across, 6.0) {
            let (x, strength) = (self.x(tick), if tick == 0.0 { 0.45 } else { 0.13 });
            let _ = write!(
                body,
                "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"currentColor\" stroke-opacity=\"{strength}\"/>\
                 <text class=\"tick-x\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                said(tick)
            );
        }
        for tick in ticks(self.up, 5.0) {
            let (y, strength) = (self.y(tick), if tick == 0.0 { 0.45 } else { 0.13 });
            let _ = write!(
                body,
                "<path d=\"M{left} {y:.1}H{right}\" stroke=\"currentColor\" stroke-opacity=\"{strength}\"/>\
                 <text class=\"tick-y\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                said(tick)
            );
        }
        let _ = write!(
            body,
            "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\" font-style=\"italic\">{}</text>",
            bottom + 30.0,
            escape(&self.across_name)
        );
        let _ = write!(
            body,
            "<clipPath id=\"{id}\"><rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/></clipPath>\
             <g clip-path=\"url(#{id})\">",
            right - left,
            bottom - top
        );
        // The function is drawn last, on top of its derivatives.
        for (i, curve) in self.curves.iter().enumerate().rev() {
            let _ = write!(
                body,
                "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-dasharray=\"{}\" stroke-linejoin=\"round\"/>",
                self.path(&curve.points),
                COLOURS[i % COLOURS.len()],
                if i == 0 { 2.4 } else { 1.8 },
                DASHES[i % DASHES.len()]
            );
        }
        body += "</g>";
        let mut at = left;
        for (i, curve) in self.curves.iter().enumerate() {
            let _ = write!(
                body,
                "<path d=\"M{at:.1} 14h22\" stroke=\"{}\" stroke-width=\"2.4\" stroke-dasharray=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"18\">{}</text>",
                COLOURS[i % COLOURS.len()],
                DASHES[i % DASHES.len()],
                at + 27.0,
                escape(&curve.name)
            );
            at += 44.0 + 7.0 * curve.name.chars().count() as f64;
        }
        framed(WIDTH, HEIGHT + 4.0, &self.label, &body)
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut commands = String::new();
        let mut drawing = false;
        // Far beyond the frame is far enough.
        let reach = 3.0 * (self.up.1 - self.up.0);
        for &(x, y) in points {
            let there = x.is_finite() && y.is_finite();
            if there {
                let y = y.clamp(self.up.0 - reach, self.up.1 + reach);
                let to = if drawing { 'L' } else { 'M' };
                let _ = write!(commands, "{to}{:.1} {:.1}", self.x(x), self.y(y));
            }
            drawing = there;
        }
        commands
    }
}

fn framed(width: f64, height: f64, label: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         style=\"max-width:100%;height:auto\" role=\"img\" aria-label=\"{}\" font-size=\"12\" \
         font-family=\"system-ui,sans-serif\" fill=\"none\"><g fill=\"currentColor\" stroke=\"none\">{body}</g></svg>",
        escape(label)
    )
}

/// A matrix of numbers, each with the number that gives it its colour.
#[derive(Clone, Debug)]
pub struct Cells {
    /// What it is called.
    pub name: String,
    /// Its rows: what is written in a cell, and its shade from 0 to 1.
    pub rows: Vec<Vec<(String, f64)>>,
}

/// Matrices side by side, with an arrow before the last.
pub fn cells(label: &str, matrices: &[Cells]) -> String {
    const SIDE: f64 = 34.0;
    const TOP: f64 = 24.0;
    let columns = |m: &Cells| m.rows.first().map_or(0, Vec::len).max(1) as f64;
    let highest = matrices.iter().map(|m| m.rows.len()).max().unwrap_or(1) as f64;
    let (mut body, mut at) = (String::new(), 4.0);
    for (i, matrix) in matrices.iter().enumerate() {
        if i > 0 {
            let y = TOP + highest * SIDE / 2.0;
            let sign = if i + 1 == matrices.len() { "→" } else { "," };
            let _ = write!(
                body,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"18\" text-anchor=\"middle\">{sign}</text>",
                at + 16.0,
                y + 6.0
            );
            at += 32.0;
        }
        let above = TOP + (highest - matrix.rows.len() as f64) * SIDE / 2.0;
        let name = escape(&matrix.name);
        let _ = write!(
            body,
            "<text x=\"{at:.1}\" y=\"{:.1}\" font-style=\"italic\">{name}</text>",
            above - 7.0
        );
        for (r, row) in matrix.rows.iter().enumerate() {
            for (c, (words, shade)) in row.iter().enumerate() {
                let (x, y) = (at + c as f64 * SIDE, above + r as f64 * SIDE);
                let _ = write!(
                    body,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#3b82f6\" fill-opacity=\"{:.2}\" \
                     stroke=\"currentColor\" stroke-opacity=\"0.35\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    0.06 + 0.5 * shade.clamp(0.0, 1.0),
                    x + SIDE / 2.0,
                    y + SIDE / 2.0 + 4.0,
                    escape(words)
                );
            }
        }
        let named = 7.0 * matrix.name.chars().count() as f64;
        at += (columns(matrix) * SIDE).max(named);
    }
    framed(at + 4.0, TOP + highest * SIDE + 6.0, label, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks((-6.0, 6.0), 6.0), [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0]);
        assert!(ticks((0.07, 4.93), 6.0).iter().all(|t| (0.07..=4.93).contains(t)));
        assert_eq!(power(-12.0), "10⁻¹²");
        assert_eq!(number(-0.5), "−0.5");
    }
}
