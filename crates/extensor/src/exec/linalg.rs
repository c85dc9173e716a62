//! Decompositions of matrices, and what is solved with them: of the two last axes, which lie in row-major
//! order, as all arrays do. A matrix that it cannot be done with is an error that says which.

use super::{Call, Kernel, Kind};
use crate::Result;
use std::sync::Arc;

/// What is made of each matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Linalg {
    /// Its Cholesky factor, the lower one or the upper.
    Cholesky { upper: bool },
    /// `a⁻¹·b` of a triangular `a` and `b`; of its transpose, with ones on its diagonal.
    SolveTriangular { upper: bool, transposed: bool, unit: bool },
    /// `a⁻¹·b` of `a` and `b`.
    Solve,
    /// `a⁻¹`.
    Inverse,
    /// Its determinant.
    Det,
    /// The determinants of what is left without a row and a column, with their signs.
    Cofactors,
    /// Its determinant's sign and the logarithm of its size.
    Slogdet,
    /// Its factors `q` and `r`.
    Qr { complete: bool },
    /// Its eigenvalues and their vectors.
    Eigh,
    /// Its eigenvalues.
    Eigvalsh,
    /// `u`, its singular values, `vh`.
    Svd { full: bool },
    /// Its singular values.
    Svdvals,
    /// Its exponential.
    Expm,
}

impl Kernel for Linalg {
    fn run(&self, call: Call<'_, '_>) -> Result<()> {
        run::run(*self, call)
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Linalg(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

#[cfg(not(feature = "linalg"))]
mod run {
    use super::{Call, Linalg, Result};
    use crate::Error;

    pub(super) fn run(_: Linalg, call: Call<'_, '_>) -> Result<()> {
        Err(Error::Unavailable { op: call.op, feature: "linalg" })
    }
}

#[cfg(feature = "linalg")]
mod run {
    use super::{Call, Linalg, Result};
    use crate::exec::Input;
    use crate::tensor::unravel;
    use crate::{DType, Error};
    use extensor_kernels::linalg::{Decompose, Refused, Svd, Triangle};

    pub(super) fn run(kernel: Linalg, call: Call<'_, '_>) -> Result<()> {
        let (op, batch) = (call.op, call.inputs[0]);
        let done = match batch.dtype() {
            DType::F32 => kernel.decompose::<f32>(call),
            DType::F64 => kernel.decompose::<f64>(call),
            dtype => return call.wrong("a", "f32 or f64", dtype),
        };
        done.map_err(|Refused(number)| {
            let shape = batch.shape();
            let matrix = match &shape[..shape.len() - 2] {
                [] => "the matrix".into(),
                leading => format!("matrix {:?} of the batch", unravel(number, leading)),
            };
            Error::Matrix { op, matrix, what: kernel.refusal() }
        })
    }

    fn size(x: &Input<'_>) -> [usize; 2] {
        let shape = x.shape();
        [shape[shape.len() - 2], shape[shape.len() - 1]]
    }

    impl Linalg {
        /// Why it cannot be done with a matrix.
        fn refusal(self) -> &'static str {
            match self {
                Linalg::Cholesky { .. } => "is not positive definite",
                Linalg::Solve | Linalg::Inverse | Linalg::SolveTriangular { .. } => "is singular",
                _ => "has no decomposition that could be found",
            }
        }

        fn decompose<T: Decompose>(self, call: Call<'_, '_>) -> std::result::Result<(), Refused> {
            let (inputs, outputs) = (call.inputs, call.outputs);
            let (x, [rows, columns]) = (inputs[0].row_major::<T>(), size(&inputs[0]));
            let right = || (inputs[1].row_major::<T>(), size(&inputs[1]));
            let n = rows;
            match (self, outputs) {
                (Linalg::Cholesky { upper }, [y]) => T::cholesky(n, upper, x, y.all()),
                (Linalg::SolveTriangular { upper, transposed, unit }, [y]) => {
                    let (b, size) = right();
                    let which = Triangle { upper, transposed, unit };
                    T::solve_triangular(size, which, x, b, y.all())
                }
                (Linalg::Solve, [y]) => {
                    let (b, size) = right();
                    T::solve(size, x, b, y.all())
                }
                (Linalg::Inverse, [y]) => T::inverse(n, x, y.all()),
                (Linalg::Det, [y]) => {
                    T::det(n, x, y.all());
                    Ok(())
                }
                (Linalg::Cofactors, [y]) => T::cofactors(n, x, y.all()),
                (Linalg::Slogdet, [sign, log]) => {
                    T::slogdet(n, x, sign.all(), log.all());
                    Ok(())
                }
                (Linalg::Qr { complete }, [q, r]) => {
                    T::qr([rows, columns], complete, x, q.all(), r.all());
                    Ok(())
                }
                (Linalg::Eigh, [values, vectors]) => T::eigh(n, x, values.all(), vectors.all()),
                (Linalg::Eigvalsh, [values]) => T::eigvalsh(n, x, values.all()),
                (Linalg::Svd { full }, [u, s, vh]) => {
                    let out = Svd { u: u.all(), s: s.all(), vh: vh.all() };
                    T::svd([rows, columns], full, x, out)
                }
                (Linalg::Svdvals, [s]) => T::svdvals([rows, columns], x, s.all()),
                (Linalg::Expm, [y]) => {
                    T::expm(n, x, y.all());
                    Ok(())
                }
                (_, outputs) => {
                    let count = outputs.len();
                    panic!("a bug in ExTensor: {self:?} was to write {count} arrays")
                }
            }
        }
    }
}
