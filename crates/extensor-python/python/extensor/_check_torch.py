"""Checking what `torch.autograd` makes of a function, a hand-written `autograd.Function` above all.

Only imported when PyTorch tensors are given. The check is that of any other pair of functions.
"""

import sys

from . import _adapt, _check
from ._tree import unflatten


def check_torch(f, inputs, options):
    """`check_grad` for a function of PyTorch tensors."""
    torch = sys.modules["torch"]
    options = dict(options)
    order = options.pop("order", 1)
    options.pop("forward", None)
    if order not in (1, 2):
        raise ValueError(f"order is {order}, expected 1 or 2")
    owner = getattr(f, "__self__", None)
    if getattr(f, "__name__", "") == "apply" and isinstance(owner, type):
        f = owner  # Swish.apply is checked as Swish is
    is_class = isinstance(f, type) and issubclass(f, torch.autograd.Function)
    call = f.apply if is_class else f
    signature = _Forward(f) if is_class else f
    check = _check._Check(call, _pullback(torch, call), inputs, options, signature=signature)
    module = next((m for m in (f, owner) if isinstance(m, torch.nn.Module)), None)
    if module is not None and any(p.requires_grad for p in module.parameters()):
        check.note(
            f"the parameters of {type(module).__name__} are not checked: "
            "torch.func.functional_call makes them inputs"
        )
    report = check.report()
    if order == 1 or not report.passed:
        return report

    def gradient(*args):
        return _differentiate(torch, call, args, None, create_graph=True)

    name = f"the gradient of {check.options['name']}"
    second = {**options, "name": name, "mode": "fast"}
    second.pop("cotangent", None)
    found = _check._Check(gradient, _pullback(torch, gradient), inputs, second, signature=signature)
    again = found.report()
    return report if again.passed else again


def _Forward(function):
    """The forward function of an autograd.Function with its name and without its context."""
    import inspect

    def named(*args):
        return function.apply(*args)

    named.__name__ = function.__name__
    parameters = list(inspect.signature(function.forward).parameters.values())
    # With setup_context, forward takes no context.
    old = function.setup_context is sys.modules["torch"].autograd.Function.setup_context
    named.__signature__ = inspect.Signature(parameters[1:] if old else parameters)
    return named


def _differentiate(torch, f, args, grad, create_graph=False):
    """The gradients of `<grad, f(*args)>` in the place of each tensor to differentiate by."""
    leaves, structure = _adapt.flatten(tuple(args))
    moving = [i for i, x in enumerate(leaves) if _moves(x)]
    if not create_graph or not any(leaves[i].requires_grad for i in moving):
        for i in moving:
            leaves[i] = leaves[i].detach().requires_grad_()
    with torch.enable_grad():
        outputs, _ = _adapt.flatten(f(*unflatten(structure, leaves)))
        outputs = [y for y in outputs if _moves(y)]
        if grad is None:
            weights = [_weights(torch, y) for y in outputs]
        else:
            weights = [g for g in _adapt.flatten(grad)[0] if g is not None]
        pairs = [(y, w) for y, w in zip(outputs, weights) if y.requires_grad]
        found = [None] * len(moving)
        if pairs:
            ys, ws = zip(*pairs)
            wanted = [leaves[i] for i in moving]
            found = torch.autograd.grad(
                ys, wanted, ws, allow_unused=True, create_graph=create_graph
            )
    grads = [None] * len(leaves)
    for i, g in zip(moving, found):
        # To torch, None is a gradient of 0; here it would mean "not to be checked".
        grads[i] = torch.zeros_like(leaves[i]) if g is None else g
    if create_graph:
        return tuple(grads[i] for i in moving)
    return unflatten(structure, grads)


def _moves(x):
    return _adapt.kind_of(x) == "torch" and x.is_floating_point()


def _weights(torch, y):
    """Weights for an output, all different, the same every time."""
    at = torch.arange(y.numel(), dtype=torch.float64, device=y.device).reshape(y.shape)
    return (torch.cos(at * 2.4) + 1.5).to(y.dtype)


def _pullback(torch, f):
    def backward(grad_output, *args):
        return _differentiate(torch, f, args, grad_output)

    return backward
