"""Trees of tensors: tensors in lists, tuples, dicts, dataclasses and modules, nested in any way.

A tree is taken apart into its leaves (the tensors) and a structure, and put together again from the
structure and other leaves. It must not know what is done with the leaves.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from . import _core
from ._core import Key, Tensor

__all__ = ["flatten", "unflatten", "map", "leaves", "named_leaves", "Structure"]

T = TypeVar("T")


class _LEAF:
    """The kind of a leaf."""


class _ITEM:
    """The kind of a leaf whose place holds a Python number, not a tensor."""


class Structure:
    """What a tree is beside its leaves; two are equal if trees of them have the same form."""

    __slots__ = ("kind", "data", "parts")

    def __init__(self, kind: type[Any] | None, data: Any, parts: "Sequence[Structure]") -> None:
        self.kind, self.data, self.parts = kind, data, parts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        if self.kind is not other.kind or len(self.parts) != len(other.parts):
            return False
        if self.kind is not None and not _same(self._form(), other._form()):
            return False
        return all(a == b for a, b in zip(self.parts, other.parts))

    def _form(self) -> Any:
        # Of a module or dataclass, the fields; not the object they were taken from.
        fielded = isinstance(self.data, tuple) and len(self.data) == 3 and isinstance(self.data[1], dict)
        return self.data[:2] if fielded else self.data

    __hash__ = None  # type: ignore[assignment]

    def names(self) -> list[str]:
        """The names of the leaves, in order."""
        names: list[str] = []
        _names(self, "", names)
        return names

    def __repr__(self) -> str:
        if self.kind is _LEAF or self.kind is _ITEM:
            return "*"
        if self.kind is None:
            return repr(self.data)
        return f"{self.kind.__name__}({', '.join(repr(part) for part in self.parts)})"


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:
        return a is b


_STAR = Structure(_LEAF, None, ())
_NUMBER = Structure(_ITEM, None, ())


def _is_array(x: Any) -> bool:
    return hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__")


def fields(x: Any) -> Sequence[str] | None:
    """The names of the fields of a dataclass or a module, or None."""
    names = getattr(x, "__tree_fields__", None)
    if names is not None and not isinstance(x, type):
        found: Sequence[str] = names() if callable(names) else names
        return found
    if hasattr(type(x), "__dataclass_fields__"):
        import dataclasses  # whoever made the class has imported it already

        return [f.name for f in dataclasses.fields(x)]
    return None


def is_static(x: Any, name: str) -> bool:
    field = getattr(type(x), "__dataclass_fields__", {}).get(name)
    return field is not None and bool(field.metadata.get("static"))


def live_fields(x: Any) -> Sequence[str]:
    """The names of an object's numbers that change from call to call, such as the steps that an
    optimiser has made: to a compiled function they are leaves, to everybody else Python numbers."""
    found: Sequence[str] = getattr(type(x), "__tree_live__", ())
    return found


def flatten(tree: Any, *, floats: bool = True, buffers: bool = True) -> tuple[list[Tensor], Structure]:
    """The leaves of a tree and its structure.

    Arrays of other libraries become tensors; so do Python floats, unless they are a module's or a
    dataclass' fields or `floats` is false. Everything else is part of the structure. With
    `buffers=False` the buffers of modules are part of the structure too.
    """
    found: list[Tensor] = []
    return found, _flatten(tree, found, floats, buffers, _IGNORED, 0)


def flatten_live(tree: Any, *, made: bool = False) -> tuple[list[Any], Structure]:
    """All that may change from call to call of a compiled function, and the structure: tensors, keys, and
    the numbers that objects call live, as tensors. Of what such a function has `made`, they are leaves
    where they are tensors, which `unflatten` makes numbers of."""
    found: list[Any] = []
    return found, _flatten(tree, found, False, True, _MADE if made else _GIVEN, 0)


def flatten_examples(tree: Any) -> tuple[list[Any], Structure]:
    """The tensors and keys of a tree, which differ between the examples that a function is mapped over,
    and the structure."""
    found: list[Any] = []
    return found, _flatten(tree, found, False, True, _KEYS, 0)


#: What the live numbers of objects are: no leaves, leaves, leaves if they are tensors, no leaves though
#: keys are.
_IGNORED, _GIVEN, _MADE, _KEYS = range(4)


def _flatten(x: Any, found: list[Any], floats: bool, buffers: bool, live: int, depth: int) -> Structure:
    if isinstance(x, Tensor) or (live and isinstance(x, Key)):
        found.append(x)
        return _STAR
    if depth > 200:
        raise ValueError("a tree is nested more than 200 deep, or contains itself")
    kind = type(x)
    if kind is list or kind is tuple:
        parts = [_flatten(v, found, floats, buffers, live, depth + 1) for v in x]
        return Structure(kind, len(parts), parts)
    if isinstance(x, dict):
        keys = list(x)
        parts = [_flatten(x[k], found, floats, buffers, live, depth + 1) for k in keys]
        return Structure(kind, keys, parts)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        parts = [_flatten(v, found, floats, buffers, live, depth + 1) for v in x]
        return Structure(kind, x._fields, parts)
    names = fields(x)
    if names is not None:
        static = set(getattr(x, "__tree_static__", ()))
        held = set(getattr(x, "__tree_buffers__", ())) if not buffers else set()
        data: dict[str, Any] = {}
        parts, moving = [], []
        for name in names:
            value = getattr(x, name)
            if name in static or name in held or is_static(x, name):
                data[name] = value
                continue
            part = _flatten(value, found, False, buffers, live, depth + 1)
            moving.append(name)
            parts.append(part)
        for name in live_fields(x) if live in (_GIVEN, _MADE) else ():
            moving.append(name)
            parts.append(_flatten_number(getattr(x, name), found, live))
        return Structure(kind, (moving, data, x), parts)
    if floats and kind is float:
        found.append(_core.asarray(x))
        return _STAR
    if _is_array(x):
        found.append(_core.asarray(x))
        return _STAR
    return Structure(None, x, ())


def _flatten_number(x: Any, found: list[Any], live: int) -> Structure:
    if live == _MADE and not isinstance(x, Tensor):
        return Structure(None, x, ())
    found.append(tensor_of_number(x))
    return _NUMBER if live == _MADE else _STAR


#: Stands for no number where there may be one: a NaN that no arithmetic makes.
_NO_NUMBER = struct.unpack("<d", b"\x4e\x6f\x6e\x65\x00\x00\xf8\x7f")[0]


def tensor_of_number(x: Any) -> Tensor:
    """A number as a tensor; None is one too."""
    return _core.asarray(_NO_NUMBER if x is None else x)


def _number_of_tensor(x: Tensor) -> Any:
    found = x.item()
    nothing = isinstance(found, float) and struct.pack("<d", found) == struct.pack("<d", _NO_NUMBER)
    return None if nothing else found


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves."""
    left = iter(leaves)
    tree = _unflatten(structure, left)
    for _ in left:
        raise ValueError("there are more leaves than the structure has places")
    return tree


