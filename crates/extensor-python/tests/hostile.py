"""Random calls with hostile arguments, as a program: `python hostile.py SEED CALLS LOG [THREADS]`.

Every callable of the package is called: with nonsense, and with golden cases of which one or two
arguments were replaced by nonsense. Only exceptions may come of it. What is being called stands in
the file LOG, so that whoever started the program knows what ended it.
"""

import array
import collections
import os
import random
import resource
import sys
import tempfile
import threading
import traceback
import warnings

import golden
import numpy as np

import extensor as ex

SIZES = [2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**70, 10**40]
INTS = [0, 1, 2, 3, 4, 5, 7, -1, -2, -3, -4, -100] * 3 + SIZES + [-n for n in SIZES]
FLOATS = [0.0, -0.0, 0.5, -2.0, 1e-5, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324]
TEXTS = ["", "none", "mean", "sum", "float32", "f64", "tanh", "\0", "é" * 300, "\ud800", "cpu", "x"]


class Raises:
    """An object that raises whatever is asked of it."""

    def _raise(self, *args, **kwargs):
        raise random.choice([RuntimeError, KeyError, ValueError, StopIteration])("hostile")

    __index__ = __len__ = __getitem__ = __iter__ = __float__ = __bool__ = __eq__ = _raise
    __call__ = __array__ = __dlpack__ = __dlpack_device__ = __repr__ = __contains__ = _raise
    __hash__ = None

    @property
    def __array_interface__(self):
        self._raise()


class Lies:
    """An object that is not what it says."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    __len__ = __float__ = __bool__ = __iter__ = __next__ = __index__

    def __getitem__(self, key):
        return self.value

    def __array__(self, *args, **kwargs):
        return self.value

    __dlpack__ = __dlpack_device__ = __tree_fields__ = __array__

    @property
    def __array_interface__(self):
        return self.value


class Lengthy:
    """A sequence that says it is longer than it is."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if i > 3:
            raise IndexError(i)
        return i


class Interface:
    def __init__(self, **entries):
        self.__array_interface__ = entries


class Clears:
    """An index that empties the list in which it is."""

    def __init__(self, items):
        self.items = items

    def __index__(self):
        self.items.clear()
        return 1


class Subclass(np.ndarray):
    pass


def containing_itself(kind):
    if kind is list:
        items = [1.0]
        items.append(items)
        return items
    if kind is dict:
        items = {"a": 1.0}
        items["b"] = items
        return items
    items = []
    items += [items, items]
    return (items,)


def deep(n):
    items = 1.0
    for _ in range(n):
        items = [items]
    return items


def clearing():
    items = []
    items += [Clears(items), 2, 3]
    return items


