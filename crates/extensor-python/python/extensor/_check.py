"""Checking gradients: of functions made of operations, and of any pair of functions of arrays.

The check itself is the Rust library's. This module makes functions of lists of tensors of what a
person has (NumPy, PyTorch, JAX, trees of arrays), calls it, and hands its findings to `_report.py`.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, ParamSpec

from . import _adapt, _check_hints, _core
from ._adapt import dtype_name, fits, from_tensor, is_float, to_tensor
from ._core import Tensor
from ._report import Report
from ._tree import Structure, unflatten

__all__ = [
    "NumericalGradient", "Report", "assert_grad", "assert_gradient", "check_grad", "check_gradient",
    "numerical_gradient",
]

Function = Callable[..., Any]
P = ParamSpec("P")
Mode = Literal["auto", "full", "fast"]

# Differences of float32 numbers are not better than this (the cube root of the precision, squared).
_COARSE = {"float32": (1e-2, 1e-3), "float16": (0.2, 0.05), "bfloat16": (0.5, 0.2)}


def check_gradient(
    f: Function, f_backward: Function, *inputs: Any,
    dtype: Any = None, mode: Mode | None = None, eps: float | None = None, rtol: float | None = None,
    atol: float | None = None, seed: int | None = None, directions: int | None = None,
    cotangent: Any = None, taylor: bool | None = None, own_dtype: bool | None = None,
    name: str | None = None,
) -> Report:  # fmt: skip
    """Checks a backward function against differences of its function; returns a `Report`.

    `f(*inputs)` returns an array, and `f_backward(grad_output, *inputs)` the gradient for each
    input of a float dtype: one, or a tuple of them, with None for inputs that are not to be
    checked. Inputs are arrays of extensor, NumPy, PyTorch or JAX, Python floats, or trees of these, and
    the functions are called with what was given: a pair of NumPy functions with NumPy arrays.
    Integers stay as they are. If `f` returns several arrays, a tuple say, `grad_output` is one
    argument of the same form: a tuple of as many. An argument for `f` that has the name of an
    option is set with `functools.partial`.

    >>> import math, extensor as ex
    >>> ex.check_gradient(math.sin, lambda g, x: g * math.cos(x), 0.5).passed
    True
    >>> report = ex.check_gradient(math.cos, lambda g, x: g * math.sin(x), 0.5)
    >>> report.passed, report.hint
    (False, 'the sign is swapped: your gradient is −1 times the right one everywhere')

    Options: `dtype` ("float64": all is computed in it; "float32": the gradient in it is held to
    differences in float64; by default float64 if the functions can), `mode` ("full": every element,
    "fast": random directions; by default full up to 1024 elements), `eps`, `rtol`, `atol`, `seed`,
    `directions`, `cotangent` (the `grad_output`; by default random), `taylor` (False: no look at
    the Taylor remainder), `own_dtype` (True: differences in the inputs' own dtype), `name`.
    """
    options = dict(
        dtype=dtype, mode=mode, eps=eps, rtol=rtol, atol=atol, seed=seed, directions=directions,
        cotangent=cotangent, taylor=taylor, own_dtype=own_dtype, name=name,
    )  # fmt: skip
    if not callable(f_backward):
        raise TypeError(
            f"the backward function is missing: {type(f_backward).__name__} is no function, "
            "expected check_gradient(f, f_backward, *inputs)"
        )
    return Check(f, f_backward, inputs, _given(options)).report()


def check_grad(
    f: Function, *inputs: Any, order: int = 1, forward: bool | None = None,
    dtype: Any = None, mode: Mode | None = None, eps: float | None = None, rtol: float | None = None,
    atol: float | None = None, seed: int | None = None, directions: int | None = None,
    cotangent: Any = None, taylor: bool | None = None, own_dtype: bool | None = None,
    name: str | None = None,
) -> Report:  # fmt: skip
    """Checks the derivatives that automatic differentiation finds for `f` at `inputs`; returns a
    `Report`.

    A function made of extensor's operations is checked by differences, in reverse mode and (unless
    `forward=False`) in forward mode, and with `order=2` the gradient's own derivatives too. The parameters
    of a module are checked beside its inputs, as `parameters.weight` and so on.

    With PyTorch tensors, `f` is a function of theirs, a `torch.autograd.Function` or a module, and the
    gradient is what `torch.autograd` makes of it. Of a module, the parameters that want a gradient are
    checked, in float64 with the buffers in float64 too; the module itself is left as it is. If it is in training mode, every call draws the same random
    numbers, so that dropout drops the same elements, and begins with the same running statistics.

    With JAX arrays (or a transformed function of JAX's), the gradient is what `jax.vjp` makes of `f`, in
    float64, which JAX is asked for within the check alone.

    Inputs and other options are those of `check_gradient`.

    >>> import extensor as ex
    >>> ex.check_grad(lambda x: ex.exp(ex.sin(x)), ex.asarray([0.3, -0.8]), order=2).passed
    True
    """
    options = dict(
        dtype=dtype, mode=mode, eps=eps, rtol=rtol, atol=atol, seed=seed, directions=directions,
        cotangent=cotangent, taylor=taylor, own_dtype=own_dtype, name=name, order=order,
        forward=forward,
    )  # fmt: skip
    options = _given(options)
    leaves, _ = _adapt.flatten(inputs)
    kinds = {_adapt.kind_of(x) for x in leaves}
    if "torch" in kinds or _is_torch_module(f):
        from ._check_torch import check_torch

        return check_torch(f, inputs, options)
    if "jax" in kinds or _is_of_jax(f, inputs):
        from ._check_jax import check_jax

        return check_jax(f, inputs, options)
    if hasattr(f, "__tree_fields__") and not isinstance(f, type) and _adapt.flatten(f)[0]:
        call = _with_parameters(f, len(inputs))
        return Check(call, None, (*inputs, f), options, signature=call).report()
    return Check(f, None, inputs, options).report()


def _with_parameters(module: Any, count: int) -> Function:
    """A module as a function of its inputs and, last, of itself."""

    def call(*args: Any) -> Any:
        return args[-1](*args[:-1])

    # Of one that defines `forward` the call says nothing.
    shown = module.forward if "forward" in vars(type(module)) else module.__call__
    return named(call, module, [*_adapt.parameters(shown, count), "parameters"])


def named(call: Function, f: Any, arguments: list[str]) -> Function:
    """A function that is shown with the name of another, or of its class, and these arguments."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    parameters = [inspect.Parameter(name.replace(" ", "_"), kind) for name in arguments]
    call.__name__ = _adapt.name_of(f)
    setattr(call, "__signature__", inspect.Signature(parameters))
    return call


def _is_torch_module(f: Any) -> bool:
    module = getattr(sys.modules.get("torch.nn"), "Module", None)
    return module is not None and any(isinstance(x, module) for x in (f, getattr(f, "__self__", None)))


def _is_of_jax(f: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether a function was transformed by JAX, or inputs hold arrays in nodes that only JAX knows."""
    jax: Any = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util"):
        return False
    if str(type(f).__module__).partition(".")[0] in ("jax", "jaxlib"):
        return True
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(inputs))


class NumericalGradient(NamedTuple):
    """What `numerical_gradient` returns: the weights of the output, and for each input the gradient of
    the weighted sum (None for one of no float dtype)."""

    cotangent: Any
    gradients: tuple[Any, ...]


def numerical_gradient(
    f: Function, *inputs: Any, cotangent: Any = None, eps: float | None = None, seed: int | None = None,
    own_dtype: bool | None = None,
) -> NumericalGradient:  # fmt: skip
    """The gradients of `<w, f(*inputs)>` by central differences in float64, `(f(x + ε) − f(x − ε))/2ε`,
    element by element, for the weights `cotangent` (by default random, from `seed`). Inputs are those of
    `check_gradient`, and so are the gradients; none is modified.

    >>> import extensor as ex
    >>> found = ex.numerical_gradient(ex.square, ex.asarray([3.0, 4.0]), cotangent=ex.asarray([1.0, 10.0]))
    >>> [round(g, 6) for g in found.gradients[0].tolist()]
    [6.0, 80.0]
    """
    options = _given(dict(cotangent=cotangent, eps=eps, seed=seed, own_dtype=own_dtype))
    check = Check(f, f, inputs, options)
    settings = {**check.options, "wrt": check.moving, "input_names": check.names}
    try:
        weights, found = _core.numerical_gradient(check.forward, check.tensors, settings)
    except Problem as error:
        raise ValueError(str(error)) from None
    leaves: list[Any] = [None] * len(check.tensors)
    for place, gradient in zip(check.moving, found):
        leaves[place] = from_tensor(gradient, check.originals[place])
    _, outputs, floats = check.outputs
    gradients: tuple[Any, ...] = unflatten(check.structure, leaves)
    return NumericalGradient(from_tensor(weights, outputs[floats[0]]), gradients)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _arguments_of(check: Callable[P, Report]) -> Callable[[Function], Callable[P, None]]:
    """Decorates a function that hands everything on to a check."""

    def signed(f: Function) -> Callable[P, None]:
        signature = inspect.signature(check).replace(return_annotation=None)
        setattr(f, "__signature__", signature)
        return f

    return signed


@_arguments_of(check_gradient)
def assert_gradient(*args: Any, **options: Any) -> None:
    """Raises AssertionError with the report of `check_gradient` unless it passes."""
    __tracebackhide__ = True
    check_gradient(*args, **options).raise_if_failed()


@_arguments_of(check_grad)
def assert_grad(*args: Any, **options: Any) -> None:
    """Raises AssertionError with the report of `check_grad` unless it passes.

    >>> import extensor as ex
    >>> ex.assert_grad(ex.tanh, ex.asarray([0.3, -0.8]))
    """
    __tracebackhide__ = True
    check_grad(*args, **options).raise_if_failed()


class Problem(Exception):
    """What makes the check fail before any number is compared."""

    def __init__(self, problem: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.problem, self.hint = problem, hint


class Check:
    """A check under way: a person's functions as functions of lists of tensors."""

    def __init__(
        self, f: Function, f_backward: Function | None, inputs: Sequence[Any],
        options: Mapping[str, Any], signature: Any = None,
    ) -> None:  # fmt: skip
        self.f, self.f_backward = f, f_backward
        self.options = dict(options)
        self.dtype = self.options.pop("dtype", None)
        self.options.setdefault("name", _adapt.name_of(signature or f))
        if self.options.get("cotangent") is not None:
            self.options["cotangent"] = to_tensor(self.options["cotangent"])
        self.notes: list[str] = []
        self.names: list[str] = []
        self.count = len(inputs)
        self.note_options(signature or f, options)
        self.originals, self.structure = _adapt.flatten(tuple(inputs))
        arguments = _adapt.parameters(signature or f, len(inputs))
        for name, part in zip(arguments, self.structure.parts):
            _adapt.names_of(part, name, self.names)
        self.arguments = arguments
        self.tensors = [to_tensor(x) for x in self.originals]
        self.moving = [i for i, x in enumerate(self.tensors) if is_float(x)]
        #: The result's structure, its arrays, and which are of a float dtype.
        self.outputs: tuple[Structure, list[Any], list[int]]
        #: Which leaves the backward function has a gradient for, and what it returned too much or too little.
        self.wrt: list[int]
        self.miscounted: list[Tensor]
        self.grad_dtypes: set[str] = set()
        if not self.moving:
            raise ValueError(
                "no input is an array of a float dtype: there is nothing to differentiate by "
                "(a Python int is no array: write 2.0)"
            )

    def note_options(self, f: Any, options: Mapping[str, Any]) -> None:
        """Says what an option is if the function has a parameter of its name."""
        names = _adapt.parameter_names(f)
        for name in options:
            if name in names and names.index(name) >= self.count:
                what = "the step of the differences" if name == "eps" else "an option of the check"
                self.note(f"{name} is {what} here; use functools.partial for that of the function")

    # -- The functions, of lists of tensors.

    def given(self, tensors: list[Tensor]) -> tuple[Any, list[Any]]:
        """The person's arguments, and the arrays in them."""
        arrays = [from_tensor(x, like) for x, like in zip(tensors, self.originals)]
        return unflatten(self.structure, arrays), arrays

    def watch(
        self, function: str, names: list[str], arrays: list[Any], tensors: list[Tensor]
    ) -> None:
        """Raises if a function changed an array."""
        for name, array, tensor in zip(names, arrays, tensors):
            found = _adapt.change(array, tensor)
            if found is not None:
                index, before, after = found
                place = f"{name}{list(index)}" if index is not None else f"{name}'s shape"
                raise Problem(
                    "mutation",
                    f"the {function} function changes its argument: {place} was {before} before "
                    f"the call and is {after} after it",
                    "work on a copy (x = x.copy()), or write x = x * 2 for x *= 2",
                )

    def results(self, value: Any) -> list[Tensor]:
        """The float tensors of a function's result."""
        arrays, structure = _adapt.flatten(value)
        tensors = [to_tensor(x) for x in arrays]
        floats = [i for i, x in enumerate(tensors) if is_float(x)]
        if not floats:
            dtypes = ", ".join(dtype_name(x) for x in tensors)
            what = f"an array of dtype {dtypes}" if dtypes else type(value).__name__
            raise TypeError(f"the function returned {what}, expected an array of a float dtype")
        self.outputs = structure, arrays, floats
        return [tensors[i] for i in floats]

    def forward(self, tensors: list[Tensor]) -> list[Tensor]:
        args, arrays = self.given(tensors)
        value = self.f(*args)
        self.watch("forward", self.names, arrays, tensors)
        return self.results(value)

    def backward(self, grads: list[Tensor], tensors: list[Tensor]) -> list[Tensor]:
        found = self.gradients(grads, tensors)
        if found is None:
            return self.miscounted
        return [self.like(found[i], tensors[i]) for i in self.wrt]

    def gradients(self, grads: list[Tensor], tensors: list[Tensor]) -> list[Any] | None:
        """What the backward function returns in the place of each leaf; None if it is too much or
        too little."""
        structure, likes, floats = self.outputs
        weights: list[Any] = [None] * len(likes)
        for place, grad in zip(floats, grads):
            weights[place] = from_tensor(grad, likes[place])
        args, arrays = self.given(tensors)
        assert self.f_backward is not None
        found = self.f_backward(unflatten(structure, weights), *args)
        self.watch("backward", self.names, arrays, tensors)
        self.watch("backward", ["grad_output"] * len(grads), [weights[i] for i in floats], grads)
        each = self.each_argument(found)
        if each is None:
            return None
        aligned: list[Any] = []
        for name, part, value in zip(self.arguments, self.structure.parts, each):
            try:
                _adapt.align(part, value, aligned, name, set(self.moving))
            except _adapt.Misfit as error:
                hint = "a misspelt or forgotten part; None stands for one that is not to be checked"
                raise Problem("form", str(error), _check_hints.list_hint(self) or hint) from None
        return aligned

    def each_argument(self, found: Any) -> list[Any] | None:
        """The gradients that came back, argument by argument; None if too many or too few."""
        if found is None:
            text = "nothing was checked: the backward function returned None"
            raise Problem("nothing checked", text, "its return is missing")
        parts = self.structure.parts
        some = [k for k, leaves in enumerate(self.leaves_of_arguments()) if leaves]
        several = isinstance(found, (tuple, list)) and not hasattr(found, "_fields")
        each: list[Any] = [None] * self.count
        only = parts[some[0]] if len(some) == 1 else None
        if several and len(found) == self.count and (only is None or fits(only, found[some[0]])):
            return list(found)
        if several and len(found) == len(some) and (only is None or fits(only, found[0])):
            for k, value in zip(some, found):
                each[k] = value
            return each
        if only is not None and fits(only, found):
            each[some[0]] = found
            return each
        self.miscounted = [self.tensors[self.moving[0]]] * (len(found) if several else 1)
        if len(self.miscounted) == len(self.moving):
            hint = _check_hints.list_hint(self)
            raise TypeError(
                f"the backward function returned {found!r}, expected {self.structure}"
                + (f" ({hint})" if hint else "")
            )
        return None

    def leaves_of_arguments(self) -> list[list[int]]:
        """The numbers of the leaves to differentiate by, argument by argument."""
        lists: list[list[int]] = []
        at = 0
        for part in self.structure.parts:
            names: list[str] = []
            _adapt.names_of(part, "", names)
            lists.append([i for i in self.moving if at <= i < at + len(names)])
            at += len(names)
        return lists

    def like(self, grad: Any, tensor: Tensor) -> Tensor:
        """A gradient as a tensor of the dtype of what it is the gradient for."""
        if grad is None:
            raise TypeError("the backward function returns None for an input, but not always")
        if isinstance(grad, (int, list, tuple)):
            grad = _core.asarray(grad)
        if _adapt.kind_of(grad) is None:
            kind = type(grad).__name__
            raise TypeError(f"the backward function returned {kind}, expected an array")
        grad = to_tensor(grad)
        self.grad_dtypes.add(dtype_name(grad))
        return grad if grad.dtype == tensor.dtype else _core.asarray(grad, dtype=tensor.dtype)

    # -- Functions made of operations.

    def traced(self, moved: list[Tensor]) -> list[Tensor]:
        full = list(self.tensors)
        for place, x in zip(self.moving, moved):
            full[place] = x
        try:
            value = self.f(*unflatten(self.structure, full))
        except TypeError as error:
            if "__array_ufunc__" in str(error) or "__array_interface__" in str(error):
                raise TypeError(self.foreign("uses NumPy")) from error
            raise
        arrays, _ = _adapt.flatten(value)
        if arrays and not any(isinstance(x, _core.Tensor) for x in arrays):
            raise TypeError(self.foreign(f"returned {type(arrays[0]).__name__}, not a tensor"))
        return self.results(value)

    def foreign(self, what: str) -> str:
        return (
            f"{self.options['name']} {what}: check_grad differentiates functions made of "
            "extensor's "
            "operations; for any other function give its backward function too, "
            "check_gradient(f, f_backward, *inputs)"
        )

    # -- The check.

    def cast(self, dtype: Any) -> list[Tensor]:
        return [_core.asarray(x, dtype=dtype) if is_float(x) else x for x in self.tensors]

    def probe(self, tensors: list[Tensor]) -> set[str]:
        """Calls the functions once; the names of the dtypes that came back."""
        self.grad_dtypes = set()
        if self.f_backward is None:
            outputs = self.traced([tensors[i] for i in self.moving])
            return {dtype_name(y) for y in outputs}
        outputs = self.forward(tensors)
        _check_hints.expect_arguments(self, len(outputs))
        ones = [_core.full(y.shape, 1, dtype=y.dtype) for y in outputs]
        found = self.gradients(ones, tensors)
        self.wrt = list(self.moving)
        if found is not None:
            self.wrt = [i for i in self.moving if found[i] is not None]
            for i in self.wrt:
                self.like(found[i], tensors[i])
        return {dtype_name(y) for y in outputs} | self.grad_dtypes

    def choose_dtype(self) -> None:
        """Decides in which dtype to compute, and calls the functions once."""
        narrow = {dtype_name(self.tensors[i]) for i in self.moving} - {"float64"}
        if self.dtype is not None:
            self.tensors = self.cast(self.dtype)
            self.probe(self.tensors)
            narrow = {dtype_name(self.tensors[i]) for i in self.moving} - {"float64"}
            if narrow and not self.wide_forward():
                self.options.setdefault("own_dtype", True)
        elif not narrow:
            self.allow_for(self.probe(self.tensors) - {"float64"})
        elif not self.options.get("own_dtype"):
            wide = self.cast("float64")
            try:
                fits = self.probe(wide) == {"float64"}
            except Problem:
                raise
            except Exception:
                fits = False
            if fits:
                self.tensors = wide
                self.note(f"{_list(narrow)} inputs, checked in float64 (dtype= says otherwise)")
            else:
                self.probe(self.tensors)
                self.options["own_dtype"] = True
        else:
            self.probe(self.tensors)
        if narrow and self.options.get("own_dtype"):
            name = max(narrow, key=lambda n: _COARSE[n][0])
            rtol, atol = _COARSE[name]
            self.options.setdefault("rtol", rtol)
            self.options.setdefault("atol", atol)
            self.note(
                f"differences in {name}, which are only good to about {self.options['rtol']:g}: "
                "functions that can compute in float64 are checked far more strictly"
            )

    def allow_for(self, dtypes: Iterable[str]) -> None:
        """Makes room for functions that compute in a narrower dtype than that of their inputs."""
        narrow = [name for name in dtypes if name in _COARSE]
        if not narrow:
            return
        name = max(narrow, key=lambda name: _COARSE[name][0])
        rtol, atol = _COARSE[name]
        # The cube root of the precision: truncation and rounding are equally large.
        eps = {"float32": 5e-3, "float16": 0.1, "bfloat16": 0.2}[name]
        for key, value in {"rtol": rtol, "atol": atol, "eps": eps, "taylor": False}.items():
            self.options.setdefault(key, value)
        self.note(f"the functions compute in {name}, which allows no better than about {rtol:g}")

    def wide_forward(self) -> bool:
        try:
            wide = self.cast("float64")
            if self.f_backward is None:
                outputs = self.traced([wide[i] for i in self.moving])
            else:
                outputs = self.forward(wide)
            return all(dtype_name(y) == "float64" for y in outputs)
        except Problem:
            raise
        except Exception:
            return False

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def report(self) -> Report:
        try:
            self.choose_dtype()
            return self.checked()
        except Problem as error:
            name = self.options["name"]
            return Report(name, error.problem, str(error), error.hint, self.notes)

    def checked(self) -> Report:
        options = self.options
        if self.f_backward is None:
            tensors = [self.tensors[i] for i in self.moving]
            options["input_names"] = [self.names[i] for i in self.moving]
            center = self.traced(tensors)
            core = self.differentiated(tensors)
        else:
            skipped = [self.names[i] for i in self.moving if i not in self.wrt]
            if skipped:
                self.note(f"not checked: {_list(skipped)}, for which the gradient is None")
            if not self.wrt:
                text = "nothing was checked: every gradient is None"
                return Report(options["name"], problem="nothing checked", message=text)
            options["input_names"], options["wrt"] = self.names, self.wrt
            center = self.forward(self.tensors)
            core = _core.check_gradient(self.forward, self.backward, self.tensors, options)
        report = Report.of(core, self.notes)
        results = sum(y.size for y in center)
        for size, what in ((report.elements, "inputs have"), (results, "result has")):
            if report.passed and not size:
                text = f"nothing was checked: the {what} no elements"
                return Report(options["name"], "nothing checked", text, notes=self.notes)
        if report.problem == "count":
            report.hint = _check_hints.list_hint(self)
        _check_hints.say_not_finite(report, center)
        if self.f_backward is not None and report.problem == "wrong":
            _check_hints.look_at_grad_output(self, report, center)
        return report

    def differentiated(self, tensors: list[Tensor]) -> _core.Report:
        try:
            return _core.check_grad(self.traced, tensors, self.options)
        except TypeError as error:
            if "no rule for forward mode" not in str(error) or "forward" in self.options:
                raise
        self.note("forward mode was not checked: a custom_vjp has none")
        return _core.check_grad(self.traced, tensors, {**self.options, "forward": False})


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
