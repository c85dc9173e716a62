//! What was taken for what.

use super::{Anchor, Canvas, FAINT, INK, shade};

/// A confusion matrix: `counts[truth][predicted]`, with the names of the classes.
///
/// The diagonal is shaded by its share of the row, the mistakes by their share of the most frequent
/// one: few as they are, they are what one looks for.
pub fn confusion(counts: &[Vec<u64>], names: &[String]) -> String {
    let classes = counts.len();
    let cell = (460.0 / classes.max(1) as f64).clamp(12.0, 46.0);
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(1) as f64;
    let (left, top) = (44.0 + 7.0 * longest, 78.0);
    let side = cell * classes as f64;
    let mut canvas = Canvas::new(left + side + 24.0, top + side + 30.0);
    let total: u64 = counts.iter().flatten().sum();
    let right: u64 = (0..classes).map(|i| counts[i].get(i).copied().unwrap_or(0)).sum();
    canvas.title((left, 24.0), &format!("{} mistakes in {total}", total - right));
    canvas.text((left, 46.0), 12.0, FAINT, Anchor::Start, "across: predicted; down: truth");
    let mistakes = || {
        counts.iter().enumerate().flat_map(|(i, row)| {
            row.iter().enumerate().filter(move |(j, _)| *j != i).map(|(_, n)| *n)
        })
    };
    let most = mistakes().max().unwrap_or(0).max(1) as f64;
    for (i, row) in counts.iter().enumerate() {
        let y = top + cell * i as f64;
        let sum: u64 = row.iter().sum();
        let name = names.get(i).cloned().unwrap_or_else(|| i.to_string());
        canvas.text((left - 8.0, y + cell / 2.0 + 4.0), 12.0, INK, Anchor::End, &name);
        let x = left + cell * (i as f64 + 0.5);
        canvas.text((x, top - 8.0), 12.0, INK, Anchor::Middle, &name);
        for (j, &count) in row.iter().enumerate() {
            let x = left + cell * j as f64;
            let share =
                if i == j { count as f64 / sum.max(1) as f64 } else { 0.6 * count as f64 / most };
            let fill = if i != j && count > 0 { warm(share) } else { shade(share) };
            canvas.rect((x + 0.5, y + 0.5), (cell - 1.0, cell - 1.0), &fill);
            if count > 0 && cell >= 24.0 {
                let colour = if i == j && share > 0.5 { "#ffffff" } else { INK };
                let at = (x + cell / 2.0, y + cell / 2.0 + 4.0);
                canvas.text(at, 11.0, colour, Anchor::Middle, &count.to_string());
            }
        }
    }
    canvas.finish()
}

/// From nearly white to orange.
fn warm(share: f64) -> String {
    let t = share.clamp(0.0, 1.0);
    let between = |from: f64, to: f64| (from + (to - from) * t).round() as u8;
    format!("#{:02x}{:02x}{:02x}", 255, between(243.0, 120.0), between(232.0, 40.0))
}
