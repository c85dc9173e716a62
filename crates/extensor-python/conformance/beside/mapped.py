"""`extensor.vmap` beside PyTorch's functions of one example after the other, over a random selection of the calls of
all entries.

A tensor that is mapped is a few of the same, each a little larger than the last, stacked along any axis; values, the
gradient of the whole, and the mapped gradients of each are compared. `torch.func.vmap` is not asked: it contradicts
its own loop (2.11: the gradient of `embedding` with `padding_idx`, the shape of `solve`).
"""

import numpy as np
import torch

import extensor as ex

from . import judge as judging
from .entry import ENTRIES, Missing, present


def judge(judged, d):
    """Draws a call and compares it mapped; the words say which it was."""
    function = getattr(ex, "vmap", None)
    if function is None:
        raise Missing("vmap")
    names = [e.name for e in ENTRIES.values() if e.name != "vmap" and any(map(present, e.names))]
    while True:
        chosen = ENTRIES[d.pick(*names)]
        call = chosen.draw(d)
        if call.mapped and call.moving:
            break
    try:
        compare(judged, function, call, d)
    except judging.Wrong as error:
        raise judging.Wrong(f"of {chosen.name}({call.text}): {error}") from error
    except Missing:
        return f"{chosen.name} lacks an option"
    except Exception as error:
        raise judging.Wrong(f"of {chosen.name}({call.text}): {type(error).__name__}: {error}") from error
    return chosen.name


def compare(judged, function, call, d):
    count = d.whole(1, 3)
    arrays, places = stacked(call, count, d)
    theirs = [torch.from_numpy(x) for x in arrays]
    leaves = [x.requires_grad_() if i in call.moving else x for i, x in enumerate(theirs)]
    want = each(call, leaves, places, count)
    ours = [ex.asarray(np.array(x)) for x in arrays]

    def batched(*moved):
        full = list(ours)
        for i, x in zip(call.moving, moved):
            full[i] = x
        found = function(lambda *xs: tuple(judging.several(call.ours(*xs))), in_axes=tuple(places))(*full)
        return tuple(found)

    moved = tuple(ours[i] for i in call.moving)
    got = batched(*moved)
    scale = judging.magnitude([*arrays, *map(judging.array, want)])
    for y, exact in zip(got, want, strict=True):
        judged.close("values", y, exact, scale)
    floats = [i for i, y in enumerate(want) if y.is_floating_point()]
    if call.order < 1 or not floats:
        return
    weights = {i: d.normal(*want[i].shape) for i in floats}
    moving = [leaves[i] for i in call.moving]
    total = sum((want[i] * torch.from_numpy(w)).sum() for i, w in weights.items())
    if not total.requires_grad:
        return
    grads = torch.autograd.grad(total, moving, allow_unused=True, materialize_grads=True)
    _, pullback = ex.vjp(lambda *moved: tuple(batched(*moved)[i] for i in floats), *moved)
    wide = max(scale, judging.magnitude([*map(judging.array, grads), *weights.values()]))
    found = pullback(tuple(ex.asarray(w) for w in weights.values()))
    for y, exact in zip(found, grads, strict=True):
        judged.close("reverse", y, exact, wide)
    gradients(judged, function, call, ours, leaves, places, count, d)


def gradients(judged, function, call, ours, leaves, places, count, d):
    """The gradient of each example, mapped: `vmap` of a gradient."""
    one = [judging.several(call.theirs(*example(leaves, places, k))) for k in range(count)]
    floats = [i for i, y in enumerate(one[0]) if y.is_floating_point()]
    weights = {i: d.normal(*one[0][i].shape) for i in floats}
    want = []
    for k in range(count):
        moving = [x.detach().clone() for x in example(leaves, places, k)]
        moving = [x.requires_grad_() if i in call.moving else x for i, x in enumerate(moving)]
        found = judging.several(call.theirs(*moving))
        total = sum((found[i] * torch.from_numpy(w)).sum() for i, w in weights.items())
        inputs = [moving[i] for i in call.moving]
        want.append(torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True))
    cotangents = {i: ex.asarray(w) for i, w in weights.items()}

    def weighted(*xs):
        found = judging.several(call.ours(*xs))
        terms = [ex.sum(found[i] * w) for i, w in cotangents.items()]
        return sum(terms[1:], terms[0])

    got = function(ex.grad(weighted, argnums=tuple(call.moving)), in_axes=tuple(places))(*ours)
    exact = [torch.stack(parts) for parts in zip(*want)]
    scale = judging.magnitude([*call.inputs, *map(judging.array, exact), *weights.values()])
    for y, z in zip(got, exact, strict=True):
        judged.close("gradients of each", y, z, scale)


def stacked(call, count, d):
    """The tensors, some of them several along an axis, and which axis; None is not mapped."""
    arrays, places = [], []
    chosen = [d.chance(0.7) for _ in call.inputs]
    if not any(chosen[i] for i in call.moving):
        chosen[d.pick(*call.moving)] = True
    for i, (x, several) in enumerate(zip(call.inputs, chosen)):
        if not several:
            arrays.append(np.array(x))
            places.append(None)
            continue
        axis = d.whole(0, x.ndim)
        # What is not differentiated by (targets of a loss) may have to be what it is.
        parts = [x * (1 + 0.002 * k) if i in call.moving else x for k in range(count)]
        arrays.append(np.ascontiguousarray(np.stack(parts, axis)))
        places.append(axis)
    return arrays, places


def example(leaves, places, k):
    """PyTorch's arguments for one example."""
    return [x if axis is None else x.select(axis, k) for x, axis in zip(leaves, places)]


def each(call, leaves, places, count):
    """PyTorch's answers one by one, stacked."""
    found = []
    for k in range(count):
        found.append(judging.several(call.theirs(*example(leaves, places, k))))
    return [torch.stack(parts) for parts in zip(*found)]
