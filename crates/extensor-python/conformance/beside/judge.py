"""Compares one call: values, reverse mode, forward mode, second derivatives both ways; float32.

It must not know any operation. A number agrees if it is within 1e-7 of its own size plus 1e-10 of the call's scale
(the largest magnitude among its inputs and what is compared, at least 1): the tolerance of the golden cases. In
float32, 1e-4 and 1e-5. They are here and nowhere else.
"""

import collections
import warnings

import numpy as np
import torch
from torch.autograd import forward_ad

import extensor as ex

from .entry import Call

TOLERANCES = {"double": (1e-7, 1e-10), "single": (1e-4, 1e-5)}

warnings.filterwarnings("ignore", category=UserWarning)
warnings.filterwarnings("ignore", category=FutureWarning)
torch.set_num_threads(1)


class Wrong(Exception):
    """Our answer is not PyTorch's."""


class Broken(Exception):
    """PyTorch refuses the call: the entry is at fault."""


def several(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


def array(x):
    """A tensor of either library as NumPy's."""
    if isinstance(x, torch.Tensor):
        return x.detach().numpy(force=True)
    return np.asarray(x)


def magnitude(arrays):
    sizes = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in arrays if a.dtype.kind == "f"]
    return max([1.0, *map(float, sizes)])


class Judge:
    """Compares a call, and remembers how far apart the worst answers were, by kind."""

    def __init__(self, plant=None):
        self.plant = plant
        #: Of each kind, the largest error as a part of what is allowed.
        self.worst = {}
        #: How often PyTorch had no answer of its own, and what stood for it.
        self.instead = collections.Counter()

    def close(self, kind, got, want, scale, precision="double"):
        got, want = array(got), array(want)
        if got.shape != want.shape:
            raise Wrong(f"{kind}: the shape is {list(got.shape)}, PyTorch's {list(want.shape)}")
        kinds = [{"u": "i"}.get(a.dtype.kind, a.dtype.kind) for a in (got, want)]
        if kinds[0] != kinds[1]:
            raise Wrong(f"{kind}: the dtype is {got.dtype}, PyTorch's {want.dtype}")
        if want.dtype.kind in "ib":
            if not np.array_equal(got, want):
                raise Wrong(f"{kind}: {got.tolist()}, PyTorch has {want.tolist()}")
            return
        relative, absolute = TOLERANCES[precision]
        got, want = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            allowed = absolute * scale + relative * np.abs(want)
            part = np.abs(got - want) / allowed
            part = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, part)
            part = np.where(np.isnan(part), np.inf, part)
        worst = float(part.max(initial=0.0))
        self.worst[kind] = max(self.worst.get(kind, 0.0), worst)
        if worst > 1.0:
            at = np.unravel_index(int(part.argmax()), part.shape)
            place = f" at {list(map(int, at))}" if at else ""
            raise Wrong(
                f"{kind}: {float(got[at])!r}{place}, PyTorch has {float(want[at])!r} "
                f"(apart by {abs(float(got[at]) - float(want[at])):.3e}, {worst:.3g} times what is allowed)"
            )

    # One call.
    def judge(self, call: Call, draw):
        """Raises `Wrong`, `Broken` or `Missing`; otherwise everything agrees."""
        theirs = [torch.from_numpy(np.array(x)) for x in call.inputs]
        try:
            want = several(call.theirs(*theirs))
        except Exception as error:
            raise Broken(f"PyTorch refuses: {type(error).__name__}: {error}") from error
        function = self.planted(call.ours)
        inputs = [arranged(ex.asarray(np.array(x)), draw) for x in call.inputs]
        got = several(function(*inputs))
        if len(got) != len(want):
            raise Wrong(f"values: {len(got)} results, PyTorch has {len(want)}")
        scale = magnitude([*call.inputs, *map(array, want)])
        for y, exact in zip(got, want):
            self.close("values", y, exact, scale)
        if call.single and any(x.dtype == np.float64 for x in call.inputs):
            self.single(call, function)
        floats = [i for i, y in enumerate(want) if y.is_floating_point()]
        if call.order >= 1 and call.moving and floats:
            Derivatives(self, call, function, theirs, inputs, floats, draw, scale).compare()

    def single(self, call, function):
        """In float32, beside what PyTorch gives in float64 for the same rounded inputs."""
        narrow = [x.astype(np.float32) if x.dtype == np.float64 else x for x in call.inputs]
        wide = [np.array(x.astype(np.float64) if x.dtype == np.float32 else x) for x in narrow]
        want = several(call.theirs(*map(torch.from_numpy, wide)))
        got = several(function(*(ex.asarray(np.array(x)) for x in narrow)))
        scale = magnitude([*wide, *map(array, want)])
        for y, exact in zip(got, want):
            if exact.is_floating_point() and y.dtype.is_float and y.dtype != ex.float32:
                raise Wrong(f"values in float32: the dtype is {y.dtype.name}")
            if exact.is_floating_point():
                exact = exact.float().double()
            self.close("float32", y, exact, scale, "single")

    def planted(self, function):
        """Our function, with the error in it that was asked for."""
        if self.plant is None:
            return function
        damage = PLANTS[self.plant]

        def damaged(*inputs):
            found = function(*inputs)
            made = [damage(y) if y.dtype.is_float else y for y in several(found)]
            return made if isinstance(found, (tuple, list)) else made[0]

        return damaged


