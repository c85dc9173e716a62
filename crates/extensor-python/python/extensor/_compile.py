"""Functions that are recorded at their first call and then only run.

This module takes arguments apart into what changes from call to call (tensors, keys) and what a program
is recorded for (everything else), keeps the programs, and puts results together. Recording and running
are the Rust library's.
"""

import functools
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from . import _core, _tree
from ._core import Key, Tensor

__all__ = ["Compiled", "compile"]

P = ParamSpec("P")
Y = TypeVar("Y")

#: Values that are compared by type and value, as they are.
_PLAIN = frozenset({int, str, bool, bytes, type(None), type(Ellipsis), complex, _core.DType, type})


class _Recording(threading.local):
    """Whether this thread is recording a function."""

    now = False


_recording = _Recording()


class _Outside(Exception):
    """A function that is recorded uses a tensor from outside that is being differentiated or recorded."""


class _Same:
    """An object, of which nothing is equal but itself."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


class _Parts:
    """Arguments taken apart: the tensors, the keys, and all that a program is recorded for beside
    them."""

    __slots__ = ("tensors", "keys", "rest")

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.keys: list[Key] = []
        self.rest: list[Any] = []

    def add(self, x: Any, depth: int = 0) -> None:
        """Takes a tree apart, in the order of `_tree.flatten_live`."""
        kind = type(x)
        rest = self.rest
        rest.append(kind)
        if kind is Tensor:
            self.tensors.append(x)
        elif kind is Key:
            self.keys.append(x)
        elif kind in _PLAIN:
            rest.append(x)
        elif kind is float:
            rest.append(x.hex())  # -0.0 is not 0.0, and a NaN is itself
        elif depth > 200:
            raise ValueError("a tree is nested more than 200 deep, or contains itself")
        elif kind is list or kind is tuple:
            rest.append(len(x))
            for value in x:
                self.add(value, depth + 1)
        elif isinstance(x, dict):
            rest.append(tuple(x))
            for value in x.values():
                self.add(value, depth + 1)
        elif isinstance(x, tuple) and hasattr(x, "_fields"):
            for value in x:
                self.add(value, depth + 1)
        else:
            self._add_object(x, depth)

    def _add_object(self, x: Any, depth: int) -> None:
        names = _tree.fields(x)
        if names is None:
            if _tree._is_array(x):
                self.rest[-1] = Tensor
                self.tensors.append(_core.asarray(x))
            else:
                self.rest.append(x)
            return
        self.rest.append(names if type(names) is tuple else tuple(names))
        static = _static_names(type(x))
        for name in names:
            value = getattr(x, name)
            if name in static:
                self.rest.append(_static(value, depth + 1))
            else:
                self.add(value, depth + 1)
        for name in _tree.live_fields(x):
            self.tensors.append(_tree.tensor_of_number(getattr(x, name)))


#: What `_static_names` has found.
_known_static: dict[type[Any], frozenset[str]] = {}


def _static_names(kind: type[Any]) -> frozenset[str]:
    """The fields of a module or a dataclass that are no trees."""
    found = _known_static.get(kind)
    if found is None:
        fields = getattr(kind, "__dataclass_fields__", {})
        marked = (name for name, field in fields.items() if field.metadata.get("static"))
        found = frozenset((*getattr(kind, "__tree_static__", ()), *marked))
        if len(_known_static) >= 1024:  # classes that are made in a loop are not kept
            _known_static.clear()
        _known_static[kind] = found
    return found


def _static(x: Any, depth: int) -> Any:
    """What a field that is marked static is compared by."""
    if type(x) in _PLAIN:
        return type(x), x
    if depth > 200:
        raise ValueError("a tree is nested more than 200 deep, or contains itself")
    if isinstance(x, (list, tuple)):
        return type(x), tuple(_static(value, depth + 1) for value in x)
    if isinstance(x, dict):
        return type(x), tuple((key, _static(value, depth + 1)) for key, value in x.items())
    if isinstance(x, float):
        return type(x), x.hex()
    names = _tree.fields(x)
    if names is not None:
        return type(x), tuple((name, _static(getattr(x, name), depth + 1)) for name in names)
    return (type(x), _Same(x) if type(x).__hash__ is None else x)


def _refuse(rest: list[Any]) -> NoReturn:
    """Raises the error of an argument that is not hashable."""
    for part in rest:
        try:
            hash(part)
        except TypeError:
            name = type(part).__name__
            raise TypeError(
                f"compile: an argument of type {name} cannot be compared with that of another call, since it is "
                "not hashable; pass its numbers as tensors, the rest as tuples, or make it a dataclass"
            ) from None
    raise TypeError("compile: an argument is not hashable")


class _Program:
    """What was recorded for arguments of one kind."""

    __slots__ = ("run", "about")

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found, structure = _tree.flatten_live((args, kwargs))
        where = [type(x) is Key for x in found]
        self.about = _about(found, structure)
        del found
        # Gone when it is recorded: the numbers of the first call are not kept.
        held: list[_tree.Structure] = [structure]
        del structure

        def flat(tensors: list[Tensor], keys: list[Key]) -> tuple[list[Tensor], list[Key], Any]:
            outer, _recording.now = _recording.now, True
            try:
                args, kwargs = _tree.unflatten(held[0], _merged(where, tensors, keys))
                made, form = _tree.flatten_live(f(*args, **kwargs), made=True)
            finally:
                _recording.now = outer
            if any(type(x) is Tensor and x.is_traced for x in made):
                raise _Outside
            held.clear()
            kinds = [type(x) is Key for x in made]
            mixed = kinds if any(kinds) else None
            return (
                [x for x in made if type(x) is not Key], [x for x in made if type(x) is Key], (mixed, form),
            )  # fmt: skip

        self.run = _core.Program(flat)

    def __call__(self, parts: _Parts) -> Any:
        tensors, keys, (mixed, form) = self.run(parts.tensors, parts.keys)
        return _tree.unflatten(form, tensors if mixed is None else _merged(mixed, tensors, keys))


def _merged(where: list[bool], tensors: list[Tensor], keys: list[Key]) -> list[Any]:
    """Tensors and keys in one list, a key where there is one."""
    left, right = iter(tensors), iter(keys)
    return [next(right) if is_key else next(left) for is_key in where]


def _about(found: list[Any], structure: _tree.Structure) -> dict[str, str]:
    """What the arguments are, by name: `{"0": "float32[3]", "n": "2"}`."""
    about: dict[str, str] = {}
    left = iter(found)

    def look(s: _tree.Structure, name: str) -> None:
        if s.kind is None:
            about[name] = repr(s.data)[:40]
        elif s.kind is _tree._LEAF:
            x = next(left)
            sizes = ", ".join(map(str, getattr(x, "shape", ())))
            about[name] = "a key" if type(x) is Key else f"{x.dtype.name}[{sizes}]"
        else:
            for key, part in zip(_tree.part_names(s), s.parts):
                look(part, f"{name}.{key}" if name else str(key))

    for part in structure.parts:
        look(part, "")
    return about


def _line(about: dict[str, str]) -> str:
    said = [f"{name}: {what}" for name, what in about.items()]
    more = f", and {len(said) - 6} more" if len(said) > 6 else ""
    return ", ".join(said[:6]) + more


class Compiled(Generic[P, Y]):
    """What `compile` returns: a function with the same arguments and results."""

    __wrapped__: Callable[P, Y]

    def __init__(self, f: Callable[P, Y], limit: int = 16) -> None:
        if not callable(f):
            raise TypeError(f"compile takes a function, not {type(f).__name__}")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"compile: limit is {limit!r}, expected a whole number from 1 up")
        functools.update_wrapper(self, f)
        self._f, self._limit = f, limit
        self._programs: dict[Any, _Program] = {}
        self._lock = threading.RLock()
        self._recorded, self._warned = 0, False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Y:
        if _recording.now:
            return self._f(*args, **kwargs)
        parts = _Parts()
        parts.add(args)
        named: dict[str, Any] = kwargs
        if kwargs:
            named = {name: kwargs[name] for name in sorted(kwargs)}
            parts.add(named)
        specs = _core.signature(parts.tensors, parts.keys)
        if specs is None:
            return self._f(*args, **kwargs)
        signature = (specs, tuple(parts.rest))
        try:
            hash(signature)
        except TypeError:
            _refuse(parts.rest)
        program = self._find(signature)
        if program is not None:
            found: Y = program(parts)
            return found
        program = _Program(self._f, args, named)
        try:
            found = program(parts)
        except _Outside:
            return self._f(*args, **kwargs)
        self._keep(signature, program)
        return found

    def _find(self, signature: Any) -> _Program | None:
        with self._lock:
            program = self._programs.pop(signature, None)
            if program is not None:
                self._programs[signature] = program  # the last one used is the last to go
            return program

    def _keep(self, signature: Any, program: _Program) -> None:
        before = None
        with self._lock:
            self._recorded += 1
            if signature not in self._programs:
                self._programs[signature] = program
            while len(self._programs) > self._limit:
                self._programs.pop(next(iter(self._programs)))
                if not self._warned:
                    self._warned = True
                    before = list(self._programs.values())[-2:-1]
        if before is not None:
            self._warn(before[0].about if before else {}, program.about)

    def _warn(self, before: dict[str, str], now: dict[str, str]) -> None:
        changed = [n for n in now if before.get(n, now[n]) != now[n]]
        what = f": {changed[0]} was {before[changed[0]]} and is {now[changed[0]]}" if changed else ""
        name = getattr(self, "__qualname__", "a function")
        warnings.warn(
            f"{name} has been recorded {self._recorded} times, for arguments that differ{what}; {self._limit} "
            "programs are kept. Recording takes longer than a call: pass numbers that change as tensors, bring "
            "tensors to few shapes, or raise limit",
            RuntimeWarning, stacklevel=4,
        )  # fmt: skip

    @property
    def cache_size(self) -> int:
        """How many programs are kept."""
        return len(self._programs)

    @property
    def limit(self) -> int:
        """How many programs are kept at most: the one not used for longest goes."""
        return self._limit

    def clear(self) -> None:
        """Forgets all programs: what a function has from elsewhere than its arguments is looked at again."""
        with self._lock:
            self._programs.clear()
            self._recorded, self._warned = 0, False

    def _all(self) -> list[_Program]:
        with self._lock:
            return list(self._programs.values())

    def explain(self) -> str:
        """What has been recorded, the last used last: for each kind of arguments the kernels, their
        formulas, what they read and write, and how much memory they need.

        >>> import extensor as ex
        >>> f = ex.compile(lambda x: ex.sum(ex.tanh(x)))
        >>> value = f(ex.asarray([1.0, 2.0]))
        >>> print(f.explain().splitlines()[0])
        for 0: float64[2]
        """
        programs = self._all()
        if not programs:
            return "nothing is recorded yet: call the function first"
        return "\n\n".join(f"for {_line(p.about) or 'no arguments'}\n{p.run.explain().rstrip()}" for p in programs)

    def graph(self) -> str:
        """What was used last, drawn: an SVG with a box for each kernel and a line for each value that goes
        from one to another."""
        programs = self._all()
        if not programs:
            raise ValueError("graph: nothing is recorded yet: call the function first")
        return programs[-1].run.graph()

    @overload
    def __get__(self, instance: None, owner: Any = None) -> "Compiled[P, Y]": ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> Callable[..., Y]: ...
    def __get__(self, instance: object, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        count = self.cache_size
        name = getattr(self, "__qualname__", None) or repr(self._f)
        return f"<extensor.compile({name}), {count} program{'' if count == 1 else 's'}>"

    def __copy__(self) -> "Compiled[P, Y]":
        return self

    def __deepcopy__(self, memo: Any) -> "Compiled[P, Y]":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a compiled function cannot be pickled: pickle the function, and compile it where it is loaded")


@overload
def compile(f: Callable[P, Y], *, limit: int = 16) -> Compiled[P, Y]: ...
@overload
def compile(f: None = None, *, limit: int = 16) -> Callable[[Callable[P, Y]], Compiled[P, Y]]: ...
def compile(f: Any = None, *, limit: int = 16) -> Any:
    """The function, recorded at its first call for arguments of some kind and then only run: the same
    results, bit for bit, in memory that was planned before. Also a decorator, with options or without.

    Recorded is what the function does to tensors: operations, derivatives of any order, steps of
    optimisers. Tensors, arrays and keys among the arguments, in trees of any form, and the steps that
    an optimiser's state counts, are the program's inputs; whatever else is among them (Python numbers,
    strings, settings) belongs to what it is recorded for, and another value is recorded again. What
    the function does in Python is done when it is recorded, and what it has from elsewhere than its
    arguments stays what it was then. To read a number of a tensor in it (`float(x)`, `if x:`) is an
    error that names the line.

    The `limit` programs last used are kept. Within a function that is differentiated or compiled
    itself, a call is a call of the function.

    >>> import extensor as ex
    >>> @ex.compile
    ... def slope(x):
    ...     return ex.grad(lambda x: ex.sum(ex.tanh(x) * x))(x)
    >>> slope(ex.asarray([0.0, 1.0]))
    Tensor([0.0000, 1.1816], dtype=float64)
    >>> slope(ex.asarray([0.5, -0.5])).shape, slope.cache_size
    ((2,), 1)
    """
    if f is None:
        return functools.partial(compile, limit=limit)
    return Compiled(f, limit)
