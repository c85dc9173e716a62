//! The comparison of a gradient with differences, place by place.

use super::differences::{Line, Quotient, Sides, Subject};
use super::options::Options;
use super::prepare::signed;
use super::report::{Comparison, ErrorAtStep, Kink, Place, Problem, Report};
use super::taylor;
use crate::tensor::unravel;
use crate::{Key, Result, Tensor, Tolerance};

/// Once so many places are known to be wrong, the rest is not looked at again.
const ENOUGH: usize = 16;

/// A check under way.
pub(super) struct Check<'a> {
    pub subject: Subject<'a>,
    pub analytic: Vec<Vec<f64>>,
    pub tolerance: Tolerance,
    pub eps: f64,
    pub options: &'a Options,
    pub inputs: &'a [Tensor],
    /// Whether every comparison is kept, for a diagnosis or because it was asked for.
    pub keep: bool,
}

/// What a closer look at a place found.
enum Finding {
    Close,
    Kink(Sides),
    Wrong,
    Unresolved { accuracy: f64 },
}

/// A place at which a plain difference does not agree with the gradient.
struct Suspect<'a> {
    line: Line<'a>,
    comparison: Comparison,
    /// Its number among all places.
    number: usize,
    /// How many elements the line moves.
    moved: usize,
}

/// A check's comparisons so far: every one of them, and the line of the worst that is within its
/// tolerance.
struct Record<'a> {
    all: Vec<Comparison>,
    worst: Option<Line<'a>>,
}

impl<'a> Record<'a> {
    /// Counts a comparison that is within its tolerance.
    fn compared(&mut self, report: &mut Report, line: Line<'a>, comparison: Comparison) {
        report.checked += 1;
        if comparison.ratio() >= report.worst_ratio() {
            report.worst = Some(comparison);
            self.worst = Some(line);
        }
    }
}

