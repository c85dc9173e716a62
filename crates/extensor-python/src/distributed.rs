//! Groups of ranks over a communicator of mpi4py's, or anything that has the same methods.
//!
//! Python takes trees apart (`distributed.py`); here are messages and lists of tensors.

use crate::autodiff::{list, tensors};
use crate::error::{OrRaise, callback, released};
use extensor::distributed::{Blocks, Group, Message, Order, Piece, Reduction, Transport};
use extensor::{Result, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyRange};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Messages by a communicator's `Isend` and `Irecv`.
struct Communicator {
    comm: Py<PyAny>,
    rank: usize,
    size: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests of what is sent, with the bytes that they need.
    sends: Vec<(Py<PyAny>, Py<PyBytes>)>,
    /// What is expected of each rank, the oldest first.
    receives: Vec<VecDeque<Expected>>,
}

/// A request, the bytes that it fills, and where they go.
struct Expected {
    request: Py<PyAny>,
    bytes: Py<PyByteArray>,
    piece: Piece,
}

impl Communicator {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the communicator or one of its requests.
    fn call<T>(&self, f: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| f(py).map_err(|error| callback("group", error)))
    }
}

/// Whether a request is over.
fn is_over(py: Python<'_>, request: &Py<PyAny>) -> PyResult<bool> {
    request.bind(py).call_method0("Test")?.extract()
}

/// The arguments `dest` or `source`, and `tag`.
fn to_rank<'py>(py: Python<'py>, name: &str, rank: usize) -> PyResult<Bound<'py, PyDict>> {
    let arguments = PyDict::new(py);
    arguments.set_item(name, rank)?;
    arguments.set_item("tag", 0)?;
    Ok(arguments)
}

impl Transport for Communicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, message: Message) -> Result<()> {
        let sent = self.call(|py| {
            let bytes = PyBytes::new(py, message.bytes());
            let arguments = to_rank(py, "dest", to)?;
            let request = self.comm.bind(py).call_method("Isend", (&bytes,), Some(&arguments))?;
            Ok((request.unbind(), bytes.unbind()))
        })?;
        self.state().sends.push(sent);
        Ok(())
    }

    fn receive(&self, from: usize, into: Piece) -> Result<()> {
        let (request, bytes) = self.call(|py| {
            let bytes = PyByteArray::new_with(py, into.len(), |_| Ok(()))?;
            let arguments = to_rank(py, "source", from)?;
            let request = self.comm.bind(py).call_method("Irecv", (&bytes,), Some(&arguments))?;
            Ok((request.unbind(), bytes.unbind()))
        })?;
        self.state().receives[from].push_back(Expected { request, bytes, piece: into });
        Ok(())
    }

    fn arrived(&self, from: usize) -> Result<Option<Piece>> {
        let mut state = self.state();
        let Some(oldest) = state.receives[from].front_mut() else { return Ok(None) };
        let over = self.call(|py| {
            let over = is_over(py, &oldest.request)?;
            if over {
                oldest.piece.bytes_mut().copy_from_slice(&oldest.bytes.bind(py).to_vec());
            }
            Ok(over)
        })?;
        Ok(if over { state.receives[from].pop_front().map(|due| due.piece) } else { None })
    }

    fn progress(&self) -> Result<()> {
        let mut state = self.state();
        let sends = std::mem::take(&mut state.sends);
        for (request, bytes) in sends {
            if !self.call(|py| is_over(py, &request))? {
                state.sends.push((request, bytes));
            }
        }
        Ok(())
    }

    fn any_thread(&self) -> bool {
        false
    }

    fn fail(&self, _: &str) {}
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // What is still being sent keeps its bytes.
        for sent in std::mem::take(&mut self.state().sends) {
            std::mem::forget(sent);
        }
    }
}

/// A group of ranks, over lists of tensors.
#[pyclass(name = "Group", module = "extensor._core", frozen)]
pub struct PyGroup(Group);