def _unflatten(s: Structure, leaves: Iterator[Any]) -> Any:
    if s.kind is _LEAF or s.kind is _ITEM:
        try:
            leaf = next(leaves)
        except StopIteration:
            raise ValueError("there are fewer leaves than the structure has places") from None
        return _number_of_tensor(leaf) if s.kind is _ITEM else leaf
    if s.kind is None:
        return s.data
    parts = [_unflatten(part, leaves) for part in s.parts]
    if s.kind is list or s.kind is tuple:
        return s.kind(parts)
    if issubclass(s.kind, dict):
        made = zip(s.data, parts)
        if s.kind is dict:
            return dict(made)
        try:
            return s.kind(made)
        except TypeError:
            return dict(zip(s.data, parts))
    if issubclass(s.kind, tuple):
        return s.kind(*parts)
    moving, _, original = s.data
    made = object.__new__(s.kind)
    own: dict[str, Any] = getattr(made, "__dict__", {})
    own.update(getattr(original, "__dict__", {}))
    for name in fields(original) or ():
        if name not in own:
            object.__setattr__(made, name, getattr(original, name))
    for name, part in zip(moving, parts):
        object.__setattr__(made, name, part)
    return made


def map(f: Callable[..., Any], tree: T, *others: Any) -> T:
    """The tree of `f` of each leaf (and of the leaves in its place in other trees of the same form)."""
    first, structure = flatten(tree)
    rest = []
    for other in others:
        more, form = flatten(other)
        if len(more) != len(first):
            raise ValueError(f"trees differ in form: {structure} and {form}")
        rest.append(more)
    made: T = unflatten(structure, [f(*xs) for xs in zip(first, *rest)])
    return made


def leaves(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in order."""
    return flatten(tree)[0]


def named_leaves(tree: Any, *, buffers: bool = True) -> dict[str, Tensor]:
    """The tensors of a tree with their names ("layers.0.weight"), in order, as a dict; with
    `buffers=False` without the buffers of modules. The name of a tree that is one tensor is empty."""
    found, structure = flatten(tree, buffers=buffers)
    return dict(zip(structure.names(), found))


def _names(s: Structure, prefix: str, names: list[str]) -> None:
    if s.kind is _LEAF or s.kind is _ITEM:
        names.append(prefix[:-1])
        return
    if s.kind is None:
        return
    for key, part in zip(part_names(s), s.parts):
        _names(part, f"{prefix}{key}.", names)


def part_names(s: Structure) -> Iterable[Any]:
    """What the parts of a structure that is neither a leaf nor a value are called."""
    assert s.kind is not None
    if s.kind is list or s.kind is tuple:
        return range(len(s.parts))
    names: Iterable[Any] = s.data if issubclass(s.kind, (dict, tuple)) else s.data[0]
    return names
