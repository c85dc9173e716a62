//! Where a model looks.

use super::{Anchor, Canvas, FAINT, INK, shade};

/// Attention maps side by side: `maps[head][query][key]`, each row a distribution over `tokens`.
pub fn attention(title: &str, maps: &[Vec<Vec<f64>>], tokens: &[String]) -> String {
    let count = tokens.len().max(1) as f64;
    let cell = (300.0 / count).clamp(6.0, 16.0);
    let side = cell * count;
    let (gap, top, left) = (40.0, 92.0, 40.0);
    let width = left + (side + gap) * maps.len().max(1) as f64;
    let mut canvas = Canvas::new(width, top + side + 24.0);
    canvas.title((left, 24.0), title);
    let note = "row: the letter that looks; column: the letter it looks at";
    canvas.text((left, 44.0), 12.0, FAINT, Anchor::Start, note);
    for (head, map) in maps.iter().enumerate() {
        let x0 = left + (side + gap) * head as f64;
        canvas.text((x0, 64.0), 12.0, INK, Anchor::Start, &format!("head {}", head + 1));
        for (i, token) in tokens.iter().enumerate() {
            let middle = cell * (i as f64 + 0.5);
            let size = (cell * 0.8).min(11.0);
            canvas.text((x0 - 4.0, top + middle + 3.0), size, FAINT, Anchor::End, token);
            canvas.text((x0 + middle, top - 5.0), size, FAINT, Anchor::Middle, token);
        }
        for (i, row) in map.iter().enumerate() {
            for (j, &weight) in row.iter().enumerate().take(i + 1) {
                let at = (x0 + cell * j as f64, top + cell * i as f64);
                // The root, since most weights are small and all are worth seeing.
                canvas.rect(at, (cell - 0.5, cell - 0.5), &shade(weight.max(0.0).sqrt()));
            }
        }
    }
    canvas.finish()
}