fn reduction(name: &str) -> PyResult<Reduction> {
    match name {
        "sum" => Ok(Reduction::Sum),
        "mean" => Ok(Reduction::Mean),
        "max" => Ok(Reduction::Max),
        "min" => Ok(Reduction::Min),
        _ => {
            let known = "expected 'sum', 'mean', 'max' or 'min'";
            Err(PyValueError::new_err(format!("all_reduce: reduction is {name:?}, {known}")))
        }
    }
}

#[pymethods]
impl PyGroup {
    /// The ranks of a communicator; without one, this process alone.
    #[new]
    #[pyo3(signature = (comm=None, watch=true))]
    fn new(py: Python<'_>, comm: Option<&Bound<'_, PyAny>>, watch: bool) -> PyResult<PyGroup> {
        let Some(comm) = comm else { return Ok(PyGroup(Group::alone())) };
        let rank = comm.call_method0("Get_rank")?.extract()?;
        let size: usize = comm.call_method0("Get_size")?.extract()?;
        // One of our own: nobody else's messages are among ours.
        let comm = comm.call_method0("Dup")?.unbind();
        let receives = (0..size).map(|_| VecDeque::new()).collect();
        let state = Mutex::new(State { sends: Vec::new(), receives });
        let group = Group::over(Communicator { comm, rank, size, state }).or_raise()?;
        released(py, || {
            let version = [("the version of extensor", env!("CARGO_PKG_VERSION"))];
            group.expect_same("group", &version)?;
            if watch { group.watch().map(drop) } else { Ok(()) }
        })?;
        Ok(PyGroup(group))
    }

    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }

    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[getter]
    fn is_watched(&self) -> bool {
        self.0.is_watched()
    }

    fn parts<'py>(&self, py: Python<'py>, total: usize) -> PyResult<Bound<'py, PyRange>> {
        let parts = self.0.parts(total);
        PyRange::new(py, parts.start as isize, parts.end as isize)
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        released(py, || self.0.barrier())
    }

    fn all_reduce<'py>(
        &self,
        py: Python<'py>,
        leaves: &Bound<'py, PyAny>,
        how: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let (leaves, how) = (tensors(leaves)?, reduction(how)?);
        list(py, &released(py, || self.0.all_reduce_in(&leaves, how, Order::Fixed))?)
    }

    /// The sum of all parts of a step, from the lists of this rank's own.
    fn sum_parts<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<Bound<'py, PyAny>>,
        total: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let parts: Vec<Vec<Tensor>> = parts.iter().map(tensors).collect::<PyResult<_>>()?;
        let sum = released(py, || {
            let mut blocks = Blocks::new();
            let first = self.0.parts(total).start;
            for (i, part) in parts.into_iter().enumerate() {
                blocks.push(first + i, part)?;
            }
            self.0.reduce_blocks(blocks.into_vec(), total)
        })?;
        list(py, &sum)
    }

    fn broadcast<'py>(
        &self,
        py: Python<'py>,
        leaves: &Bound<'py, PyAny>,
        root: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let leaves = tensors(leaves)?;
        list(py, &released(py, || self.0.broadcast(&leaves, root))?)
    }

    fn gather<'py>(
        &self,
        py: Python<'py>,
        leaves: &Bound<'py, PyAny>,
        root: usize,
    ) -> PyResult<Option<Vec<Bound<'py, PyList>>>> {
        let leaves = tensors(leaves)?;
        let found = released(py, || self.0.gather(&leaves, root))?;
        found.map(|all| all.iter().map(|leaves| list(py, leaves)).collect()).transpose()
    }

    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        leaves: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        let leaves = tensors(leaves)?;
        let found = released(py, || self.0.all_gather(&leaves))?;
        found.iter().map(|leaves| list(py, leaves)).collect()
    }

    fn expect_same(&self, py: Python<'_>, facts: Vec<(String, String)>) -> PyResult<()> {
        let facts: Vec<_> = facts.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        released(py, || self.0.expect_same("group", &facts))
    }
}
