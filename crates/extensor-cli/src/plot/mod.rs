//! Plots of a run as SVG: curves, a confusion matrix, pictures that were mistaken, attention.
//!
//! A plot is a pure function from numbers to a page; this module knows no models and no files.

mod attention;
mod confusion;
mod curves;
mod pictures;

pub use attention::attention;
pub use confusion::confusion;
pub use curves::{Panel, Series, curves};
pub use pictures::{Picture, mistakes};

use std::fmt::Write;

/// The colours of lines, told apart in grey too.
const COLOURS: [&str; 4] = ["#2563eb", "#ea580c", "#0f766e", "#9333ea"];
const INK: &str = "#1f2933";
const FAINT: &str = "#52606d";
const GRID: &str = "#e4e7eb";

/// A page that grows.
struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, body: String::new() }
    }

    fn text(&mut self, (x, y): (f64, f64), size: f64, colour: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    fn title(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" font-size="15" font-weight="600" fill="{INK}">{text}</text>"#
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#
        );
    }

    fn finish(self) -> String {
        let Canvas { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

fn escape(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => made.push_str("&amp;"),
            '<' => made.push_str("&lt;"),
            '>' => made.push_str("&gt;"),
            '"' => made.push_str("&quot;"),
            // What XML cannot hold.
            c if c < ' ' && !matches!(c, '\t' | '\n' | '\r') => made.push('\u{fffd}'),
            c => made.push(c),
        }
    }
    made
}

/// From white to deep blue as `share` goes from 0 to 1.
fn shade(share: f64) -> String {
    let t = share.clamp(0.0, 1.0);
    let between = |from: f64, to: f64| (from + (to - from) * t).round() as u8;
    let (r, g, b) = (between(247.0, 23.0), between(250.0, 62.0), between(253.0, 160.0));
    format!("#{r:02x}{g:02x}{b:02x}")
}
