//! A Python tree as the library sees it: a list of tensors with names.
//!
//! Python takes trees apart (`_tree.py`) and leaves buffers out; this module must not know what the
//! tensors are for.

use crate::autodiff::tensors;
use extensor::autodiff::{Path, Tree};
use extensor::{Result, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Tensors with names; the name of a tree that is one tensor is empty.
#[derive(Clone)]
pub struct Named {
    names: Arc<[String]>,
    leaves: Vec<Tensor>,
}

impl Named {
    /// Of a list of names and a list of tensors.
    pub fn of(names: Vec<String>, leaves: &Bound<'_, PyAny>) -> PyResult<Named> {
        let leaves = tensors(leaves)?;
        if names.len() != leaves.len() {
            let text = format!("there are {} names and {} tensors", names.len(), leaves.len());
            return Err(PyValueError::new_err(text));
        }
        Ok(Named { names: names.into(), leaves })
    }

    /// The tensors.
    pub fn leaves(&self) -> &[Tensor] {
        &self.leaves
    }

    /// Other tensors with the same names.
    pub fn with(&self, leaves: Vec<Tensor>) -> Named {
        Named { names: self.names.clone(), leaves }
    }

    /// Tensors of the same names, dtypes and numbers of axes without an element.
    pub fn outline(&self) -> Result<Named> {
        let empty = |x: &Tensor| match x.ndim() {
            0 => Tensor::zeros([], x.dtype()),
            n => Tensor::zeros(vec![0usize; n], x.dtype()),
        };
        let leaves = self.leaves.iter().map(empty).collect::<Result<_>>()?;
        Ok(self.with(leaves))
    }
}

/// The place of a name.
fn at<'a>(path: &'a Path<'a>, name: &'a str) -> Path<'a> {
    if name.is_empty() { *path } else { path.field(name) }
}

impl Tree for Named {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut all = self.names.iter().zip(&self.leaves);
        all.try_for_each(|(name, x)| f(&at(path, name), x))
    }

    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Named> {
        let all = self.names.iter().zip(&self.leaves);
        let leaves = all.map(|(name, x)| f(&at(path, name), x)).collect::<Result<_>>()?;
        Ok(self.with(leaves))
    }

    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut all = self.names.iter().zip(&mut self.leaves);
        all.try_for_each(|(name, x)| f(&at(path, name), x))
    }
}
