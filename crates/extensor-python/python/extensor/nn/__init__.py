"""Networks: layers, how their parameters begin, and models made of them.

A layer is an immutable tree of tensors (a `Module`) that calls operations; nothing here knows
optimisers, data, or how a gradient is taken. The key of the random numbers comes first, and the
same key gives the same bits as in Rust.

>>> import extensor as ex
>>> from extensor import nn
>>> a, b = ex.Key(1).split()
>>> model = nn.models.Mlp(a, [4, 8, 3])
>>> x, labels = b.normal((5, 4)), ex.asarray([0, 1, 2, 1, 0])
>>> loss, grads = ex.value_and_grad(lambda model: nn.class_loss(model(x), labels))(model)
>>> list(grads.parameters())[:2]
['layers.0.weight', 'layers.0.bias']
"""

from .. import _core
from . import init
from ._layers import *  # noqa: F403
from ._layers import __all__ as _layers
from ._module import *  # noqa: F403
from ._module import __all__ as _module
from ._norm import *  # noqa: F403
from ._norm import __all__ as _norm
from . import models

__all__ = [*_module, *_layers, *_norm, "class_loss", "init", "models"]


def class_loss(logits, targets, label_smoothing=0.0):
    """The mean cross-entropy of classes, for logits `[…, classes]` and targets `[…]` of a
    whole-number dtype with any axes before: what classifiers and language models minimise.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> nn.class_loss(ex.zeros((2, 3, 5)), ex.zeros((2, 3), dtype="int64"))
    Tensor(1.6094, dtype=float64)
    """
    return _core.class_loss(_core.asarray(logits), _core.asarray(targets), label_smoothing)
