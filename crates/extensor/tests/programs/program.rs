//! Programs: lists of calls of the catalogue's operations.

use extensor::ops::params::Params;
use extensor::ops::record::Record;
use extensor::{Result, Tensor};
use std::fmt;

/// The float inputs, and the others.
pub type Arguments = (Vec<Tensor>, Vec<Tensor>);

#[derive(Clone)]
pub struct Program {
    pub nodes: Vec<Node>,
    /// The numbers of the nodes that are results.
    pub results: Vec<usize>,
}

/// A value of a program.
#[derive(Clone)]
pub enum Node {
    /// With the numbers of two runs.
    Input([Tensor; 2]),
    /// The first result of an operation.
    Call { record: &'static Record, params: Params, of: Vec<usize> },
}

impl Program {
    /// How many operations are needed for the results.
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// The names of the operations.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let needed = self.needed();
        self.nodes.iter().zip(needed).filter_map(|(node, needed)| match node {
            Node::Call { record, .. } if needed => Some(record.name),
            _ => None,
        })
    }

    /// Which nodes the results need.
    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        self.results.iter().for_each(|&k| needed[k] = true);
        for k in (0..self.nodes.len()).rev() {
            if let (Node::Call { of, .. }, true) = (&self.nodes[k], needed[k]) {
                of.iter().for_each(|&i| needed[i] = true);
            }
        }
        needed
    }

    /// The inputs that the results need.
    fn inputs(&self) -> Vec<&[Tensor; 2]> {
        let all = self.nodes.iter().zip(self.needed());
        all.filter_map(|(node, needed)| match node {
            Node::Input(both) if needed => Some(both),
            _ => None,
        })
        .collect()
    }

    /// The arguments of three runs, the last as the first.
    pub fn arguments(&self) -> [Arguments; 3] {
        let inputs = self.inputs();
        [0, 1, 0].map(|run| {
            let all = inputs.iter().map(|both| both[run].clone());
            all.partition(|x| x.dtype().is_float())
        })
    }

    /// The results.
    pub fn run(&self, arguments: &Arguments) -> Result<Vec<Tensor>> {
        let values = self.values(arguments)?;
        Ok(self.results.iter().filter_map(|&k| values[k].clone()).collect())
    }

    fn values(&self, (floats, others): &Arguments) -> Result<Vec<Option<Tensor>>> {
        let (mut floats, mut others) = (floats.iter(), others.iter());
        let mut values: Vec<Option<Tensor>> = Vec::with_capacity(self.nodes.len());
        for (node, needed) in self.nodes.iter().zip(self.needed()) {
            values.push(match node {
                _ if !needed => None,
                Node::Input([x, _]) if x.dtype().is_float() => floats.next().cloned(),
                Node::Input(_) => others.next().cloned(),
                Node::Call { record, params, of } => {
                    let of: Vec<&Tensor> = of.iter().filter_map(|&k| values[k].as_ref()).collect();
                    Some(record.call(&of, params)?.swap_remove(0))
                }
            });
        }
        Ok(values)
    }

    /// Whether a result and an input are floats.
    pub fn is_differentiable(&self) -> bool {
        let [(floats, others), ..] = self.arguments();
        let float = |y: &Tensor| y.dtype().is_float();
        !floats.is_empty() && self.run(&(floats, others)).is_ok_and(|all| all.iter().any(float))
    }

    /// The programs that have a result less, or an operation less: its value is an input then, or those that
    /// it is made of are results instead.
    pub fn smaller(&self) -> Vec<Program> {
        let mut found = Vec::new();
        for (k, &result) in self.results.iter().enumerate() {
            if let Node::Call { of, .. } = &self.nodes[result] {
                let mut smaller = self.clone();
                smaller.results.remove(k);
                let call = |&&i: &&usize| matches!(self.nodes[i], Node::Call { .. });
                smaller.results.extend(of.iter().filter(call));
                smaller.results.sort_unstable();
                smaller.results.dedup();
                if !smaller.results.is_empty() && smaller.len() < self.len() {
                    found.push(smaller);
                }
            }
        }
        if self.results.len() > 1 {
            for k in 0..self.results.len() {
                let mut smaller = self.clone();
                smaller.results.remove(k);
                found.push(smaller);
            }
        }
        let [first, second, _] = self.arguments();
        let (Ok(first), Ok(second)) = (self.values(&first), self.values(&second)) else {
            return found;
        };
        let calls = (0..self.nodes.len()).filter(|&k| matches!(self.nodes[k], Node::Call { .. }));
        for k in calls {
            if let (Some(first), Some(second)) = (&first[k], &second[k]) {
                let mut smaller = self.clone();
                smaller.nodes[k] = Node::Input([first.clone(), second.clone()]);
                // An input alone is no result.
                smaller.results.retain(|&result| result != k);
                if !smaller.results.is_empty() {
                    found.push(smaller);
                }
            }
        }
        found
    }
}

impl fmt::Display for Program {
    /// A line for each value: `d = multiply(a, c): bf16[3, 4]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = self.needed();
        let names: Vec<String> = (0..self.nodes.len())
            .scan(0, |count, k| {
                *count += usize::from(needed[k]);
                Some(name((*count).max(1) - 1))
            })
            .collect();
        let [first, ..] = self.arguments();
        let values = self.values(&first).unwrap_or_else(|_| vec![None; self.nodes.len()]);
        for (k, node) in self.nodes.iter().enumerate().filter(|(k, _)| needed[*k]) {
            write!(f, "    {} = ", names[k])?;
            match node {
                Node::Input([x, _]) if x.len() <= 4 => write!(f, "{:?}", x.to_f64_vec())?,
                Node::Input(_) => f.write_str("input")?,
                Node::Call { record, params, of } => {
                    let of = of.iter().map(|&i| names[i].clone());
                    let params = params.iter().map(|(name, value)| format!("{name} = {value}"));
                    let all: Vec<String> = of.chain(params).collect();
                    write!(f, "{}({})", record.name, all.join(", "))?;
                }
            }
            match &values[k] {
                Some(x) => writeln!(f, ": {}{}", x.dtype(), x.shape())?,
                None => writeln!(f)?,
            }
        }
        let results: Vec<&str> = self.results.iter().map(|&k| names[k].as_str()).collect();
        writeln!(f, "    return {}", results.join(", "))
    }
}

/// `a`, …, `z`, `a1`, …
fn name(k: usize) -> String {
    let letter = (b'a' + (k % 26) as u8) as char;
    if k < 26 { letter.to_string() } else { format!("{letter}{}", k / 26) }
}
