"""Trees of tensors: tensors in lists, tuples, dicts, dataclasses and modules, nested in any way.

A tree is taken apart into its leaves (the tensors) and a structure, and put together again from the
structure and other leaves. It must not know what is done with the leaves.
"""

from . import _core

__all__ = ["flatten", "unflatten", "map", "leaves", "named_leaves", "Structure"]

Tensor = _core.Tensor
_LEAF = object()


class Structure:
    """What a tree is beside its leaves; two are equal if trees of them have the same form."""

    __slots__ = ("kind", "data", "parts")

    def __init__(self, kind, data, parts):
        self.kind, self.data, self.parts = kind, data, parts

    def __eq__(self, other):
        if not isinstance(other, Structure):
            return NotImplemented
        if self.kind is not other.kind or len(self.parts) != len(other.parts):
            return False
        if self.kind is not None and not _same(self._form(), other._form()):
            return False
        return all(a == b for a, b in zip(self.parts, other.parts))

    def _form(self):
        # Of a module or dataclass, the fields; not the object they were taken from.
        fielded = isinstance(self.data, tuple) and len(self.data) == 3 and isinstance(self.data[1], dict)
        return self.data[:2] if fielded else self.data

    __hash__ = None  # type: ignore[assignment]

    def names(self):
        """The names of the leaves, in order."""
        names = []
        _names(self, "", names)
        return names

    def __repr__(self):
        if self.kind is _LEAF:
            return "*"
        if self.kind is None:
            return repr(self.data)
        return f"{self.kind.__name__}({', '.join(map_list(repr, self.parts))})"


def map_list(f, items):
    return [f(item) for item in items]


def _same(a, b):
    try:
        return bool(a == b)
    except Exception:
        return a is b


_STAR = Structure(_LEAF, None, ())


def _is_array(x):
    return hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__")


def _fields(x):
    """The names of the fields of a dataclass or a module, or None."""
    names = getattr(x, "__tree_fields__", None)
    if names is not None and not isinstance(x, type):
        return names() if callable(names) else names
    if hasattr(type(x), "__dataclass_fields__"):
        import dataclasses  # whoever made the class has imported it already

        return [f.name for f in dataclasses.fields(x)]
    return None


def _is_static(x, name):
    field = getattr(type(x), "__dataclass_fields__", {}).get(name)
    return field is not None and bool(field.metadata.get("static"))


def flatten(tree, *, floats=True, buffers=True):
    """The leaves of a tree and its structure.

    Arrays of other libraries become tensors; so do Python floats, unless they are a module's or a
    dataclass' fields or `floats` is false. Everything else is part of the structure. With
    `buffers=False` the buffers of modules are part of the structure too.
    """
    found = []
    return found, _flatten(tree, found, floats, buffers, 0)


def _flatten(x, found, floats, buffers, depth):
    if isinstance(x, Tensor):
        found.append(x)
        return _STAR
    if depth > 200:
        raise ValueError("a tree is nested more than 200 deep, or contains itself")
    kind = type(x)
    if kind is list or kind is tuple:
        parts = [_flatten(v, found, floats, buffers, depth + 1) for v in x]
        return Structure(kind, len(parts), parts)
    if isinstance(x, dict):
        keys = list(x)
        parts = [_flatten(x[k], found, floats, buffers, depth + 1) for k in keys]
        return Structure(kind, keys, parts)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        parts = [_flatten(v, found, floats, buffers, depth + 1) for v in x]
        return Structure(kind, x._fields, parts)
    names = _fields(x)
    if names is not None:
        static = set(getattr(x, "__tree_static__", ()))
        held = set(getattr(x, "__tree_buffers__", ())) if not buffers else set()
        data, parts, moving = {}, [], []
        for name in names:
            value = getattr(x, name)
            if name in static or name in held or _is_static(x, name):
                data[name] = value
                continue
            part = _flatten(value, found, False, buffers, depth + 1)
            moving.append(name)
            parts.append(part)
        return Structure(kind, (moving, data, x), parts)
    if floats and kind is float:
        found.append(_core.asarray(x))
        return _STAR
    if _is_array(x):
        found.append(_core.asarray(x))
        return _STAR
    return Structure(None, x, ())


def unflatten(structure, leaves):
    """The tree of a structure with these leaves."""
    leaves = iter(leaves)
    tree = _unflatten(structure, leaves)
    for _ in leaves:
        raise ValueError("there are more leaves than the structure has places")
    return tree


def _unflatten(s, leaves):
    if s.kind is _LEAF:
        try:
            return next(leaves)
        except StopIteration:
            raise ValueError("there are fewer leaves than the structure has places") from None
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
    if hasattr(original, "__dict__"):
        for name, value in original.__dict__.items():
            object.__setattr__(made, name, value)
    for name in _fields(original):
        object.__setattr__(made, name, getattr(original, name))
    for name, part in zip(moving, parts):
        object.__setattr__(made, name, part)
    return made


def map(f, tree, *others):
    """The tree of `f` of each leaf (and of the leaves in its place in other trees of the same form)."""
    first, structure = flatten(tree)
    rest = []
    for other in others:
        more, form = flatten(other)
        if len(more) != len(first):
            raise ValueError(f"trees differ in form: {structure} and {form}")
        rest.append(more)
    return unflatten(structure, [f(*xs) for xs in zip(first, *rest)])


def leaves(tree):
    """The tensors of a tree, in order."""
    return flatten(tree)[0]


def named_leaves(tree, *, buffers=True):
    """The tensors of a tree with their names ("layers.0.weight"), in order, as a dict; with
    `buffers=False` without the buffers of modules. The name of a tree that is one tensor is empty."""
    found, structure = flatten(tree, buffers=buffers)
    return dict(zip(structure.names(), found))


def _names(s, prefix, names):
    if s.kind is _LEAF:
        names.append(prefix[:-1])
        return
    if s.kind is None:
        return
    if s.kind is list or s.kind is tuple:
        keys = range(len(s.parts))
    elif issubclass(s.kind, dict) or issubclass(s.kind, tuple):
        keys = s.data
    else:
        keys = s.data[0]
    for key, part in zip(keys, s.parts):
        _names(part, f"{prefix}{key}.", names)