class Source:
    """Where arguments come from."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.stored = golden.tensors()
        self.cases = golden.cases()
        numbers = np.random.default_rng(seed)
        arrays = [numbers.normal(size=s) for s in [(), (1,), (3,), (2, 3), (0,), (0, 3), (2, 1, 4)]]
        arrays += [np.arange(6).reshape(2, 3), np.array([True, False, True]), np.arange(4, dtype="u1")]
        arrays += [np.array([[1.0, np.nan], [np.inf, 0]]), np.array([2**63 - 1, -(2**63)])]
        arrays += [numbers.normal(size=(5000,)), numbers.normal(size=(64, 65)), np.ones((2, 3, 17, 19))]
        arrays += [np.array([-1, 0, 5, 100, 2**40]), np.ones((2, 3, 4, 4)), np.ones((1,) * 32)]
        arrays += [a.astype("float32") for a in arrays[:5]] + [a.astype("float16") for a in arrays[:4]]
        self.tensors = [ex.asarray(a, copy=True) for a in arrays]
        self.tensors += [ex.ops.cast(x, ex.bfloat16) for x in self.tensors[:4]]
        self.tensors += [self.tensors[3][::-1, ::2], ex.ops.broadcast_to(self.tensors[0], [2, 3])]
        self.tensors += [ex.ops.reshape(ex.asarray([1.0]), [1] * 70)]
        self.arrays = arrays + [
            np.array([1 + 2j]), np.array(["a"]), np.array([None, 3]), np.arange(3, dtype=">i4"),
            np.zeros(2, dtype=[("a", "i1"), ("b", "f8")]), np.arange(6.0)[::-2],
            np.broadcast_to(np.float64(1), (3, 2)), np.zeros((0, 2**40)), np.arange(3.0).view(Subclass),
            np.array(["2001-01-01"], dtype="M8[D]"), np.ma.array([1.0, 2.0], mask=[True, False]),
            np.zeros(2, dtype=[("a", "i1"), ("b", "f8")])["b"], np.float64(3), np.int8(-1), np.bool_(True),
        ]

    def whole(self):
        return self.random.choice(INTS)

    def tensor(self):
        return self.random.choice(self.tensors)

    def anything(self, depth=0):
        """Any object at all."""
        r = self.random
        kind = r.randrange(25)
        if kind < 6:
            return self.tensor()
        if kind < 8:
            return r.choice(self.arrays)
        if kind < 11:
            return self.whole()
        if kind == 11:
            return r.choice(FLOATS)
        if kind == 12:
            return r.choice(TEXTS)
        if kind == 13:
            return r.choice([None, Ellipsis, True, False, NotImplemented, 1j, b"abc", bytearray(8)])
        if kind < 17 and depth < 3:
            items = [self.anything(depth + 1) if r.random() < 0.3 else self.whole() for _ in range(r.randrange(5))]
            return r.choice([list, tuple, lambda x: x, iter])(items)
        if kind == 17:
            part = lambda: r.choice([None, self.whole(), self.whole(), 1.5, "a", self.tensor()])  # noqa: E731
            return slice(part(), part(), part())
        if kind == 18 and depth < 3:
            return {r.choice(["a", "x", 3, None]): self.anything(depth + 1) for _ in range(3)}
        if kind == 19:
            return r.choice([ex.float32, ex.int8, ex.bool, ex.bfloat16, float, int, str, object, np.float32, ex.Tensor])
        if kind == 20:
            return r.choice([ex.Key(3), ex.Key, len, ex.ops.exp, lambda *a, **k: a[0] if a else 1, print])
        if kind == 21:
            return r.choice([object(), Raises(), Lies("text"), Lies(-1), Lies(2**70), Lies(None), Lies(self.tensor()),
                             Lies({}), Lies((1, 0)), Lengthy(2**62), Lengthy(5), Lengthy(-1), set(), range(3),
                             range(2**40), memoryview(b"abc"), array.array("d", [1.0]), Exception("x")])
        if kind == 22:
            return r.choice([containing_itself(list), containing_itself(dict), containing_itself(tuple),
                             deep(70), deep(500), clearing(), [[1, 2], [3]], [float("nan")], [-1, -1]])
        if kind == 23:
            return Interface(typestr=r.choice(["<f8", "|u1", ">i4", "<c16", "bad", 3]),
                             shape=r.choice([(2,), (2**40,), (2**62, 4), (-1,), (), 3, (0, 5)]),
                             data=r.choice([(0, True), (64, True), (2**63, False), b"12345678", None, (1,)]),
                             strides=r.choice([None, (8,), (-8,), (2**62,), "a"]))
        return [1] * r.choice([33, 65, 1000, 20000])

    def shape(self):
        r = self.random
        return [self.whole() if r.random() < 0.5 else r.choice([0, 1, 2, 3]) for _ in range(r.randrange(5))]

    def plausible(self):
        r = self.random
        return r.choice([self.tensor, self.tensor, self.tensor, self.whole, self.shape, self.anything])()

    def case(self):
        """A call of an operation, or of its backward function, of which arguments were replaced."""
        r = self.random
        case = golden.Case(r.choice(self.cases), self.stored)
        args = {}
        function = case.op
        if case.info["backward"] and case.cotangent is not None and r.random() < 0.4:
            name, _ = golden.backward_names(case.op)
            function = getattr(ex.ops, name)
            args = golden.backward_arguments(case.op, case.inputs, case.params, case.cotangent)
        else:
            if r.random() < 0.2:
                function = case.op.with_auxiliary
            inputs = [case.inputs] if case.info["many"] else case.inputs
            args = dict(zip(case.info["inputs"], inputs)) | case.params
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            key = r.choice(list(args))
            old = args[key]
            if isinstance(old, (int, list)) and r.random() < 0.7:
                args[key] = r.choice([self.whole, self.shape])()
            elif isinstance(old, ex.Tensor) and r.random() < 0.6:
                args[key] = self.twisted(old)
            else:
                args[key] = self.anything()
        if r.random() < 0.05:
            args[r.choice(["axis", "axes", "x", "dtype", "out", "né"])] = self.anything()
        if r.random() < 0.2:
            return function, list(args.values()), {}
        return function, [], args

    def twisted(self, x):
        """A tensor that is nearly like another."""
        r = self.random
        ways = [
            lambda: self.tensor(), lambda: ex.ops.cast(x, r.choice([ex.float32, ex.int64, ex.bool, ex.float16])),
            lambda: ex.ops.flatten(x), lambda: ex.ops.expand_dims(x, 0), lambda: x[:0] if x.ndim else x,
            lambda: x[..., :1] if x.ndim else x, lambda: ex.ops.transpose(x, None), lambda: x * 0 - 1,
            lambda: x * 0 + 10**6, lambda: np.asarray(x), lambda: x.tolist(), lambda: x * float("nan"),
            lambda: ex.ops.stack([x, x], 0), lambda: x.numpy()[..., None] if x.ndim else x,
        ]
        try:
            return r.choice(ways)()
        except Exception:
            return self.tensor()


def members(name, module):
    """The public callables of a module."""
    public = [n for n in dir(module) if not n.startswith("_")]
    return {f"{name}.{n}": getattr(module, n) for n in public if callable(getattr(module, n))}


def functions():
    """Every callable of the package by a name."""
    found = {}
    for name in dir(ex):
        if not name.startswith("_") and callable(getattr(ex, name)):
            found[f"ex.{name}"] = getattr(ex, name)
    for name in dir(ex.ops):
        if not name.startswith("_") and callable(getattr(ex.ops, name)):
            found[f"ex.ops.{name}"] = getattr(ex.ops, name)
    for name in dir(ex.tree):
        if not name.startswith("_") and callable(getattr(ex.tree, name)):
            found[f"ex.tree.{name}"] = getattr(ex.tree, name)
    # (A training loop of 2**40 steps does what it was asked for.)
    for module in ("linalg", "nn", "optim", "io", "data"):
        found |= members(module, getattr(ex, module, None))
    for kind in (ex.Tensor, ex.DType, ex.Key):
        for name in dir(kind):
            # What ends the class itself or only asks Python is left out.
            if name not in ("__class__", "__init_subclass__", "__subclasshook__", "__getattribute__"):
                found[f"{kind.__name__}.{name}"] = getattr(kind, name)
    for name in dir(ex._core):
        if not name.startswith("_") and callable(getattr(ex._core, name)):
            found[f"_core.{name}"] = getattr(ex._core, name)
    return {name: f for name, f in found.items() if callable(f)}


DIFFERENTIAL = "grad value_and_grad vjp jvp hvp jacobian hessian checkpoint custom_vjp custom_jvp linearize".split()


class Caller:
    def __init__(self, seed, log):
        self.source = Source(seed)
        self.random = random.Random(seed + 1)
        self.functions = list(functions().items())
        self.methods = [(n, f) for n, f in self.functions if n.startswith("Tensor.")]
        self.log = log
        self.outcomes = collections.Counter()

    def note(self, text):
        data = text.encode("utf-8", "backslashreplace")[:4000]
        os.pwrite(self.log, data + b"\n" + b" " * 20 + b"\n", 0)

    def describe(self, name, args, kwargs):
        def one(x):
            try:
                if isinstance(x, ex.Tensor):
                    return f"tensor{x.shape}:{x.dtype.name}"
                if isinstance(x, np.ndarray):
                    return f"array{x.shape}:{x.dtype}"
                if isinstance(x, (list, tuple)) and len(x) > 8:
                    return f"{type(x).__name__} of {len(x)}"
                return repr(x)[:200]
            except BaseException:
                return type(x).__name__

        parts = [one(a) for a in args] + [f"{k}={one(v)}" for k, v in kwargs.items()]
        return f"{name}({', '.join(parts)})"

    def pick(self):
        r, s = self.random, self.source
        kind = r.random()
        if kind < 0.12:
            return self.traced()
        if kind < 0.45:
            function, args, kwargs = s.case()
            return getattr(function, "__qualname__", "?"), function, args, kwargs
        if kind < 0.6:
            name, function = r.choice(self.methods)
            args = [s.tensor()] + [s.plausible() for _ in range(r.choice([0, 1, 1, 1, 2]))]
            return name, function, args, {}
        if kind < 0.68:
            return self.differential()
        name, function = r.choice(self.functions)
        first = {"DType": lambda: ex.float32, "Key": lambda: ex.Key(1)}.get(name.split(".")[0])
        args = [first()] if first and "." in name and r.random() < 0.8 else []
        args += [s.plausible() if r.random() < 0.7 else s.anything() for _ in range(r.randrange(5))]
        keys = ["axis", "dtype", "keepdims", "shape", "copy", "device", "k", "correction", "key"]
        kwargs = {r.choice(keys): s.anything() for _ in range(r.choice([0, 0, 0, 1]))}
        return name, function, args, kwargs

    def traced(self):
        """A call like the others, differentiated by one of its arguments."""
        r, s = self.random, self.source
        function, args, kwargs = s.case()
        every = dict(enumerate(args)) | kwargs
        places = [k for k, v in every.items() if isinstance(v, ex.Tensor)]
        if not places:
            return self.differential()
        place = r.choice(places)
        way = r.choice(["vjp", "jvp", "hvp", "grad of grad", "checkpoint"])
        extra = r.choice([None, None, s.anything()])

        def f(x):
            moved = {k: x if k == place else v for k, v in every.items()}
            y = function(*[v for k, v in moved.items() if isinstance(k, int)],
                         **{k: v for k, v in moved.items() if not isinstance(k, int)})
            return y[0] if isinstance(y, tuple) and way != "vjp" else y

        def call():
            x = every[place]
            if way == "vjp":
                y, pullback = ex.vjp(f, x)
                return pullback(y if extra is None else extra)
            along = x if extra is None else extra
            if way == "jvp":
                return ex.jvp(f, (x,), (along,))[1]
            loss = lambda x: ex.sum(f(x))  # noqa: E731
            if way == "hvp":
                return ex.hvp(loss, x, along)
            if way == "checkpoint":
                return ex.grad(ex.checkpoint(loss))(x)
            return ex.grad(lambda x: ex.sum(ex.grad(loss)(x) * along))(x)

        name = getattr(function, "__qualname__", "?")
        return f"{way} by {place} of " + self.describe(name, args, kwargs), call, [], {}

    def differential(self):
        """A function differentiated, in which something hostile happens."""
        r, s = self.random, self.source
        inner_name, inner = r.choice(self.functions)
        closed = np.ones(3)
        hostile = s.anything()

        def f(*args):
            way = r.randrange(6)
            if way == 0:
                closed[...] = r.random()
                return ex.sum(args[0] * closed.sum())
            if way == 1:
                return hostile
            if way == 2:
                return inner(*args)
            if way == 3:
                return inner(args[0], hostile)
            if way == 4:
                return ex.sum(ex.ops.exp(args[0]))
            function, more, kwargs = s.case()
            return function(*[args[0], *more[1:]], **kwargs)

        name = r.choice(DIFFERENTIAL)
        function = getattr(ex, name)
        x = r.choice([s.tensor(), s.tensor(), closed, 2.0, s.anything()])
        if name in ("vjp", "linearize"):
            return f"ex.{name}[{inner_name}]", lambda: function(f, x)[1](s.plausible()), [], {}
        if name in ("jvp", "hvp"):
            return f"ex.{name}[{inner_name}]", function, [f, (x,), (s.plausible(),)], {}
        if name in ("custom_vjp", "custom_jvp"):
            g = lambda *a: r.choice([f(*a[:1]), (f(*a[:1]), a), hostile])  # noqa: E731
            made = lambda: ex.grad(lambda x: ex.sum(function(g, g)(x)))(x)  # noqa: E731
            return f"ex.{name}[{inner_name}]", made, [], {}
        return f"ex.{name}[{inner_name}]", lambda: function(f)(x), [], {}

    def call(self):
        name, function, args, kwargs = self.pick()
        text = self.describe(name, args, kwargs)
        self.note(text)
        try:
            result = function(*args, **kwargs)
            self.outcomes["returned"] += 1
            if callable(result) and not isinstance(result, type):
                # A layer, an optimiser, a transformed function.
                self.note(f"call of {text}")
                result = result(*[self.source.plausible() for _ in range(self.random.randrange(1, 4))])
            if isinstance(result, ex.Tensor):
                self.note(f"repr of {text}")
                repr(result)
                if result.size < 1000 and result.ndim < 10 and not result.is_traced:
                    # What came of one call goes into others.
                    tensors = self.source.tensors
                    if len(tensors) < 200:
                        tensors.append(result)
                    else:
                        tensors[self.random.randrange(100, 200)] = result
                if result.size < 1000 and self.random.random() < 0.2:
                    self.note(f"numbers of {text}")
                    result.tolist()
                    bytes(ex.ops.cast(result, ex.float64).numpy())
        except Exception as error:
            self.outcomes[type(error).__name__] += 1
        except BaseException:
            traceback.print_exc()
            print(f"FAILED: {text}", file=sys.stderr, flush=True)
            os._exit(3)
        ex.set_threads(2)


def main():
    seed, calls, log = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    # What asks for more than this fails at once, so that the machine survives.
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    sys.stdout = open(os.devnull, "w")
    file = os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        random.seed(seed)
        if threads == 1:
            caller = Caller(seed, file)
            for _ in range(calls):
                caller.call()
            outcomes = caller.outcomes
        else:
            callers = [Caller(seed + k, file) for k in range(threads)]
            # All look at the same tensors.
            for caller in callers:
                caller.source.tensors = callers[0].source.tensors
            work = lambda caller: [caller.call() for _ in range(calls)]  # noqa: E731
            running = [threading.Thread(target=work, args=(c,)) for c in callers]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            outcomes = sum((c.outcomes for c in callers), collections.Counter())
        os.chdir("/")
    print(dict(outcomes.most_common()), file=sys.stderr)


if __name__ == "__main__":
    main()
