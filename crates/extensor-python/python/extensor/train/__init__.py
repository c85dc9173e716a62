"""Training: the loop with its hooks, checkpoints, and what is measured on the way.

The loop is written against trees and functions; it knows no model and no data set. It takes the
same steps as the Rust library's `train::fit`.

>>> import extensor as ex
>>> from extensor import data, nn, optim, train
>>> a, b, c = ex.Key(1).split(3)
>>> x, truth = a.normal((64, 3)), b.normal((1, 3))
>>> y = ex.ops.linear(x, truth)
>>> loss = lambda model, x, y, mode: ex.mean(ex.square(model(x) - y))
>>> loader = data.Loader(x, y, 16, c)
>>> model, optimizer = nn.Linear(c, 3, 1), optim.Sgd(0.1)
>>> result = train.fit(model, loss, loader, optimizer, epochs=25, key=c, progress=False)
>>> result.end, result.state.step
('done', 100)
>>> bool(abs(float(result.model.weight[0, 0]) - float(truth[0, 0])) < 1e-3)
True
"""

from .._core import LossScale
from ._checkpoints import Checkpoints
from ._fit import Result, STOP, Step, fit
from ._measure import accuracy, classification, test
from ._state import State
from ._trainer import Measured, Trainer

__all__ = [
    "Checkpoints", "LossScale", "Measured", "Result", "STOP", "State", "Step", "accuracy", "classification",
    "Trainer", "fit", "test",
]
