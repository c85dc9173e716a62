//! Pictures with what they are and what they were taken for.

use super::{Anchor, Canvas, FAINT, INK};
use std::fmt::Write;

/// A picture that was mistaken.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its elements from 0 to 255, channel by channel, row by row.
    pub pixels: Vec<u8>,
    /// Channels (1 or 3), rows and columns.
    pub size: [usize; 3],
    /// What it is.
    pub truth: String,
    /// What it was taken for.
    pub predicted: String,
    /// How sure the model was, from 0 to 1.
    pub probability: f64,
}

const CELL: (f64, f64) = (96.0, 116.0);
const COLUMNS: usize = 10;

/// A sheet of mistaken pictures, in the order given, of `total` mistakes.
pub fn mistakes(pictures: &[Picture], total: usize) -> String {
    let rows = pictures.len().div_ceil(COLUMNS).max(1);
    let columns = COLUMNS.min(pictures.len()).max(4);
    let (width, top) = (32.0 + CELL.0 * columns as f64, 64.0);
    let mut canvas = Canvas::new(width, top + CELL.1 * rows as f64 + 8.0);
    let shown = pictures.len();
    let title = match shown == total {
        true => format!("All {total} mistakes"),
        false => format!("The {shown} surest of {total} mistakes"),
    };
    canvas.title((20.0, 24.0), &title);
    let note = "truth → prediction, and how sure it was";
    canvas.text((20.0, 44.0), 12.0, FAINT, Anchor::Start, note);
    for (i, picture) in pictures.iter().enumerate() {
        let x = 20.0 + CELL.0 * (i % COLUMNS) as f64;
        let y = top + CELL.1 * (i / COLUMNS) as f64;
        if let Some(data) = uri(picture) {
            let _ = writeln!(
                canvas.body,
                r#"<image x="{x:.1}" y="{y:.1}" width="80" height="80" style="image-rendering:pixelated" href="{data}"/>"#
            );
        }
        let Picture { truth, predicted, probability, .. } = picture;
        let middle = x + 40.0;
        let text = format!("{truth} → {predicted}");
        canvas.text((middle, y + 94.0), 12.0, INK, Anchor::Middle, &text);
        let sure = format!("{:.0} %", probability * 100.0);
        canvas.text((middle, y + 107.0), 10.0, FAINT, Anchor::Middle, &sure);
    }
    canvas.finish()
}

/// The picture as a PNG within a page; a grey one dark on light, as ink is.
fn uri(picture: &Picture) -> Option<String> {
    let [channels, rows, columns] = picture.size;
    let plane = rows.checked_mul(columns)?;
    if picture.pixels.len() != plane.checked_mul(channels)? || plane == 0 {
        return None;
    }
    let (colour, pixels) = match channels {
        1 => (png::ColorType::Grayscale, picture.pixels.iter().map(|p| 255 - p).collect()),
        3 => {
            let at = |i: usize| (0..3).map(move |c| picture.pixels[c * plane + i]);
            (png::ColorType::Rgb, (0..plane).flat_map(at).collect::<Vec<u8>>())
        }
        _ => return None,
    };
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, columns as u32, rows as u32);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().ok()?.write_image_data(&pixels).ok()?;
    Some(format!("data:image/png;base64,{}", base64(&bytes)))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let byte = |i: usize| u32::from(part.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= part.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
