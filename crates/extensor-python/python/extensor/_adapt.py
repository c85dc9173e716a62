"""Other libraries' arrays as tensors and back, in trees: what a person's function takes and
returns.

It knows NumPy, PyTorch and JAX by the objects that it is given and imports none. It must not know
what the functions are called for.
"""

import inspect
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from . import _core, ops
from ._core import Tensor
from ._tree import _LEAF, _STAR, Structure, fields, is_static


def kind_of(x: Any) -> str | None:
    """What library an object is an array of: "extensor", "numpy", "torch", "jax", "other"; "scalar" for
    a number of NumPy's, "float" for Python's; None if it is no array (a JAX key holds no numbers)."""
    if isinstance(x, Tensor):
        return "extensor"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return "numpy"
    if numpy is not None and isinstance(x, numpy.generic):
        return "scalar"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return "torch"
    jax: Any = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "Array") and isinstance(x, jax.Array):
        return None if jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended) else "jax"
    if type(x) is float:
        return "float"
    if hasattr(x, "__dlpack__") and not isinstance(x, type):
        return "other"
    return None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The arrays of a tree, of whatever library and as they are, and its structure. Buffers of
    modules are part of the structure."""
    found: list[Any] = []
    return found, _flatten(tree, found, True, 0)


def _flatten(x: Any, found: list[Any], floats: bool, depth: int) -> Structure:
    if depth > 200:
        raise ValueError("a tree is nested more than 200 deep, or contains itself")
    library = kind_of(x)
    if library is not None and (floats or library != "float"):
        found.append(x)
        return _STAR
    kind = type(x)
    if isinstance(x, (list, tuple)):
        parts = [_flatten(v, found, floats, depth + 1) for v in x]
        return Structure(kind, getattr(x, "_fields", len(parts)), parts)
    if isinstance(x, dict):
        parts = [_flatten(v, found, floats, depth + 1) for v in x.values()]
        return Structure(kind, list(x), parts)
    names = fields(x)
    if names is None:
        return Structure(None, x, ())
    fixed = {*getattr(x, "__tree_static__", ()), *getattr(x, "__tree_buffers__", ())}
    data: dict[str, Any] = {}
    parts, moving = [], []
    for name in names:
        value = getattr(x, name)
        if name in fixed or is_static(x, name):
            data[name] = value
        else:
            moving.append(name)
            parts.append(_flatten(value, found, False, depth + 1))
    return Structure(kind, (moving, data, x), parts)


def keys(structure: Structure) -> Iterable[Any]:
    """How the parts of a structure are called."""
    if isinstance(structure.data, int):
        return range(structure.data)
    named: Iterable[Any] = structure.data
    if structure.kind is None or issubclass(structure.kind, (dict, tuple)):
        return named
    fields: Iterable[Any] = structure.data[0]
    return fields


def fits(structure: Structure, tree: Any) -> bool:
    """Whether a tree may be of a structure, by its outermost form."""
    if structure.kind is _LEAF:
        return not isinstance(tree, (tuple, list, dict))
    if structure.kind is None:
        return True
    if issubclass(structure.kind, (list, tuple)):
        return isinstance(tree, (list, tuple))
    if issubclass(structure.kind, dict):
        return isinstance(tree, dict)
    return isinstance(tree, (structure.kind, dict))


class Misfit(Exception):
    """A tree that is not of the form of a structure."""


def align(
    structure: Structure, tree: Any, found: list[Any], name: str, moving: set[int]
) -> None:
    """Adds to `found` what `tree` holds in the place of each leaf of a structure. Only None stands
    for all the leaves in its place, and only parts without a leaf in `moving` may be left out."""
    if structure.kind is _LEAF:
        found.append(tree)
        return
    if structure.kind is None:
        return
    if tree is None:
        found += [None] * leaf_count(structure)
        return
    if kind_of(tree) is not None:
        kind = structure.kind.__name__
        raise Misfit(f"the gradient for {name} is one array, and {name} is a {kind}")
    numbered = isinstance(tree, (list, tuple)) and not issubclass(structure.kind, dict)
    held = _parts(structure, tree)
    missing = []
    for number, (key, part) in enumerate(zip(keys(structure), structure.parts)):
        place: Any = number if numbered else key
        if place in held:
            align(part, held.pop(place), found, f"{name}.{key}", moving)
            continue
        count = leaf_count(part)
        if not moving.isdisjoint(range(len(found), len(found) + count)):
            missing.append(key)
        found += [None] * count
    fixed = structure.data[1] if _is_object(structure) else ()
    extra = [key for key in held if key not in fixed]
    if numbered and (missing or extra):
        size, expected = len(tree), len(structure.parts)
        raise Misfit(f"the gradient for {name} has {size} parts, and {name} has {expected}")
    if missing and extra:
        raise Misfit(f"the gradient for {name} has {extra[0]!r} and no {missing[0]!r}")
    if missing:
        raise Misfit(f"the gradient for {name} has no {missing[0]!r}")
    if extra:
        raise Misfit(f"the gradient for {name} has {extra[0]!r}, which {name} has not")


def _parts(structure: Structure, tree: Any) -> dict[Any, Any]:
    """The parts of a tree by their keys or numbers."""
    if isinstance(tree, dict):
        return dict(tree)
    if isinstance(tree, (list, tuple)):
        return dict(enumerate(tree))
    names = [key for key in keys(structure) if isinstance(key, str)]
    return {key: getattr(tree, key) for key in names if hasattr(tree, key)}


def _is_object(structure: Structure) -> bool:
    return structure.kind is not None and not issubclass(structure.kind, (list, tuple, dict))


def leaf_count(structure: Structure) -> int:
    """How many leaves a structure has."""
    return (structure.kind is _LEAF) + sum(map(leaf_count, structure.parts))


def names_of(structure: Structure, prefix: str, names: list[str]) -> None:
    """Adds to `names` what each leaf is called: "params.w"."""
    if structure.kind is _LEAF:
        names.append(prefix)
    elif structure.kind is not None:
        for key, part in zip(keys(structure), structure.parts):
            names_of(part, f"{prefix}.{key}", names)


def to_tensor(x: Any) -> Tensor:
    """A tensor of its own memory of the same values."""
    kind = kind_of(x)
    if isinstance(x, Tensor):
        return x
    if kind == "torch":
        x = x.detach().cpu().resolve_neg()
    elif kind == "scalar":
        x = sys.modules["numpy"].asarray(x)
    try:
        return _core.asarray(x) if kind == "float" else _core.asarray(x, copy=True)
    except BufferError:
        dtype = getattr(x, "dtype", "?")
        raise TypeError(f"there are no derivatives by arrays of dtype {dtype} here") from None


def from_tensor(tensor: Tensor, like: Any) -> Any:
    """The tensor's values in an array of the library that `like` is of, free to be changed."""
    kind = kind_of(like)
    if kind == "numpy":
        return sys.modules["numpy"].array(tensor)
    if kind == "scalar":
        return sys.modules["numpy"].asarray(tensor)[()]
    if kind == "torch":
        torch = sys.modules["torch"]
        return torch.from_dlpack(tensor.copy()).clone().to(like.device)
    if kind == "jax":
        return sys.modules["jax"].numpy.from_dlpack(tensor) if is_float(tensor) else like
    if kind == "float":
        return float(tensor)
    if kind == "other" and hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(tensor)
    return tensor


