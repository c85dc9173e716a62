//! The order in which operands are multiplied, two at a time.

use super::equation::{Set, bit};

/// Up to so many operands all orders are compared; beyond, the next pair is the one that leaves the least.
const ALL_ORDERS: usize = 8;

/// How many multiplications take the time of writing a number and reading it again.
const WRITTEN: f64 = 16.0;

/// The numbers of the two terms that are multiplied; the products are numbered on from the operands.
pub(super) type Pair = (usize, usize);

/// How many elements an array with these labels has. Sizes may be large: what no integer holds is
/// compared all the same.
pub(super) fn elements(labels: Set, sizes: &[usize]) -> f64 {
    let all = sizes.iter().enumerate();
    all.filter(|(label, _)| labels & bit(*label as u8) != 0).map(|(_, &size)| size as f64).product()
}

/// The pairs to multiply, in order. The layout of operands has no say in it: it must not show in the
/// bits of the result.
pub(super) fn pairs(terms: &[Set], output: Set, sizes: &[usize]) -> Vec<Pair> {
    match terms.len() {
        0 | 1 => Vec::new(),
        2 => vec![(0, 1)],
        n if n <= ALL_ORDERS => best(terms, output, sizes),
        _ => greedy(terms, output, sizes),
    }
}

/// What one product costs: its multiplications, and its result written and read.
fn cost(a: Set, b: Set, result: Set, sizes: &[usize]) -> f64 {
    elements(a | b, sizes) + WRITTEN * elements(result, sizes)
}

/// The cheapest order of all: the best for each subset of the operands, from the best for its parts.
fn best(terms: &[Set], output: Set, sizes: &[usize]) -> Vec<Pair> {
    let whole = (1usize << terms.len()) - 1;
    let union = |subset: usize| {
        let members = terms.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1);
        members.fold(0, |all, (_, labels)| all | labels)
    };
    // What is left of the labels of a subset: those that the others or the result have.
    let left: Vec<Set> =
        (0..=whole).map(|subset| union(subset) & (output | union(whole & !subset))).collect();
    let mut costs = vec![0.0; whole + 1];
    let mut splits = vec![0; whole + 1];
    for subset in (1..=whole).filter(|subset| !subset.is_power_of_two()) {
        let mut least = None;
        // Each way to cut it in two, with its first member in the first part.
        let first = subset & subset.wrapping_neg();
        let mut part = subset;
        while part > 0 {
            part = (part - 1) & subset;
            if part & first == 0 {
                continue;
            }
            let other = subset & !part;
            let own = cost(left[part], left[other], left[subset], sizes);
            let total = costs[part] + costs[other] + own;
            if least.is_none_or(|(least, _)| total < least) {
                least = Some((total, part));
            }
        }
        if let Some((total, part)) = least {
            (costs[subset], splits[subset]) = (total, part);
        }
    }
    let mut pairs = Vec::new();
    follow(whole, &splits, terms.len(), &mut pairs);
    pairs
}

/// Notes the pairs that a subset is made by; returns the number of its product.
fn follow(subset: usize, splits: &[usize], operands: usize, pairs: &mut Vec<Pair>) -> usize {
    if subset.is_power_of_two() {
        return subset.trailing_zeros() as usize;
    }
    let part = splits[subset];
    let a = follow(part, splits, operands, pairs);
    let b = follow(subset & !part, splits, operands, pairs);
    pairs.push((a, b));
    operands + pairs.len() - 1
}

/// Always the pair next whose product is smallest beside what goes into it.
fn greedy(terms: &[Set], output: Set, sizes: &[usize]) -> Vec<Pair> {
    let mut open: Vec<(usize, Set)> = terms.iter().copied().enumerate().collect();
    let mut pairs = Vec::new();
    while open.len() > 1 {
        // How many of those open have each label: what only a pair has, and the result not, goes.
        let mut seen = [0usize; Set::BITS as usize];
        for (_, labels) in &open {
            (0..Set::BITS as u8).filter(|l| labels & bit(*l) != 0).for_each(|l| {
                seen[usize::from(l)] += 1;
            });
        }
        let within = |count: usize| {
            let labels = (0..Set::BITS as u8).filter(|l| seen[usize::from(*l)] == count);
            labels.fold(0, |all, l| all | bit(l))
        };
        let (once, twice) = (within(1), within(2));
        let result = |a: Set, b: Set| (a | b) & (output | !(once | twice & a & b));
        let mut least = (f64::INFINITY, 0, 1);
        for j in 1..open.len() {
            for i in 0..j {
                let (a, b) = (open[i].1, open[j].1);
                let after = result(a, b);
                let grown = elements(after, sizes) - elements(a, sizes) - elements(b, sizes);
                // Of two that leave as much, the one with fewer multiplications.
                let rank = grown + 1e-3 * elements(a | b, sizes);
                if rank < least.0 {
                    least = (rank, i, j);
                }
            }
        }
        let (_, i, j) = least;
        let ((b, in_b), (a, in_a)) = (open.remove(j), open.remove(i));
        pairs.push((a, b));
        open.push((terms.len() + pairs.len() - 1, result(in_a, in_b)));
    }
    pairs
}
