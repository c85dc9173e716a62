"""Modules: immutable trees of tensors that can be called, and the mode they are called in.

A module knows its fields and nothing else; it must not know optimisers, data or how a gradient is
taken.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .. import _core, _tree, ops
from .._core import DType, Key, Tensor

__all__ = ["INFERENCE", "Inference", "Mode", "Module", "Training", "buffer", "static"]

M = TypeVar("M", bound="Module")
_MISSING: Any = object()


class Inference:
    """The mode in which a network is used: nothing is random, running statistics stay."""

    training: ClassVar[bool] = False
    __slots__ = ()

    def split(self, index: int) -> "Inference":
        """The mode of part number `index`: the same."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inference)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "nn.INFERENCE"


class Training:
    """The mode in which a network is trained, with random numbers from a key.

    Use another key for each step.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> layer = nn.Dropout(0.5)
    >>> layer(ex.ones(6), mode=nn.Training(ex.Key(2)))
    Tensor([0.0, 0.0, 2.0, 0.0, 0.0, 0.0], dtype=float64)
    """

    training: ClassVar[bool] = True
    __tree_fields__: ClassVar[tuple[str, ...]] = ("key",)
    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        if not isinstance(key, Key):
            raise TypeError(f"Training takes a key, not {type(key).__name__}")
        self.key = key

    def split(self, index: int) -> "Training":
        """The mode of part number `index`, with random numbers of its own."""
        return Training(self.key.fold_in(index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Training) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"nn.Training({self.key!r})"


#: How a network is called: in training, with a key, or in inference.
Mode = Inference | Training
INFERENCE = Inference()


class _Field:
    def __init__(self, kind: str, default: Any) -> None:
        self.kind, self.default = kind, default


def static(default: Any = _MISSING) -> Any:
    """A field of a module that is no tree: `heads: int = nn.static()`. Numbers, strings and
    functions need no such mark, since they are no tensors."""
    return _Field("static", default)


def buffer(default: Any = _MISSING) -> Any:
    """A field of a module that is kept and saved with it and is no parameter, such as a running
    statistic: nothing is differentiated by it, and optimisers leave it alone."""
    return _Field("buffer", default)


def _annotations(cls: type) -> dict[str, Any]:
    """The annotated names of a class' own body; what they are annotated with does not matter."""
    try:
        return inspect.get_annotations(cls)
    except NameError:  # Python 3.14 evaluates annotations when they are asked for.
        import annotationlib  # type: ignore[import-not-found, unused-ignore]

        found: dict[str, Any] = annotationlib.get_annotations(
            cls, format=annotationlib.Format.FORWARDREF
        )
        return found


def _signature(cls: "type[Module]") -> inspect.Signature:
    """What a module's class is called with."""
    if cls.__init__ is not Module.__init__:
        own = list(inspect.signature(cls.__init__).parameters.values())
        return inspect.Signature(own[1:])
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters: list[inspect.Parameter] = []
    for name in cls.__tree_fields__ if isinstance(cls.__tree_fields__, tuple) else ():
        default = cls._defaults.get(name, inspect.Parameter.empty)
        if default is inspect.Parameter.empty and any(p.default is not p.empty for p in parameters):
            kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


def _is_plain(forward: Callable[..., Any]) -> bool:
    """Whether a `forward` takes an input alone, as in PyTorch."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        return False
    named = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return len(parameters) == 2 and all(p.kind in named for p in parameters)


def _with_mode(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A `forward(self, x)` that, called with a mode, returns the module beside the result."""

    @functools.wraps(plain)
    def forward(self: Any, x: Any, mode: Mode | None = None) -> Any:
        y = plain(self, x)
        return y if mode is None else (y, self)

    return forward


class Module:
    """The base class of layers and networks: a tree whose parts are its annotated fields.

    A module is an immutable value. Its tensors, and those of the modules, lists, tuples and dicts
    in its fields, are its parameters, named like `layers.0.weight`; `extensor.grad` of a function
    of it is a module of the same class. Fields are set once, in `__init__`; without one they are
    given in their order or by name.

    A subclass defines `__call__(self, x)` or `__call__(self, x, mode)`, or, if it has running
    statistics, `forward(self, x, mode)`, which returns the result and the module with the
    statistics that belong to the next step. `forward(self, x)`, as in PyTorch, returns the result.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> class Network(nn.Module):
    ...     first: nn.Linear
    ...     last: nn.Linear
    ...
    ...     def __init__(self, key):
    ...         a, b = key.split()
    ...         self.first = nn.Linear(a, 2, 8)
    ...         self.last = nn.Linear(b, 8, 1)
    ...
    ...     def __call__(self, x):
    ...         return self.last(ex.tanh(self.first(x)))
    >>> model = Network(ex.Key(1))
    >>> model
    Network(
      first: Linear(weight: float32[8, 2], bias: float32[8])
      last: Linear(weight: float32[1, 8], bias: float32[1])
    )
    >>> x = ex.Key(2).normal((5, 2))
    >>> grads = ex.grad(lambda model: ex.sum(model(x)))(model)
    >>> list(grads.parameters())
    ['first.weight', 'first.bias', 'last.weight', 'last.bias']
    """

    __tree_fields__: Any = ()
    __tree_static__: ClassVar[Iterable[str]] = ()
    __tree_buffers__: ClassVar[Iterable[str]] = ()
    __signature__: ClassVar[inspect.Signature]
    _defaults: ClassVar[dict[str, Any]] = {}
    _takes_mode: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fields = cls.__tree_fields__ if isinstance(cls.__tree_fields__, tuple) else ()
        static, buffers = set(cls.__tree_static__), set(cls.__tree_buffers__)
        defaults = dict(cls._defaults)
        for name, annotation in _annotations(cls).items():
            if "ClassVar" in str(annotation):
                continue
            if name not in fields:
                fields += (name,)
            given = cls.__dict__.get(name, _MISSING)
            if isinstance(given, _Field):
                (static if given.kind == "static" else buffers).add(name)
                given = given.default
            if name in cls.__dict__:
                delattr(cls, name)
            if given is not _MISSING:
                defaults[name] = given
        if not callable(cls.__dict__.get("__tree_fields__")):
            cls.__tree_fields__ = fields
        cls.__tree_static__, cls.__tree_buffers__ = frozenset(static), frozenset(buffers)
        cls._defaults = defaults
        cls.__signature__ = _signature(cls)
        if "forward" in cls.__dict__ and _is_plain(cls.forward):
            setattr(cls, "forward", _with_mode(cls.forward))
        if "__call__" in cls.__dict__:
            parameters = inspect.signature(cls.__call__).parameters.values()
            cls._takes_mode = any(
                p.name == "mode" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters
            )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not args and not kwargs and type(self).__init__ is not Module.__init__:
            return  # super().__init__() in a constructor of one's own
        names = _tree.fields(self) or ()
        if len(args) > len(names):
            raise TypeError(
                f"{type(self).__name__} has {len(names)} fields, and {len(args)} were given"
            )
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{type(self).__name__}: the field {name!r} is given twice")
            given[name] = value
        missing = [n for n in names if n not in given and n not in self._defaults]
        if missing:
            raise TypeError(f"{type(self).__name__}: the field {missing[0]!r} is missing")
        for name, value in {**self._defaults, **given}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(
                f"a {type(self).__name__} is immutable: replace({name}=…) makes another"
            )
        self._expect_field(name)
        object.__setattr__(self, name, value)

    if not TYPE_CHECKING:  # to a type checker a module has the fields that it is annotated with

        def __getattr__(self, name):
            if name in type(self)._defaults:  # of a field that a constructor has not set
                return type(self)._defaults[name]
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable")

    def _expect_field(self, name: str) -> None:
        if name not in (_tree.fields(self) or ()):
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}: fields are annotated in the class"
            )

    def __call__(self, x: Any, mode: Mode = INFERENCE) -> Any:
        """The result for `x`. A module with running statistics is called so in inference alone."""
        if type(self).forward is Module.forward:
            raise NotImplementedError(f"{type(self).__name__} defines neither __call__ nor forward")
        found = self.forward(x, mode)
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Module)):
            raise TypeError(
                f"{type(self).__name__}.forward(x, mode) returned {type(found).__name__}, expected "
                "(y, module): without running statistics define __call__(self, x, mode)"
            )
        y, module = found
        if module is not self and (mode.training or _differ(self, module)):
            raise TypeError(
                f"{type(self).__name__} has new running statistics, which would be "
                "lost: write y, module = module.forward(x, mode)"
            )
        return y

    def forward(self: M, x: Any, mode: Mode = INFERENCE) -> tuple[Any, M]:
        """The result for `x`, and the module with the running statistics that belong to the next
        step: itself, if it has none or is not being trained."""
        return (self(x, mode=mode) if self._takes_mode else self(x)), self

    @classmethod
    def of(cls: type[M], **fields: Any) -> M:
        """A module of these fields, all of them, past its constructor.

        >>> import extensor as ex
        >>> from extensor import nn
        >>> nn.Linear.of(weight=ex.ones((2, 3)), bias=None)
        Linear(weight: float64[2, 3], bias: None)
        """
        made = object.__new__(cls).replace(**fields)
        for name in _tree.fields(made) or ():
            if name not in fields:
                raise TypeError(f"{cls.__name__}: the field {name!r} is missing")
        return made

    def replace(self: M, **fields: Any) -> M:
        """A module with other values of these fields.

        >>> import extensor as ex
        >>> from extensor import nn
        >>> nn.Linear(ex.Key(1), 3, 2).replace(bias=None)
        Linear(weight: float32[2, 3], bias: None)
        """
        for name in fields:
            self._expect_field(name)
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.update(fields)
        return made

    def parameters(self) -> dict[str, Tensor]:
        """The tensors that are learnt, by name."""
        return _tree.named_leaves(self, buffers=False)

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors by name, running statistics too: what a file of the module holds.

        >>> from extensor import nn
        >>> list(nn.BatchNorm2d(3).state_dict())
        ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
        """
        return _tree.named_leaves(self)

    def load_state_dict(self: M, state: Mapping[str, Any]) -> M:
        """The module with these tensors, which must be all of its own, of the same shapes and
        dtypes."""
        leaves, structure = _tree.flatten(self)
        names = list(_tree.named_leaves(self))
        for name in state:
            if name not in names:
                raise ValueError(f"load_state_dict: {name} is not expected")
        loaded = []
        for name, leaf in zip(names, leaves):
            if name not in state:
                raise ValueError(f"load_state_dict: {name} is missing")
            new = _core.asarray(state[name])
            if new.shape != leaf.shape or new.dtype != leaf.dtype:
                raise ValueError(
                    f"load_state_dict: {name} is {_brief(new)}, expected {_brief(leaf)}"
                )
            loaded.append(new)
        made: M = _tree.unflatten(structure, loaded)
        return made

    def astype(self: M, dtype: DType | str) -> M:
        """The module with all its float tensors in another dtype."""

        def cast(x: Tensor) -> Tensor:
            return ops.cast(x, dtype) if x.dtype.is_float else x

        return _tree.map(cast, self)

    def __repr__(self) -> str:
        return _text(self, "")


def _differ(a: Module, b: Module) -> bool:
    """Whether two modules are not made of the very same tensors."""
    ours, theirs = _tree.leaves(a), _tree.leaves(b)
    return len(ours) != len(theirs) or any(x is not y for x, y in zip(ours, theirs))


def _brief(x: Tensor) -> str:
    return f"{x.dtype.name}[{', '.join(str(n) for n in x.shape)}]"


def _text(x: Any, indent: str) -> str:
    """A value in a module's text: on one line unless it holds modules."""
    if isinstance(x, _core.Tensor):
        return _brief(x)
    inner = indent + "  "
    parts: list[tuple[Any, Any]]
    if isinstance(x, Module):
        parts = [(n, getattr(x, n, "?")) for n in _tree.fields(x) or ()]
        name, ends = type(x).__name__, "()"
    elif isinstance(x, (list, tuple)) and any(isinstance(v, Module) for v in x):
        parts, name, ends = list(enumerate(x)), "", "[]"
    elif isinstance(x, dict) and any(isinstance(v, Module) for v in x.values()):
        parts, name, ends = list(x.items()), "", "{}"
    elif callable(x) and hasattr(x, "__name__"):
        return str(x.__name__)
    else:
        return repr(x)
    texts = [f"{n}: {_text(v, inner)}" for n, v in parts]
    deep = any(isinstance(v, (Module, list, tuple, dict)) and not _flat(v) for _, v in parts)
    if not deep:
        return f"{name}{ends[0]}{', '.join(texts)}{ends[1]}"
    lines = "".join(f"\n{inner}{t}" for t in texts)
    return f"{name}{ends[0]}{lines}\n{indent}{ends[1]}"


def _flat(x: Any) -> bool:
    """Whether a value holds no module."""
    if isinstance(x, Module):
        return False
    if isinstance(x, dict):
        return all(_flat(v) for v in x.values())
    return not isinstance(x, (list, tuple)) or all(_flat(v) for v in x)