def change(given: Any, tensor: Tensor) -> tuple[Any, Any, Any] | None:
    """Where an array made of a tensor no longer has its values: an index (None: its shape), what
    was there and what is there; or None."""
    kind = kind_of(given)
    if kind not in ("numpy", "torch"):
        return None
    if tuple(given.shape) != tensor.shape:
        return None, tensor.shape, tuple(given.shape)
    before = from_tensor(tensor, given)
    after = given.detach() if kind == "torch" else given
    moved = ~((after == before) | ((after != after) & (before != before)))
    if not moved.any():
        return None
    if kind == "torch":
        index = tuple(moved.nonzero()[0].tolist())
    else:
        index = tuple(int(i[0]) for i in moved.nonzero())
    return index, before[index].item(), after[index].item()


def name_of(f: Any) -> str:
    """What a function is called."""
    name = getattr(f, "__name__", None) or getattr(getattr(f, "func", None), "__name__", None)
    return "f" if name == "<lambda>" else str(name or type(f).__name__)


def parameters(f: Any, count: int) -> list[str]:
    """What the first arguments of a function are called."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = parameter_names(f, kinds)
    return [names[i] if i < len(names) else f"input {i}" for i in range(count)]


def parameter_names(f: Any, kinds: Sequence[Any] | None = None) -> list[str]:
    """What the arguments of a function of these kinds are called."""
    names: list[str] = []
    # A layer's call says nothing, its forward does.
    for function in (f, getattr(f, "forward", None)):
        if function is None:
            continue
        try:
            found = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            continue
        names = names or [p.name for p in found if kinds is None or p.kind in kinds]
    return names


def dtype_name(tensor: Any) -> str:
    """"float32"."""
    return str(tensor.dtype).rpartition(".")[2]


def is_float(tensor: Any) -> bool:
    """Whether there are derivatives by it."""
    return "float" in dtype_name(tensor)


def not_finite(tensor: Tensor) -> tuple[tuple[int, ...], float] | None:
    """The first element that is infinite or NaN, as its index and value, or None."""
    if tensor.size == 0:
        return None
    wide = _core.asarray(tensor, dtype="float64")
    total = float(ops.sum(wide - wide))
    if total == 0:
        return None
    flat = ops.reshape(wide, (wide.size,)).tolist()
    at = next(i for i, v in enumerate(flat) if v - v != 0)
    value, index = flat[at], list[int]()
    for size in reversed(tensor.shape):
        at, k = divmod(at, size)
        index.insert(0, k)
    return tuple(index), value
