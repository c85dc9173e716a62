//! Lines over steps.

use super::{Anchor, COLOURS, Canvas, FAINT, GRID, INK};
use std::fmt::Write;

/// A line of a panel.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is called in the legend.
    pub name: String,
    /// Its points; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
    /// Whether it is drawn faintly with its moving average on top.
    pub noisy: bool,
}

/// One of the plots that stand side by side.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What is shown.
    pub title: String,
    /// What the horizontal axis counts.
    pub across: String,
    /// Its lines.
    pub series: Vec<Series>,
    /// Whether the vertical axis is logarithmic.
    pub logarithmic: bool,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
/// Left, top, right, bottom of the lines' area within a panel.
const AREA: [f64; 4] = [58.0, 44.0, 440.0, 270.0];

/// A page of panels, side by side.
pub fn curves(panels: &[Panel]) -> String {
    let mut canvas = Canvas::new(WIDTH * panels.len() as f64, HEIGHT);
    for (i, panel) in panels.iter().enumerate() {
        draw(&mut canvas, panel, WIDTH * i as f64);
    }
    canvas.finish()
}

struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let scaled = |v: f64| if self.logarithmic { v.max(f64::MIN_POSITIVE).ln() } else { v };
        let (low, high) = (scaled(self.low), scaled(self.high));
        self.from + (scaled(value) - low) / (high - low) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            return round_steps(self.low, self.high);
        }
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let parts: &[f64] = if decades.clone().count() > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = decades.flat_map(|d| parts.iter().map(move |p| p * 10f64.powi(d)));
        let slack = 1e-9;
        all.filter(|v| (self.low * (1.0 - slack)..=self.high * (1.0 + slack)).contains(v)).collect()
    }
}

/// About five round numbers between two.
fn round_steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * decade);
    let step = step.into_iter().find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..first + 20).map(|i| i as f64 * step).take_while(|v| *v <= high + step * 1e-9).collect()
}

fn label(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 1e6 => format!("{:.4}M", value / 1e6),
        v if v >= 1e4 => format!("{:.4}k", value / 1e3),
        v if v >= 1.0 || v == 0.0 => format!("{value:.4}"),
        _ => format!("{value:.6}"),
    };
    let (number, unit) = match text.strip_suffix(['M', 'k']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text.as_str(), ""),
    };
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

fn draw(canvas: &mut Canvas, panel: &Panel, offset: f64) {
    let [left, top, right, bottom] = AREA;
    let (left, right) = (left + offset, right + offset);
    canvas.title((left, 24.0), &panel.title);
    let shown =
        |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (!panel.logarithmic || y > 0.0);
    let points = || panel.series.iter().flat_map(|s| s.points.iter().copied()).filter(shown);
    if points().next().is_none() {
        canvas.text((left, (top + bottom) / 2.0), 12.0, FAINT, Anchor::Start, "nothing measured");
        return;
    }
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let all = values.fold((f64::INFINITY, f64::NEG_INFINITY), |r, v| (r.0.min(v), r.1.max(v)));
        if all.0 == all.1 { (all.0 - 0.5, all.1 + 0.5) } else { all }
    };
    let (first, last) = range(&mut points().map(|p| p.0));
    let (mut low, mut high) = range(&mut points().map(|p| p.1));
    if panel.logarithmic {
        (low, high) = (low.max(1e-9) / 1.15, high * 1.15);
    } else {
        let margin = (high - low) * 0.05;
        (low, high) = (low - margin, high + margin);
    }
    let across = Axis { low: first, high: last, from: left, to: right, logarithmic: false };
    let up = Axis { low, high, from: bottom, to: top, logarithmic: panel.logarithmic };
    for tick in up.ticks() {
        let y = up.at(tick);
        canvas.line((left, y), (right, y), GRID, 1.0);
        canvas.text((left - 8.0, y + 4.0), 11.0, FAINT, Anchor::End, &label(tick));
    }
    for tick in across.ticks() {
        let x = across.at(tick);
        canvas.line((x, bottom), (x, bottom + 4.0), FAINT, 1.0);
        canvas.text((x, bottom + 18.0), 11.0, FAINT, Anchor::Middle, &label(tick));
    }
    canvas.line((left, bottom), (right, bottom), FAINT, 1.0);
    let middle = ((left + right) / 2.0, bottom + 38.0);
    canvas.text(middle, 12.0, FAINT, Anchor::Middle, &panel.across);

    let mut legend = right;
    for (i, series) in panel.series.iter().enumerate().rev() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<(f64, f64)> = series.points.iter().copied().filter(shown).collect();
        let placed = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().map(|&(x, y)| (across.at(x), up.at(y))).collect()
        };
        if series.noisy && points.len() > 40 {
            path(canvas, &placed(&thinned(&points, 800)), colour, 1.0, 0.25);
            path(canvas, &placed(&thinned(&smooth(&points), 400)), colour, 2.0, 1.0);
        } else {
            path(canvas, &placed(&points), colour, 2.0, 1.0);
            if points.len() <= 40 {
                for (x, y) in placed(&points) {
                    let _ = writeln!(
                        canvas.body,
                        r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#
                    );
                }
            }
        }
        let width = 7.0 * series.name.chars().count() as f64;
        canvas.text((legend, 24.0), 12.0, INK, Anchor::End, &series.name);
        let from = legend - width - 22.0;
        canvas.line((from, 20.0), (from + 16.0, 20.0), colour, 3.0);
        legend = from - 14.0;
    }
}

fn path(canvas: &mut Canvas, points: &[(f64, f64)], colour: &str, width: f64, opacity: f64) {
    let mut d = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
    }
    let _ = writeln!(
        canvas.body,
        r#"<path d="{d}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-opacity="{opacity}" stroke-linejoin="round"/>"#
    );
}

/// The average around each point, over a fortieth of all.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let reach = points.len() / 80 + 1;
    let mut sums = vec![0.0];
    sums.extend(points.iter().scan(0.0, |sum, p| {
        *sum += p.1;
        Some(*sum)
    }));
    let average = |(i, p): (usize, &(f64, f64))| {
        let (from, to) = (i.saturating_sub(reach), (i + reach + 1).min(points.len()));
        (p.0, (sums[to] - sums[from]) / (to - from) as f64)
    };
    points.iter().enumerate().map(average).collect()
}

/// At most `count` points, evenly chosen, the last among them.
fn thinned(points: &[(f64, f64)], count: usize) -> Vec<(f64, f64)> {
    let stride = points.len().div_ceil(count).max(1);
    let mut kept: Vec<_> = points.iter().copied().step_by(stride).collect();
    if let Some(last) = points.last()
        && kept.last() != Some(last)
    {
        kept.push(*last);
    }
    kept
}
