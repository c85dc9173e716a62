//! What kind of mistake a wrong gradient looks like, from both gradients' values alone.
//!
//! It must not know the functions, and does not say whether a gradient is wrong: [`judge`](super::judge)
//! does.

use super::report::{Comparison, Place};
use std::collections::{BTreeMap, BTreeSet};

/// An input that was differentiated by: its name and shape.
pub(super) struct Argument {
    pub name: String,
    pub shape: Vec<usize>,
}

/// The comparison of an element.
struct Row<'a> {
    argument: &'a str,
    index: &'a [usize],
    analytic: f64,
    numeric: f64,
    wrong: bool,
}

/// What there is to say of a gradient that is like nothing known.
const ANOTHER: &str = "the gradient of another function: the error does not fall with ε";

/// What a gradient of the wrong shape looks like.
pub(super) fn of_shape(expected: &[usize], got: &[usize]) -> Option<String> {
    if expected.len() > 1 && got.iter().eq(expected.iter().rev()) {
        return Some(format!(
            "transposed: the gradient has the shape of the input's transpose {got:?}"
        ));
    }
    if let Some(extra) = got.len().checked_sub(expected.len()) {
        let stretched = |k: usize| k < extra || expected[k - extra] != got[k];
        let fits = (extra..got.len()).all(|k| [1, got[k]].contains(&expected[k - extra]));
        let axes: Vec<usize> = (0..got.len()).filter(|&k| stretched(k)).collect();
        if fits && !axes.is_empty() {
            return Some(format!(
                "missing broadcast sum: the input was broadcast to the gradient's shape, so its \
                 gradient is the sum over {}",
                axes_in_words(&axes)
            ));
        }
    }
    let product = |shape: &[usize]| shape.iter().map(|&n| n as u128).product::<u128>();
    if product(expected) == product(got) {
        return Some(format!(
            "the elements are as many as they should be: reshape the gradient to {expected:?}"
        ));
    }
    let squeezed = expected.iter().filter(|&&n| n != 1);
    (got.len() < expected.len() && !squeezed.eq(got))
        .then(|| "summed too far: the gradient has fewer axes than the input".into())
}

/// What a gradient of wrong values looks like. `all` are the comparisons made; `some`: whether there
/// are elements that were not compared.
pub(super) fn of_values(all: &[Comparison], arguments: &[Argument], some: bool) -> String {
    let rows: Vec<Row> = all.iter().filter_map(row).collect();
    let wrong: Vec<&Row> = rows.iter().filter(|row| row.wrong).collect();
    if wrong.is_empty() {
        return ANOTHER.into();
    }
    let named = |name: &str| wrong.iter().any(|row| row.argument == name);
    let (names, right): (Vec<&Argument>, Vec<&Argument>) =
        arguments.iter().partition(|a| named(&a.name));
    let inside: Vec<&Row> = rows.iter().filter(|row| named(row.argument)).collect();
    // Where elements have changed places, which of them differ is of no interest.
    let mut elsewhere = false;
    let found = zero(&wrong, &inside)
        .or_else(|| factor(&wrong, &inside, names.iter().chain(&right)))
        .or_else(|| {
            let found = if some { None } else { rearranged(&inside, &names) };
            elsewhere = found.is_some();
            found
        })
        .or_else(|| offset(&wrong, &inside))
        .unwrap_or_else(|| another(&wrong, &inside));
    found + &confined(&wrong, &rows, &inside, &names, some || elsewhere)
}

fn row(comparison: &Comparison) -> Option<Row<'_>> {
    let Place::Element { input, index } = &comparison.place else {
        return None;
    };
    let &Comparison { analytic, numeric, .. } = comparison;
    // A NaN is wrong too.
    let wrong = !matches!(comparison.ratio().partial_cmp(&1.0), Some(ord) if ord.is_le());
    Some(Row { argument: input, index, analytic, numeric, wrong })
}

/// Whether the pairs are equal but for rounding, and not all 0.
fn same(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> bool {
    let size = pairs.clone().map(|(_, b)| b.abs()).fold(0.0, f64::max);
    let mut pairs = pairs;
    size > 0.0 && pairs.all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs() + 1e-7 * size)
}