impl Check<'_> {
    /// Compares every element.
    pub fn elements(&self, report: &mut Report) -> Result<()> {
        let mut places = Vec::new();
        for (input, values) in self.analytic.iter().enumerate() {
            for (at, &analytic) in values.iter().enumerate() {
                let line = Line::Element { input, at };
                let number = self.subject.wrt[input];
                let index = unravel(at, self.inputs[number].shape());
                let input = self.options.input_name(number);
                places.push((line, analytic, Place::Element { input, index }, 1));
            }
        }
        self.judge(places, report)
    }

    /// Compares projections on random directions: one through each input, some through all.
    pub fn directions(&self, report: &mut Report) -> Result<()> {
        let count = self.subject.wrt.len();
        let each = if count > 1 { count } else { 0 };
        let mut drawn = Vec::new();
        for number in 0..each + self.options.directions.max(1) {
            let only = (number < each).then_some(number);
            let mut inputs = Vec::new();
            let mut speeds = Vec::new();
            for (k, values) in self.subject.values.iter().enumerate() {
                if only.is_some_and(|only| only != k) {
                    speeds.push(vec![0.0; values.len()]);
                    continue;
                }
                inputs.push(self.options.input_name(self.subject.wrt[k]));
                speeds.push(self.draw(number + 1, k)?);
            }
            drawn.push((speeds, inputs.join(", ")));
        }
        let places = drawn.iter().map(|(speeds, inputs)| {
            // Elements that move fast count for as many: so does what each of them may be wrong by.
            let moved = speeds.iter().flatten().filter(|v| **v != 0.0).map(|v| v.abs().max(1.0));
            let moved = moved.sum::<f64>().ceil() as usize;
            let inputs = inputs.clone();
            let place = Place::Direction { inputs };
            (Line::Direction(speeds), self.project(speeds), place, moved)
        });
        self.judge(places.collect(), report)
    }

    /// Goes on from directions that are wrong to elements that are: some from everywhere, and one
    /// found by halving the elements that a direction moves, always to the half with the larger
    /// error. If none of them is wrong by itself, the report stays as it is.
    pub fn locate(&self, report: &mut Report) -> Result<()> {
        // So many elements that they take about as long whatever the size of the inputs.
        const WORK: usize = 1 << 21;
        let ends: Vec<usize> = self
            .analytic
            .iter()
            .scan(0, |end, values| {
                *end += values.len();
                Some(*end)
            })
            .collect();
        let total = ends.last().copied().unwrap_or(0);
        let count = (WORK / total.max(1)).clamp(8, 128).min(total);
        let mut numbers: Vec<usize> = (0..count).map(|i| i * total / count).collect();
        numbers.push(self.halve(&ends, total)?);
        numbers.sort_unstable();
        numbers.dedup();
        let places = numbers.iter().map(|&number| {
            let input = ends.partition_point(|&end| end <= number);
            let at = number + self.analytic[input].len() - ends[input];
            let (line, analytic) = (Line::Element { input, at }, self.analytic[input][at]);
            let number = self.subject.wrt[input];
            let index = unravel(at, self.inputs[number].shape());
            let input = self.options.input_name(number);
            (line, analytic, Place::Element { input, index }, 1)
        });
        let mut found =
            Report { worst: None, problem: None, comparisons: Vec::new(), ..report.clone() };
        self.judge(places.collect(), &mut found)?;
        if matches!(found.problem, Some(Problem::Wrong { .. })) {
            let Report { worst, steps, comparisons, problem, .. } = found;
            *report = Report { worst, steps, comparisons, problem, ..report.clone() };
        }
        Ok(())
    }

    /// The number, among all elements, of one whose derivative is probably wrong. The inputs'
    /// elements end at these numbers.
    fn halve(&self, ends: &[usize], total: usize) -> Result<usize> {
        let speeds: Vec<Vec<f64>> =
            (0..self.analytic.len()).map(|k| self.draw(0, k)).collect::<Result<_>>()?;
        let error = |from: usize, to: usize| -> Result<f64> {
            let mut masked = speeds.clone();
            for (values, end) in masked.iter_mut().zip(ends) {
                let start = end - values.len();
                for (at, v) in values.iter_mut().enumerate() {
                    if !(from..to).contains(&(start + at)) {
                        *v = 0.0;
                    }
                }
            }
            let numeric = self.subject.central(&Line::Direction(&masked), self.eps)?.value;
            Ok(self.project(&masked) - numeric)
        };
        let (mut low, mut high) = (0, total);
        let mut all = error(low, high)?;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let left = error(low, middle)?;
            // Errors of derivatives add up as derivatives do.
            let right = all - left;
            if left.abs() >= right.abs() {
                (high, all) = (middle, left);
            } else {
                (low, all) = (middle, right);
            }
        }
        Ok(low)
    }

    /// Looks at the slope of the Taylor remainder along a random direction through all inputs.
    pub fn taylor(&self, report: &mut Report) -> Result<()> {
        let speeds: Vec<Vec<f64>> =
            (0..self.analytic.len()).map(|k| self.draw(0, k)).collect::<Result<_>>()?;
        let slope = taylor::slope(&self.subject, &speeds, self.project(&speeds))?;
        report.taylor = Some(slope);
        if slope < taylor::LEAST_SLOPE {
            report.problem = Some(Problem::Taylor { slope });
        }
        Ok(())
    }

    /// Random speeds for the elements of an input, in units of `max(1, |x|)`, or of the largest where
    /// all are tiny.
    fn draw(&self, direction: usize, input: usize) -> Result<Vec<f64>> {
        let values = &self.subject.values[input];
        let key = Key::new(self.options.seed).fold_in(1 + direction as u64); // 0: the cotangent
        let speeds = signed(key.fold_in(input as u64), values.len())?;
        let unit = self.subject.unit(input);
        let scaled = speeds.iter().zip(values).map(|(v, x)| v * x.abs().max(unit));
        Ok(scaled.collect())
    }

    /// `<g, v>`.
    fn project(&self, speeds: &[Vec<f64>]) -> f64 {
        let pairs = self.analytic.iter().zip(speeds);
        pairs.flat_map(|(g, v)| g.iter().zip(v).map(|(g, v)| g * v)).sum()
    }

    fn bound(&self, numeric: f64, terms: usize) -> f64 {
        self.tolerance.absolute * terms.max(1) as f64 + self.tolerance.relative * numeric.abs()
    }

    /// Compares at every place, and looks closer where a plain difference does not agree.
    fn judge(&self, places: Vec<(Line, f64, Place, usize)>, report: &mut Report) -> Result<()> {
        let total = places.len();
        let mut suspects = Vec::new();
        let mut record = Record { all: Vec::new(), worst: None };
        for (number, (line, analytic, place, moved)) in places.into_iter().enumerate() {
            let h = self.eps * self.subject.scale(&line);
            let Quotient { value, terms, bend } = self.subject.central(&line, h)?;
            let suspect = Suspect {
                comparison: Comparison {
                    place,
                    analytic,
                    numeric: value,
                    tolerance: self.bound(value, terms.max(moved)),
                },
                line,
                number,
                moved,
            };
            if self.keep {
                record.all.push(suspect.comparison.clone());
            }
            if suspect.comparison.ratio() > 1.0 || suspect.comparison.ratio().is_nan() {
                suspects.push(suspect);
                continue;
            }
            // A kink in the middle of which both agree, as for |x| at 0.
            if bend > 1e-3 * value.abs()
                && let Some(sides) = self.subject.kink(&suspect.line, self.eps)?
            {
                self.note_kink(report, &suspect.comparison, sides);
            }
            record.compared(report, line, suspect.comparison);
        }
        suspects.sort_by(|a, b| b.comparison.ratio().total_cmp(&a.comparison.ratio()));
        self.judge_suspects(suspects, &mut record, report)?;
        report.comparisons = record.all;
        if self.options.record
            && let (Some(line), Some(worst), true) = (record.worst, &report.worst, report.passed())
        {
            report.steps = self.steps(&line, worst.analytic)?;
        }
        if total > 0 && report.checked == 0 && report.passed() {
            report.problem = Some(Problem::NothingChecked);
        }
        Ok(())
    }

    fn judge_suspects<'a>(
        &self,
        suspects: Vec<Suspect<'a>>,
        record: &mut Record<'a>,
        report: &mut Report,
    ) -> Result<()> {
        let mut wrong: Vec<(Line, Comparison)> = Vec::new();
        let mut unresolved: Option<(Line, Comparison, f64)> = None;
        for suspect in suspects {
            let (comparison, finding) = self.look_closer(&suspect)?;
            if let Some(kept) = record.all.get_mut(suspect.number) {
                *kept = comparison.clone();
            }
            match finding {
                Finding::Close => record.compared(report, suspect.line, comparison),
                Finding::Wrong => wrong.push((suspect.line, comparison)),
                Finding::Kink(sides) => self.note_kink(report, &comparison, sides),
                Finding::Unresolved { accuracy } => {
                    unresolved.get_or_insert((suspect.line, comparison, accuracy));
                }
            }
            if wrong.len() >= ENOUGH {
                break;
            }
        }
        let places = wrong.len();
        report.checked += places;
        let factor = common_factor(&wrong);
        let worst = wrong.into_iter().max_by(|(_, a), (_, b)| a.ratio().total_cmp(&b.ratio()));
        let (line, comparison, problem) = match (worst, unresolved) {
            (Some((line, comparison)), _) => (line, comparison, Problem::Wrong { places, factor }),
            (None, Some((line, comparison, accuracy))) => {
                (line, comparison, Problem::Unresolved { accuracy })
            }
            (None, None) => return Ok(()),
        };
        report.steps = self.steps(&line, comparison.analytic)?;
        report.worst = Some(comparison);
        report.problem = Some(problem);
        Ok(())
    }

    fn note_kink(&self, report: &mut Report, comparison: &Comparison, sides: Sides) {
        report.kink_count += 1;
        if report.kinks.len() < self.options.shown {
            report.kinks.push(Kink {
                place: comparison.place.clone(),
                left: sides.left,
                right: sides.right,
                analytic: comparison.analytic,
            });
        }
    }

    /// Settles a doubt by extrapolated differences, then by one-sided ones.
    fn look_closer(&self, suspect: &Suspect) -> Result<(Comparison, Finding)> {
        let Suspect { line, comparison: first, moved, .. } = suspect;
        let estimate = self.subject.extrapolate(line, self.eps)?;
        let kink = self.subject.kink(line, self.eps)?;
        if estimate.value.is_nan() {
            let accuracy = f64::INFINITY;
            let finding = kink.map_or(Finding::Unresolved { accuracy }, Finding::Kink);
            return Ok((first.clone(), finding));
        }
        let comparison = Comparison {
            numeric: estimate.value,
            tolerance: self.bound(estimate.value, estimate.terms.max(*moved)),
            ..first.clone()
        };
        let accuracy = estimate.error;
        let finding = match kink {
            _ if comparison.ratio() <= 1.0 => Finding::Close,
            Some(sides) => Finding::Kink(sides),
            None if comparison.error() > 3.0 * accuracy => Finding::Wrong,
            None => Finding::Unresolved { accuracy },
        };
        Ok((comparison, finding))
    }

    /// The error for steps from a thousand times ε down to a ten-thousandth of it.
    fn steps(&self, line: &Line, analytic: f64) -> Result<Vec<ErrorAtStep>> {
        // On request at half decades, which make a better picture.
        let parts = if self.options.record { 2 } else { 1 };
        let step = |power: i32| {
            let eps = self.eps * 10f64.powf(f64::from(power) / f64::from(parts));
            let h = eps * self.subject.scale(line);
            let numeric = self.subject.central(line, h)?.value;
            let error = (analytic - numeric).abs();
            Ok(ErrorAtStep { eps, numeric, error })
        };
        (-4 * parts..=3 * parts).rev().map(step).collect()
    }
}

/// The ratio of both derivatives, if it is the same everywhere.
fn common_factor(wrong: &[(Line, Comparison)]) -> Option<f64> {
    let mut factors = wrong.iter().map(|(_, c)| c.analytic / c.numeric);
    let first = factors.next().filter(|v| v.is_finite())?;
    factors.all(|v| (v - first).abs() <= 1e-4 * first.abs()).then_some(first)
}
