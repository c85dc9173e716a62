//! Which calls become one kernel: a graph of clusters that stays without circles.

use super::Known;
use super::part::{is_same, is_whole, lies_in_order, number};
use crate::compile::record::{Operand, Source};
use crate::exec::Kind;
use extensor_kernels::fused::fold::Groups;
use std::collections::HashMap;

/// Arrays of so many elements take little room in a cache, however many there are.
const TINY: usize = 1024;
/// The most arrays that a kernel reads and the most steps it has, of tiny arrays and of others.
const MOST_READ: [usize; 2] = [256, 16];
const MOST_STEPS: [usize; 2] = [1 << 14, 400];
/// Arrays of so many elements are not in the caches any more when they are read again.
const PAST_CACHES: usize = 1 << 22;
/// How far back another kernel is looked for that reads the same array.
const NEAR: usize = 8;

/// Calls that become one kernel.
pub(super) struct Cluster {
    /// In the order of the program.
    pub members: Vec<usize>,
    pub of: Option<Kernel>,
    /// The clusters whose values it reads.
    needs: Bits,
    /// Those, and all that they need.
    behind: Bits,
}

/// What is known of a cluster that may grow.
#[derive(Clone)]
pub(super) struct Kernel {
    len: usize,
    pub double: Option<bool>,
    steps: usize,
    /// What is read from outside, without numbers that are constants.
    pub reads: Vec<Operand>,
    /// Which results belong together, where some are folded.
    pub groups: Option<Groups>,
}

pub(super) struct Clusters<'a> {
    known: &'a Known<'a>,
    /// By the number of the first call; what has become part of another is gone.
    all: Vec<Option<Cluster>>,
    /// The cluster of each call.
    of: Vec<usize>,
    /// The call that makes a value.
    makers: HashMap<usize, usize>,
    /// The calls that read a value or a constant and may be part of a kernel.
    readers: HashMap<(bool, usize), Vec<usize>>,
    /// The last call that may fail: the first error of several is the eager call's.
    fallible: Option<usize>,
}

impl<'a> Clusters<'a> {
    pub fn new(known: &'a Known<'a>) -> Self {
        let (all, of) = (Vec::new(), Vec::new());
        let (makers, readers) = (HashMap::new(), HashMap::new());
        Clusters { known, all, of, makers, readers, fallible: None }
    }

    /// The cluster of a call.
    pub fn of(&self, call: usize) -> usize {
        self.of[call]
    }