fn axes_in_words(axes: &[usize]) -> String {
    match axes {
        [axis] => format!("axis {axis}"),
        _ => {
            let list: Vec<String> = axes.iter().map(usize::to_string).collect();
            format!("axes ({})", list.join(", "))
        }
    }
}

fn zero(wrong: &[&Row], inside: &[&Row]) -> Option<String> {
    if wrong.iter().any(|row| row.analytic != 0.0) {
        return None;
    }
    let everywhere = inside.iter().all(|row| row.analytic == 0.0);
    Some(match everywhere {
        true => "zero where it should not be: your gradient is 0 everywhere".into(),
        false => "zero where it should not be: a term is missing there".into(),
    })
}

fn factor<'a>(
    wrong: &[&Row],
    inside: &[&Row],
    arguments: impl Iterator<Item = &'a &'a Argument>,
) -> Option<String> {
    let first = wrong.iter().max_by(|a, b| a.numeric.abs().total_cmp(&b.numeric.abs()))?;
    if first.numeric == 0.0 || wrong.len() < inside.len().min(2) {
        return None;
    }
    let factor = first.analytic / first.numeric;
    if (factor - 1.0).abs() < 1e-3 {
        return None;
    }
    let by_factor = |row: &&Row| (row.analytic, factor * row.numeric);
    if !same(wrong.iter().map(by_factor)) {
        return None;
    }
    let everywhere = same(inside.iter().map(by_factor));
    let where_ = if everywhere { "everywhere" } else { "wherever it is wrong" };
    if (factor + 1.0).abs() < 1e-4 {
        return Some(format!(
            "the sign is swapped: your gradient is −1 times the right one {where_}"
        ));
    }
    let reason = reason(factor.abs(), arguments).unwrap_or_default();
    Some(format!("off by a constant factor {} {where_}{reason}", digits(factor)))
}

/// Four digits, as `%.4g` prints them.
fn digits(value: f64) -> String {
    let power = value.abs().log10().floor();
    if !(-4.0..4.0).contains(&power) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.*}", (3.0 - power) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

/// What a factor of this size might come from.
fn reason<'a>(size: f64, arguments: impl Iterator<Item = &'a &'a Argument>) -> Option<String> {
    // Two is more often a power's or a square's than a size.
    if (size - 2.0).abs() < 1e-4 || (size - 0.5).abs() < 1e-4 {
        return None;
    }
    for Argument { name, shape } in arguments {
        let axes = shape.iter().enumerate();
        let mut sizes: Vec<(usize, String)> =
            axes.map(|(k, &n)| (n, format!("the size of axis {k} of {name}"))).collect();
        if shape.len() > 1 {
            sizes.push((shape.iter().product(), format!("the number of elements of {name}")));
        }
        for (n, text) in sizes.into_iter().filter(|(n, _)| *n > 1) {
            let n = n as f64;
            if (size - n).abs() < 1e-4 * n {
                return Some(format!(" ({text}: a mean's division is missing?)"));
            }
            if (size * n - 1.0).abs() < 1e-4 {
                return Some(format!(" (1 over {text}: divided as for a mean?)"));
            }
        }
    }
    None
}