def _slightly(y):
    return y * (1 + 1e-3)


def _gradient(y):
    return ex.custom_vjp(lambda y: (y * 1, None), lambda _, g: g * (1 + 1e-3))(y)


def _second(y):
    def along(args, tangents):
        return tangents[0] * (1 + 1e-3 * (args[0] - ex.stop_gradient(args[0])))

    return ex.custom_jvp(lambda y: y * 1, along)(y)


#: Errors that may be planted: each must be found.
PLANTS = {"value": _slightly, "gradient": _gradient, "second": _second}


class Derivatives:
    """The derivatives of one call, in both libraries."""

    def __init__(self, judge, call, function, theirs, inputs, floats, draw, scale):
        self.judge, self.call, self.function = judge, call, function
        self.theirs, self.inputs, self.floats, self.scale = theirs, inputs, floats, scale
        self.moving = [theirs[i] for i in call.moving]
        self.tangents = [draw.normal(*x.shape) for x in self.moving]
        self.draw = draw

    # PyTorch.
    def of_theirs(self, *moved):
        """PyTorch's floating results, as a function of what is differentiated by."""
        full = list(self.theirs)
        for i, x in zip(self.call.moving, moved):
            full[i] = x
        found = several(self.call.theirs(*full))
        return [found[i] for i in self.floats]

    def pulled(self, moved, create=False):
        """PyTorch's leaves and their gradients at a place."""
        leaves = [x.detach().clone().requires_grad_() for x in moved]
        outputs = self.of_theirs(*leaves)
        pairs = [(y, w) for y, w in zip(outputs, self.cotangents) if y.requires_grad]
        if not pairs:
            return leaves, [torch.zeros_like(x) for x in leaves]
        grads = torch.autograd.grad(
            [y for y, _ in pairs], leaves, [w for _, w in pairs],
            create_graph=create, allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        return leaves, list(grads)

    def pushed(self):
        """PyTorch's forward mode (what torch.func.jvp is made of), or None where it has none."""
        try:
            with forward_ad.dual_level():
                along = map(torch.from_numpy, self.tangents)
                duals = [forward_ad.make_dual(x.detach().clone(), v) for x, v in zip(self.moving, along)]
                outputs = [forward_ad.unpack_dual(y) for y in self.of_theirs(*duals)]
                return [torch.zeros_like(y) if t is None else t for y, t in outputs]
        except (NotImplementedError, RuntimeError):
            return None

    def bent(self):
        """PyTorch's Hessian-vector product: its double backward; where it has none, differences of its gradients."""
        if not self.call.differences:
            try:
                leaves, grads = self.pulled(self.moving, create=True)
                pairs = [(g, torch.from_numpy(v)) for g, v in zip(grads, self.tangents) if g.requires_grad]
                if not pairs:
                    return [torch.zeros_like(x) for x in leaves]
                total = sum((g * v).sum() for g, v in pairs)
                return list(torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True))
            except (NotImplementedError, RuntimeError) as error:
                if not any(
                    word in str(error)
                    for word in ("not implemented", "not differentiable", "double", "trying to differentiate")
                ):
                    raise
        if self.judge is not None:
            self.judge.instead["second derivatives by differences"] += 1
        # Central differences of the sixth order: nine digits where the gradient is smooth, if only on the scale of
        # a hundredth (|d| to the power 1.5 for small differences d).
        step, weights = 2.5e-4, {1: 45.0, 2: -9.0, 3: 1.0}
        total = [torch.zeros_like(x) for x in self.moving]
        for k, weight in weights.items():
            for sign in (1, -1):
                there = [x + sign * k * step * torch.from_numpy(v) for x, v in zip(self.moving, self.tangents)]
                for sum_, g in zip(total, self.pulled(there)[1]):
                    sum_ += sign * weight / (60 * step) * g
        return total

    # Ours.
    def of_ours(self, *moved):
        full = list(self.inputs)
        for i, x in zip(self.call.moving, moved):
            full[i] = x
        found = several(self.function(*full))
        return tuple(found[i] for i in self.floats)

    def compare(self):
        close = self.judge.close
        self.cotangents = [torch.from_numpy(self.draw.normal(*y.shape)) for y in self.of_theirs(*self.moving)]
        ours = tuple(self.inputs[i] for i in self.call.moving)
        cotangents = tuple(ex.asarray(w.numpy()) for w in self.cotangents)
        tangents = tuple(ex.asarray(v) for v in self.tangents)
        try:
            _, want = self.pulled(self.moving)
        except Exception as error:
            raise Broken(f"PyTorch's gradient: {type(error).__name__}: {error}") from error
        scale = max(self.scale, magnitude([*map(array, want), *map(array, self.cotangents)]))
        _, pullback = ex.vjp(self.of_ours, *ours)
        for got, exact in zip(pullback(cotangents), want, strict=True):
            close("reverse", got, exact, scale)
        _, along = ex.jvp(self.of_ours, ours, tangents)
        pushed = self.pushed()
        if pushed is not None and not self.agree(pushed, want):
            self.judge.instead["forward mode by its adjoint, which its own contradicts"] += 1
            self.adjoint(along, want)
        elif pushed is not None and all(np.isfinite(array(t)).all() for t in pushed):
            wide = max(scale, magnitude([*map(array, pushed), *self.tangents]))
            for got, exact in zip(along, pushed, strict=True):
                close("forward", got, exact, wide)
        else:
            self.judge.instead["forward mode by its adjoint"] += 1
            self.adjoint(along, want)
        if self.call.order >= 2:
            self.second(ours, cotangents, tangents, scale)

    def agree(self, pushed, want):
        """Whether PyTorch's two modes say the same: <w, J·v> = <gradient, v>."""
        left = [array(w) * array(y) for w, y in zip(self.cotangents, pushed)]
        right = [array(g) * v for g, v in zip(want, self.tangents)]
        if not all(np.isfinite(x).all() for x in (*left, *right)):
            return True
        size = sum(float(np.abs(x).sum()) for x in (*left, *right))
        apart = sum(float(x.sum()) for x in left) - sum(float(x.sum()) for x in right)
        return abs(apart) <= 1e-9 * max(1.0, size)

    def adjoint(self, along, want):
        """Where PyTorch has no forward mode, <w, J·v> = <gradient, v> with its gradient."""
        left = [array(w) * array(y) for w, y in zip(self.cotangents, along)]
        right = [array(g) * v for g, v in zip(want, self.tangents)]
        size = sum(float(np.abs(x).sum()) for x in (*left, *right))
        sums = [np.asarray(sum(float(x.sum()) for x in side)) for side in (left, right)]
        self.judge.close("forward", *sums, max(1.0, size))

    def second(self, ours, cotangents, tangents, scale):
        try:
            want = self.bent()
        except Exception as error:
            raise Broken(f"PyTorch's second derivative: {type(error).__name__}: {error}") from error
        wide = max(scale, magnitude([*map(array, want), *self.tangents]))

        def weighted(*moved):
            terms = [ex.sum(y * w) for y, w in zip(self.of_ours(*moved), cotangents)]
            return sum(terms[1:], terms[0])

        places = tuple(range(len(ours)))
        gradient = ex.grad(weighted, argnums=places)

        def projected(*moved):
            terms = [ex.sum(g * v) for g, v in zip(gradient(*moved), tangents)]
            return sum(terms[1:], terms[0])

        ways = {
            "forward over reverse": ex.hvp(weighted, ours, tangents),
            "reverse over reverse": ex.grad(projected, argnums=places)(*ours),
        }
        for way, found in ways.items():
            for got, exact in zip(found, want, strict=True):
                self.judge.close(way, got, exact, wide)


def arranged(x, draw):
    """The same values as a view with gaps, backwards, transposed or broadcast, or as they are."""
    if x.ndim == 0 or draw.chance(0.6):
        return x
    way = draw.pick("gaps", "transposed", "repeated")
    if way == "gaps":
        wide = ex.ops.flip(ex.ops.stack([x, x], x.ndim), None)
        return ex.ops.flip(wide, None)[..., 0]
    axes = [int(a) for a in draw.random.permutation(x.ndim)]
    back = [axes.index(a) for a in range(x.ndim)]
    if way == "transposed":
        laid = ex.ops.transpose(x, axes) * 1 if x.dtype.is_float else ex.asarray(np.array(array(x).transpose(axes)))
        return ex.ops.transpose(laid, back)
    numbers = array(x)
    for axis in range(x.ndim):
        if x.shape[axis] > 0 and (numbers == numbers.take([0], axis)).all():
            return ex.ops.broadcast_to(ex.asarray(np.array(numbers.take([0], axis))), x.shape)
    return x