    /// All clusters, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Cluster)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(number, cluster)| cluster.as_ref().map(|cluster| (number, cluster)))
    }

    /// The clusters that one reads from.
    pub fn needs(&self, number: usize) -> Vec<usize> {
        let Some(cluster) = &self.all[number] else { return Vec::new() };
        let needs = cluster.needs.iter().map(|call| self.of[call]);
        let mut needs: Vec<usize> = needs.filter(|&other| other != number).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// The cluster that makes what an operand is of.
    pub fn maker(&self, operand: &Operand) -> Option<usize> {
        match operand.source {
            Source::Value(v) => self.makers.get(&v).map(|&call| self.of[call]),
            Source::Constant(_) => None,
        }
    }

    /// Adds the next call, to a cluster that it fits in if there is one.
    pub fn add(&mut self, at: usize) {
        let call = &self.known.calls[at];
        let size = self.known.calls.len();
        let (mut needs, mut behind) = (Bits::new(size), Bits::new(size));
        let before = call.inputs.iter().filter_map(|x| self.maker(x));
        let fallible = matches!(
            call.kernel.kind(),
            Kind::Check(_)
                | Kind::Index(_)
                | Kind::Linalg(_)
                | Kind::ClassLosses(_)
                | Kind::ClassGradient(_)
        );
        for other in before.chain(self.fallible.filter(|_| fallible)) {
            needs.set(other);
            behind.set(other);
            if let Some(other) = &self.all[other] {
                behind.add(&other.behind);
            }
        }
        if fallible {
            self.fallible = Some(at);
        }
        let kernel = self.known.parts[at].as_ref().map(|part| {
            let mut reads: Vec<Operand> = Vec::new();
            for operand in &call.inputs {
                let is_number = number(operand, self.known.constants).is_some();
                if !is_number && !reads.iter().any(|x| is_same(x, operand)) {
                    reads.push(operand.clone());
                }
            }
            Kernel {
                len: part.len,
                double: part.double,
                steps: part.program.instructions.len(),
                reads,
                groups: part.fold.map(|(_, groups)| groups),
            }
        });
        let grows = kernel.is_some();
        self.all.push(Some(Cluster { members: vec![at], of: kernel, needs, behind }));
        self.of.push(at);
        call.outputs.iter().for_each(|&v| {
            self.makers.insert(v, at);
        });
        if grows {
            self.grow(at);
            for operand in &call.inputs {
                self.readers.entry(key(operand)).or_default().push(at);
            }
        }
    }

    /// Joins a new cluster of one call with others.
    fn grow(&mut self, at: usize) {
        let call = &self.known.calls[at];
        let mut number = at;
        let makers: Vec<usize> = call.inputs.iter().filter_map(|x| self.maker(x)).collect();
        for other in makers {
            let other = self.of[other];
            if other != number && self.pays(at) && self.fit(other, number) {
                number = self.join(other, number);
            }
        }
        // A fold alone is best left to its own kernel, whose results nobody has yet.
        if number != at || self.known.parts[at].as_ref().is_some_and(|part| part.fold.is_some()) {
            return;
        }
        let others = call.inputs.iter().filter_map(|x| self.readers.get(&key(x))).flatten();
        let mut near: Vec<usize> = others.map(|&call| self.of[call]).collect();
        near.sort_unstable();
        near.dedup();
        let found = near.into_iter().rev().filter(|&other| other != at).take(NEAR).find(|&other| {
            let folds = |c: &Cluster| c.of.as_ref().is_some_and(|of| of.groups.is_some());
            let alone = self.all[other].as_ref().is_some_and(|c| c.members.len() == 1 && folds(c));
            !alone && self.shares(at, other) && self.fit(other, at)
        });
        if let Some(other) = found {
            self.join(other, at);
        }
    }

    /// Whether a call is worth being computed with what makes its operands. To fold what is written in any
    /// case while it is computed saves only a look at memory: that pays where there is more of it than
    /// the caches hold.
    fn pays(&self, at: usize) -> bool {
        let Some(part) = &self.known.parts[at] else { return false };
        let written = |x: &Operand| match x.source {
            Source::Value(v) => self.known.written[v],
            Source::Constant(_) => false,
        };
        part.fold.is_none()
            || part.len <= TINY
            || part.len > PAST_CACHES
            || !self.known.calls[at].inputs.iter().any(written)
    }

    /// Whether a call reads an array that a cluster reads, in the same way.
    fn shares(&self, at: usize, other: usize) -> bool {
        let of = self.all[other].as_ref().and_then(|cluster| cluster.of.as_ref());
        let inputs = &self.known.calls[at].inputs;
        of.is_some_and(|of| of.reads.iter().any(|x| inputs.iter().any(|y| is_same(x, y))))
    }

    /// Whether two clusters can be one kernel.
    fn fit(&self, a: usize, b: usize) -> bool {
        let (Some(first), Some(second)) = (&self.all[a], &self.all[b]) else { return false };
        let (Some(x), Some(y)) = (&first.of, &second.of) else { return false };
        let size = usize::from(x.len > TINY);
        let precision = x.double.is_none() || y.double.is_none() || x.double == y.double;
        let groups = x.groups.is_none() || y.groups.is_none() || x.groups == y.groups;
        x.len == y.len
            && precision
            && groups
            && x.steps + y.steps <= MOST_STEPS[size]
            && self.outer_reads(a, b).count() <= MOST_READ[size]
            && self.inside(a, b)
            && (x.groups.or(y.groups).is_none() || self.outer_reads(a, b).all(lies_in_order))
            && !self.between(a, b)
            && !self.between(b, a)
    }

    /// What two clusters read that neither makes, each once.
    fn outer_reads(&self, a: usize, b: usize) -> impl Iterator<Item = &Operand> + Clone {
        let reads = |number: usize| {
            let of = self.all[number].as_ref().and_then(|cluster| cluster.of.as_ref());
            of.map_or(&[][..], |of| &of.reads)
        };
        let outside = move |x: &&Operand| !self.maker(x).is_some_and(|m| m == a || m == b);
        let new = move |x: &&Operand| !reads(a).iter().any(|other| is_same(other, x));
        reads(a).iter().filter(outside).chain(reads(b).iter().filter(outside).filter(new))
    }

    /// Whether what one makes the other reads as it is made: all of it, in its order, and not folded.
    fn inside(&self, a: usize, b: usize) -> bool {
        [(a, b), (b, a)].into_iter().all(|(maker, reader)| {
            let Some(of) = self.all[reader].as_ref().and_then(|c| c.of.as_ref()) else {
                return false;
            };
            of.reads.iter().filter(|x| self.maker(x) == Some(maker)).all(|x| {
                let Source::Value(v) = x.source else { return true };
                let part = self.known.parts[self.makers[&v]].as_ref();
                is_whole(x, of.len) && part.is_some_and(|part| part.fold.is_none())
            })
        })
    }

    /// Whether a third cluster needs what `a` makes for something that `b` reads.
    fn between(&self, a: usize, b: usize) -> bool {
        self.needs(b)
            .into_iter()
            .filter(|&c| c != a && c != b)
            .any(|c| self.all[c].as_ref().is_some_and(|c| c.behind.has(a)))
    }

    /// Makes one cluster of two; its number is that of the first.
    fn join(&mut self, a: usize, b: usize) -> usize {
        let reads: Vec<Operand> = self.outer_reads(a, b).cloned().collect();
        let (Some(first), Some(second)) = (self.all[a].take(), self.all[b].take()) else {
            unreachable!("clusters that are there");
        };
        let (mut members, mut needs, mut behind) = (first.members, first.needs, first.behind);
        for &call in &second.members {
            self.of[call] = a;
        }
        members.extend(second.members);
        members.sort_unstable();
        needs.add(&second.needs);
        behind.add(&second.behind);
        for own in [a, b] {
            needs.clear(own);
            behind.clear(own);
        }
        // Whoever needed either needs all of it.
        for other in self.all.iter_mut().flatten() {
            if other.behind.has(a) || other.behind.has(b) {
                other.behind.set(a);
                other.behind.add(&behind);
            }
        }
        let of = match (first.of, second.of) {
            (Some(x), Some(y)) => Some(Kernel {
                len: x.len,
                double: x.double.or(y.double),
                steps: x.steps + y.steps,
                reads,
                groups: x.groups.or(y.groups),
            }),
            _ => None,
        };
        self.all[a] = Some(Cluster { members, of, needs, behind });
        a
    }
}

/// Whose memory an operand lies in.
fn key(operand: &Operand) -> (bool, usize) {
    match operand.source {
        Source::Value(v) => (true, v),
        Source::Constant(k) => (false, k),
    }
}

/// A set of small numbers.
#[derive(Clone)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(size: usize) -> Bits {
        Bits(vec![0; size.div_ceil(64)])
    }
    fn set(&mut self, k: usize) {
        self.0[k / 64] |= 1 << (k % 64);
    }
    fn clear(&mut self, k: usize) {
        self.0[k / 64] &= !(1 << (k % 64));
    }
    fn has(&self, k: usize) -> bool {
        self.0[k / 64] >> (k % 64) & 1 == 1
    }
    fn add(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
    fn iter(&self) -> impl Iterator<Item = usize> {
        let ones = |(word, mut bits): (usize, u64)| {
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                (bits != 0).then(|| {
                    bits &= bits - 1;
                    word * 64 + bit
                })
            })
        };
        self.0.iter().copied().enumerate().flat_map(ones)
    }
}