fn rearranged(inside: &[&Row], names: &[&Argument]) -> Option<String> {
    let [Argument { shape, .. }] = names else {
        return None;
    };
    if shape.is_empty() || inside.len() != shape.iter().product() {
        return None;
    }
    let numeric: BTreeMap<&[usize], f64> =
        inside.iter().map(|row| (row.index, row.numeric)).collect();
    // Whether each element is the right one of another index.
    let moved = |to: &dyn Fn(&mut Vec<usize>)| {
        same(inside.iter().map(|row| {
            let mut index = row.index.to_vec();
            to(&mut index);
            (row.analytic, numeric.get(&index[..]).copied().unwrap_or(f64::NAN))
        }))
    };
    if let [.., rows, columns] = shape[..]
        && rows == columns
        && moved(&|index| {
            let last = index.len() - 1;
            index.swap(last, last - 1);
        })
    {
        return Some(
            "transposed: your gradient is the right one with its last two axes swapped".into(),
        );
    }
    let axes: Vec<usize> = (0..shape.len()).filter(|&k| shape[k] > 1).collect();
    let mut choices: Vec<Vec<usize>> = (1u32..1 << axes.len().min(16))
        .map(|bits| {
            (0..axes.len().min(16)).filter(|k| bits >> k & 1 == 1).map(|k| axes[k]).collect()
        })
        .collect();
    choices.sort_by_key(|chosen: &Vec<usize>| (chosen.len(), chosen.clone()));
    for chosen in &choices {
        if moved(&|index| chosen.iter().for_each(|&k| index[k] = shape[k] - 1 - index[k])) {
            return Some(format!(
                "flipped: your gradient is the right one backwards along {}",
                axes_in_words(chosen)
            ));
        }
    }
    for &k in &axes {
        for by in [1, shape[k] - 1] {
            if moved(&|index| index[k] = (index[k] + by) % shape[k]) {
                return Some(format!(
                    "shifted: your gradient is the right one moved by one along axis {k}"
                ));
            }
        }
    }
    None
}

fn offset(wrong: &[&Row], inside: &[&Row]) -> Option<String> {
    if wrong.len() < 2 || wrong.len() < inside.len() {
        return None;
    }
    let offset = wrong[0].analytic - wrong[0].numeric;
    same(inside.iter().map(|row| (row.analytic - row.numeric, offset))).then(|| {
        let sign = if offset > 0.0 { "+" } else { "" };
        let amount = digits(offset);
        format!(
            "off by the same amount everywhere ({sign}{amount}): a constant term too many or too few"
        )
    })
}

fn another(wrong: &[&Row], inside: &[&Row]) -> String {
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let size = largest(&mut inside.iter().map(|row| row.numeric.abs()));
    let error = largest(&mut wrong.iter().map(|row| (row.analytic - row.numeric).abs()));
    let mut text = ANOTHER.to_string();
    if 0.0 < error && error < 0.01 * size {
        let share = 100.0 * error / size;
        let decimals = (1.0 - share.log10().floor()).clamp(0.0, 12.0) as usize;
        let share = format!("{share:.decimals$}");
        text += &format!(
            ", and is small ({share} % of the largest gradient): an approximation of the function, \
             or a constant with too few digits?"
        );
    }
    text
}

/// Which part of the inputs the mistake is confined to.
fn confined(
    wrong: &[&Row],
    rows: &[Row],
    inside: &[&Row],
    names: &[&Argument],
    some: bool,
) -> String {
    let list = |names: &[&str]| names.join(", ");
    let wrong_names: Vec<&str> = names.iter().map(|a| a.name.as_str()).collect();
    let mut right: Vec<&str> = Vec::new();
    for row in rows {
        if !wrong_names.contains(&row.argument) && !right.contains(&row.argument) {
            right.push(row.argument);
        }
    }
    let mut text = String::new();
    if !right.is_empty() {
        let (s, are) = if right.len() == 1 { ("", "is") } else { ("s", "are") };
        text = format!(
            "; only in {}: the gradient{s} for {} {are} right",
            list(&wrong_names),
            list(&right)
        );
    }
    let [argument] = names else {
        return text;
    };
    if some || wrong.len() == inside.len() || inside.len() <= 2 {
        return text;
    }
    for axis in 0..argument.shape.len() {
        let values: BTreeSet<usize> = wrong.iter().map(|row| row.index[axis]).collect();
        let held = inside.iter().filter(|row| values.contains(&row.index[axis])).count();
        if let (Some(value), 1) = (values.first(), values.len())
            && held == wrong.len()
        {
            return format!(
                "{text}; wrong where the index along axis {axis} of {} is {value}",
                argument.name
            );
        }
    }
    let (count, of) = (wrong.len(), inside.len());
    format!("{text}; wrong at {count} of {of} elements of {}", argument.name)
}
