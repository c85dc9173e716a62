"""What an entry of the comparison is, and how our functions are found.

It must not know any particular operation. A function is looked for by its name, in the catalogue first; a keyword that
it does not have is looked for by what else it may be called. Nothing is skipped: what is not there is `Missing`,
and reported.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import extensor as ex


class Missing(Exception):
    """The package has no such function, or the function no such option."""


@dataclass
class Call:
    """One call: its tensors, and how each library is called with them."""

    #: float64, int64 or bool, in the order in which both functions take them.
    inputs: list
    ours: Callable
    theirs: Callable
    #: The parameters, in words.
    text: str = ""
    #: How many derivatives are compared.
    order: int = 2
    #: The inputs differentiated by; None is all floats.
    moving: tuple | None = None
    #: Whether values are compared in float32 too, where rounding must not choose another branch.
    single: bool = True
    #: Whether `vmap` may map it: its result's shape depends on shapes alone.
    mapped: bool = True
    #: Whether second derivatives are taken by differences of PyTorch's gradients, where it has none of its own.
    differences: bool = False

    def __post_init__(self):
        self.inputs = [np.asarray(x) for x in self.inputs]
        floats = [i for i, x in enumerate(self.inputs) if x.dtype == np.float64]
        self.moving = tuple(floats) if self.moving is None else tuple(self.moving)


@dataclass
class Entry:
    name: str
    area: str
    draw: Callable
    #: The names under which our function may be found; the first that exists is called.
    names: tuple
    new: bool = True


#: All of them, by name.
ENTRIES: dict[str, Entry] = {}


def entry(name, *others, area, new=True):
    """Adds an entry: a function that draws a call from a `Draw`, with our function as its second argument."""

    def add(draw):
        if name in ENTRIES:
            raise SystemExit(f"two entries are called {name!r}")
        ENTRIES[name] = Entry(name, area, draw, (name, *others), new)
        return draw

    return add


def present(name):
    """Our function of this name, or None."""
    spaces = [ex.ops, ex, *(s for s in (getattr(ex, "linalg", None), getattr(ex, "special", None)) if s is not None)]
    for space in spaces:
        found = vars(space).get(name)
        if found is not None and callable(found):
            return found
    return None


#: What a parameter may be called: the first is what entries say.
SYNONYMS = [
    ("axis", "axes", "dim", "dims"),
    ("keepdims", "keepdim"),
    ("k", "offset", "diagonal"),
    ("ord", "p", "order"),
    ("p", "ord"),
    ("n", "order", "exponent", "k"),
    ("eps", "epsilon"),
    ("reduce", "reduction", "mode"),
    ("threshold", "lambd", "lam"),
    ("interpolation", "method"),
    ("correction", "ddof"),
    ("size", "output_size"),
    ("output_size", "size"),
    ("weights", "weight"),
    ("unitriangular", "unit_diagonal"),
]


def ours(*names):
    """Our function under the first of these names that exists; None among keywords is "not given"."""

    def call(*args, **kwargs):
        for name in names:
            function = present(name)
            if function is not None:
                return function(*args, **fitted(name, function, kwargs))
        raise Missing(names[0])

    return call


def with_indices(*names):
    """The same, with what an operation finds beside its result: which element each is."""

    def call(*args, **kwargs):
        for name in names:
            function = present(name)
            if function is not None:
                info = getattr(function, "info", {})
                both = function.with_auxiliary if info.get("auxiliary") else function
                return both(*args, **fitted(name, function, kwargs))
        raise Missing(names[0])

    return call


def fitted(name, function, kwargs):
    """The keywords by the names that the function has for them."""
    given = {key: value for key, value in kwargs.items() if value is not None}
    if not given:
        return given
    known = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return given
    made = {}
    for key, value in given.items():
        words = [key, *(w for group in SYNONYMS if group[0] == key for w in group)]
        word = next((w for w in words if w in known and w not in made and (w == key or w not in given)), None)
        if word is None:
            raise Missing(f"{name}({key}=…)")
        made[word] = value
    return made


def words(**parameters):
    """The parameters in words, for reports."""
    return ", ".join(f"{key}={value!r}" for key, value in parameters.items() if value is not None)
