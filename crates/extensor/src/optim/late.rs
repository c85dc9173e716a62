//! Steps whose numbers are known only when they are made: a recorded program's, which takes the learning
//! rate, the number of the step and the factor on the gradient from a tensor. They run the same rules as
//! other steps, and must not know one.

use super::engine::{Leaf, Method, Now, Of};
use crate::exec::{Call, Kernel, Kind};
use crate::{DType, Result, Tensor, ops};
use extensor_kernels::update::{Average as Rule, Rules};
use std::sync::Arc;

/// What a step needs to know, each a tensor of one number.
pub(super) struct Numbers<'a> {
    pub lr: &'a Tensor,
    pub step: &'a Tensor,
    pub scale: &'a Tensor,
}

impl Numbers<'_> {
    /// The three in one tensor, as a kernel takes them.
    pub fn tensor(&self, op: &'static str) -> Result<Tensor> {
        super::expect_one(op, self.lr)?;
        let all = [self.lr, self.step, self.scale];
        let all = all.map(|x| ops::reshape(&ops::cast(x, DType::F64)?, [0i64; 0]));
        ops::stack(&all.into_iter().collect::<Result<Vec<_>>>()?, 0)
    }
}

/// A step of an optimiser. The inputs are the gradient and the [numbers](Numbers); the outputs are the
/// parameter and its slots, to be replaced.
#[derive(Clone)]
pub(super) struct Late<M> {
    pub method: M,
    /// A factor on the learning rate.
    pub lr: f64,
    pub weight_decay: f64,
}

impl<M: Method> Kernel for Late<M> {
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        let [lr, step, scale] = *call.inputs[1].row_major::<f64>() else {
            unreachable!("a step has three numbers");
        };
        let Call { op, inputs, outputs } = call;
        super::engine::expect_rate(M::NAME, lr)?;
        let now = Now { lr: lr * self.lr, weight_decay: self.weight_decay, step: step as u64 };
        let call = Call { op, inputs: &inputs[..1], outputs };
        self.method.step(now, Leaf { scale, of: Of::Call(call) })
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Update
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}

/// A moving average: the inputs are what is new and its share.
pub(super) struct Average;

impl Kernel for Average {
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        let blend = call.inputs[1].row_major::<f64>()[0];
        let Call { op, inputs, outputs } = call;
        let call = Call { op, inputs: &inputs[..1], outputs };
        Leaf { scale: 1.0, of: Of::Call(call) }.update(&Rules(Rule { blend }))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Update
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(Average)
    }
}
