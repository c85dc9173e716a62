"""Checking what `torch.autograd` makes of a function, a hand-written `autograd.Function` above all, and
of a module with its parameters.

Only imported when PyTorch tensors or modules are given. The check is that of any other pair of functions.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

from . import _adapt, _check
from ._report import Report
from ._tree import unflatten

Function = Callable[..., Any]


def check_torch(f: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Report:
    """`check_grad` for a function of PyTorch tensors, or a module."""
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
    call: Function = f.apply if is_class else f
    signature = _Forward(f) if is_class else f
    notes = []
    module = next((m for m in (f, owner) if isinstance(m, torch.nn.Module)), None)
    if module is not None and getattr(f, "__name__", "forward") == "forward":
        made = Parameters(torch, module)
        call, signature = made.call, made.named(len(inputs))
        if made.moving:
            inputs = (*inputs, made.moving)
        notes = made.notes()
    elif module is not None and any(p.requires_grad for p in module.parameters()):
        kind, method = type(module).__name__, f.__name__
        notes.append(
            f"the parameters of {kind} are not checked, {method} being one method of it; give the module"
        )
    check = _check.Check(call, _pullback(torch, call), inputs, options, signature=signature)
    for note in notes:
        check.note(note)
    report = check.report()
    if order == 1 or not report.passed:
        return report

    def gradient(*args: Any) -> Any:
        return _differentiate(torch, call, args, None, create_graph=True)

    name = f"the gradient of {check.options['name']}"
    second = {**options, "name": name, "mode": "fast"}
    second.pop("cotangent", None)
    found = _check.Check(gradient, _pullback(torch, gradient), inputs, second, signature=signature)
    again = found.report()
    return report if again.passed else again


class Parameters:
    """A module as a function of its inputs and of the parameters that want a gradient.

    The module is called with other tensors in the place of its own, which stay what they are, whatever
    the call does or raises: its dtype, its buffers and its mode are not touched.
    """

    def __init__(self, torch: Any, module: Any) -> None:
        self.torch, self.module = torch, module
        named = dict(module.named_parameters())
        self.moving = {name: p.detach() for name, p in named.items() if p.requires_grad}
        fixed = {name: p for name, p in named.items() if not p.requires_grad}
        self.fixed = {**fixed, **dict(module.named_buffers())}

    def call(self, *args: Any) -> Any:
        """The module's result for inputs and, last, its parameters."""
        torch = self.torch
        given: dict[str, Any] = args[-1] if self.moving else {}
        inputs = args[:-1] if self.moving else args
        dtypes = {p.dtype for p in given.values()} or {
            x.dtype for x in _adapt.flatten(inputs)[0] if _moves(x)
        }
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        # A call may write into a buffer: each begins with the module's own numbers.
        fixed = {
            name: x.detach().to(dtype if x.is_floating_point() else None, copy=True)
            for name, x in self.fixed.items()
        }
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return torch.func.functional_call(self.module, {**fixed, **given}, inputs)

    def named(self, count: int) -> Function:
        """A function that is called as the module is, with the parameters last."""
        names = _adapt.parameters(self.module.forward, count)

        def forward(*args: Any) -> Any:
            return self.call(*args)

        return _check.named(forward, self.module, [*names, "parameters"])

    def notes(self) -> list[str]:
        """What to say of the module."""
        frozen = [name for name, p in self.module.named_parameters() if not p.requires_grad]
        found = []
        if frozen:
            found.append(f"not checked: {', '.join(frozen)}, which want no gradient (requires_grad=False)")
        random = [m for m in self.module.modules() if "Dropout" in type(m).__name__ and m.training]
        if any(getattr(m, "p", 0) for m in random):
            found.append(
                "the module is in training mode: every call draws the same random numbers, so that "
                "dropout drops the same elements (eval() turns it off)"
            )
        return found


def _Forward(function: Any) -> Function:
    """The forward function of an autograd.Function with its name and without its context."""

    def named(*args: Any) -> Any:
        return function.apply(*args)

    named.__name__ = function.__name__
    parameters = list(inspect.signature(function.forward).parameters.values())
    # With setup_context, forward takes no context.
    old = function.setup_context is sys.modules["torch"].autograd.Function.setup_context
    setattr(named, "__signature__", inspect.Signature(parameters[1:] if old else parameters))
    return named


def _differentiate(
    torch: Any, f: Function, args: tuple[Any, ...], grad: Any, create_graph: bool = False
) -> Any:
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
        found: Any = [None] * len(moving)
        if pairs:
            ys, ws = zip(*pairs)
            wanted = [leaves[i] for i in moving]
            found = torch.autograd.grad(
                ys, wanted, ws, allow_unused=True, create_graph=create_graph
            )
    grads: list[Any] = [None] * len(leaves)
    for i, g in zip(moving, found):
        # To torch, None is a gradient of 0; here it would mean "not to be checked".
        grads[i] = torch.zeros_like(leaves[i]) if g is None else g
    if create_graph:
        return tuple(grads[i] for i in moving)
    return unflatten(structure, grads)


def _moves(x: Any) -> bool:
    return _adapt.kind_of(x) == "torch" and bool(x.is_floating_point())


def _weights(torch: Any, y: Any) -> Any:
    """Weights for an output, all different, the same every time."""
    at = torch.arange(y.numel(), dtype=torch.float64, device=y.device).reshape(y.shape)
    return (torch.cos(at * 2.4) + 1.5).to(y.dtype)


def _pullback(torch: Any, f: Function) -> Function:
    def backward(grad_output: Any, *args: Any) -> Any:
        return _differentiate(torch, f, args, grad_output)

    return backward
