//! Mutants put into a source file, each behind its switch: one build serves all.

use std::ops::Range;

/// A change to a file.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The number of the mutant.
    pub id: u32,
    /// The bytes of what is changed.
    pub range: Range<usize>,
    /// What stands there if the mutant is on.
    pub change: Change,
}

/// How a mutant is written.
#[derive(Clone, Debug)]
pub enum Change {
    /// Another expression.
    Expression(String),
    /// Any text; `MUTANT` in it is true if the mutant is on.
    Text(String),
}

/// The word for the switch in hand-written mutants.
pub const SWITCH: &str = "MUTANT";

/// A file with mutants in it.
pub struct Planted {
    /// Its text.
    pub text: String,
    /// Where each mutant is in it; for expressions the whole choice and, behind it, what the mutant
    /// alone wrote.
    pub places: Vec<(u32, Range<usize>)>,
}

impl Planted {
    /// The mutants that an error at these bytes is blamed on: the smallest place around them.
    pub fn blamed(&self, at: Range<usize>) -> Vec<u32> {
        let around = |place: &Range<usize>| place.start <= at.start && at.end <= place.end;
        let around = self.places.iter().filter(|(_, place)| around(place));
        let least = around.clone().map(|(_, place)| place.len()).min();
        let mut ids: Vec<u32> =
            around.filter(|(_, place)| Some(place.len()) == least).map(|(id, _)| *id).collect();
        ids.dedup();
        ids
    }
}

/// Whether two edits cannot both be made: one begins inside the other and ends outside, or is inside
/// text that the other replaces.
pub fn clash(a: &Edit, b: &Edit) -> bool {
    let within = |inner: &Range<usize>, outer: &Range<usize>| {
        outer.start <= inner.start && inner.end <= outer.end
    };
    let apart = a.range.end <= b.range.start || b.range.end <= a.range.start;
    if apart {
        return false;
    }
    let replaces = |edit: &Edit| matches!(edit.change, Change::Text(_)) && !edit.range.is_empty();
    let a_in_b = within(&a.range, &b.range);
    let b_in_a = within(&b.range, &a.range);
    !(a_in_b || b_in_a) || (a_in_b && replaces(b)) || (b_in_a && replaces(a))
}

/// Puts the edits into a file; `switch` is the function that tells whether a mutant is on.
pub fn plant(source: &str, mut edits: Vec<Edit>, switch: &str) -> Planted {
    // Outer ones before those inside them; insertions before what begins at the same place.
    edits.sort_by_key(|e| {
        (e.range.start, !e.range.is_empty(), std::cmp::Reverse(e.range.end), e.id)
    });
    let mut planter =
        Planter { source, switch, planted: Planted { text: String::new(), places: Vec::new() } };
    planter.write(0..source.len(), &edits);
    planter.planted
}

struct Planter<'s> {
    source: &'s str,
    switch: &'s str,
    planted: Planted,
}

impl Planter<'_> {
    fn write(&mut self, range: Range<usize>, edits: &[Edit]) {
        let (mut at, mut k) = (range.start, 0);
        while k < edits.len() {
            let whole = edits[k].range.clone();
            self.planted.text.push_str(&self.source[at..whole.start]);
            at = whole.end;
            let start = self.planted.text.len();
            if let Change::Text(text) = &edits[k].change {
                let on = format!("{}({})", self.switch, edits[k].id);
                self.planted.text.push_str(&text.replace(SWITCH, &on));
                self.planted.places.push((edits[k].id, start..self.planted.text.len()));
                k += 1;
                continue;
            }
            let same =
                edits[k..].iter().take_while(|e| e.range == whole && !e.range.is_empty()).count();
            let inside = edits[k + same..].iter().take_while(|e| e.range.start < whole.end).count();
            self.planted.text.push('(');
            for edit in &edits[k..k + same] {
                let Change::Expression(changed) = &edit.change else { continue };
                self.planted.text.push_str(&format!("if {}({}) {{ ", self.switch, edit.id));
                let from = self.planted.text.len();
                self.planted.text.push_str(changed);
                self.planted.places.push((edit.id, from..self.planted.text.len()));
                self.planted.text.push_str(" } else ");
            }
            self.planted.text.push_str("{ ");
            self.write(whole, &edits[k + same..k + same + inside]);
            self.planted.text.push_str(" })");
            let end = self.planted.text.len();
            self.planted.places.extend(edits[k..k + same].iter().map(|e| (e.id, start..end)));
            k += same + inside;
        }
        self.planted.text.push_str(&self.source[at..range.end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(id: u32, range: Range<usize>, changed: &str) -> Edit {
        Edit { id, range, change: Change::Expression(changed.into()) }
    }

    #[test]
    fn mutants_of_one_expression_and_of_its_parts_stand_behind_their_switches() {
        let edits = vec![
            expression(3, 8..10, "b"),
            expression(1, 4..10, "a - -b"),
            expression(2, 4..10, "a"),
        ];
        let planted = plant("y = a + -b;", edits, "on");
        let want = "y = (if on(1) { a - -b } else if on(2) { a } else { a + (if on(3) { b } else { -b }) });";
        assert_eq!(planted.text, want);
        syn::parse_str::<syn::Stmt>(&planted.text).unwrap();
    }

    #[test]
    fn an_error_is_blamed_on_the_mutant_that_wrote_it() {
        let edits =
            vec![expression(7, 0..5, "a / b"), expression(8, 0..5, "a"), expression(9, 4..5, "c")];
        let planted = plant("a * b", edits, "on");
        let at = |text: &str| planted.text.find(text).map(|k| k..k + text.len()).unwrap();
        assert_eq!(planted.blamed(at("a / b")), [7]);
        assert_eq!(planted.blamed(at("{ c }")), [9]);
        assert_eq!(planted.blamed(at("{ a * (")), [7, 8]);
        assert!(planted.blamed(0..planted.text.len() + 1).is_empty());
    }

    #[test]
    fn written_text_replaces_or_is_put_in_between() {
        let text = |id, range, text: &str| Edit { id, range, change: Change::Text(text.into()) };
        let edits = vec![text(1, 4..4, "if MUTANT { return }; "), text(2, 4..8, "two(MUTANT)")];
        assert_eq!(plant("one;two;", edits, "on").text, "one;if on(1) { return }; two(on(2))");
    }

    #[test]
    fn edits_that_cut_each_other_or_stand_in_replaced_text_clash() {
        let text = |range| Edit { id: 0, range, change: Change::Text(String::new()) };
        let sum = |range| expression(1, range, "");
        assert!(clash(&sum(0..4), &sum(2..6)) && clash(&text(0..9), &sum(2..6)));
        assert!(!clash(&sum(0..9), &sum(2..6)) && !clash(&sum(0..4), &sum(4..6)));
        assert!(!clash(&sum(0..9), &text(2..6)) && !clash(&text(3..3), &sum(0..9)));
    }
}
