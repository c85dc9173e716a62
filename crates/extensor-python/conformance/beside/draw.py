"""Random arguments: shapes, axes, numbers with zeros and ties among them, matrices that can be solved.

It must not know any operation. All is NumPy's, in float64, int64 or bool; the same seed draws the same.
"""

import numpy as np


class Draw:
    """What one call is made of; its seed makes the same call again."""

    def __init__(self, *seed):
        self.random = np.random.default_rng(list(seed))

    # Choices.
    def chance(self, p=0.5):
        return bool(self.random.random() < p)

    def pick(self, *options):
        return options[int(self.random.integers(len(options)))]

    def whole(self, low, high):
        """A whole number from `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def number(self, low, high):
        return float(self.random.uniform(low, high))

    # Shapes and axes.
    def shape(self, low=0, high=3, size=4, empty=0.05):
        """A shape of `low` to `high` axes, some of size 1, now and then one of size 0 or a long one."""
        sizes = [self.whole(1, size) for _ in range(self.whole(low, high))]
        if sizes and self.chance(0.03):
            sizes[self.whole(0, len(sizes) - 1)] = self.whole(5, 70)
        if sizes and self.chance(empty):
            sizes[self.whole(0, len(sizes) - 1)] = 0
        return tuple(sizes)

    def broadcast(self, count, low=0, high=3, size=4, empty=0.05):
        """Shapes that broadcast to one another."""
        full = self.shape(low, high, size, empty)
        shapes = []
        for _ in range(count):
            cut = full if self.chance(0.5) else full[self.whole(0, len(full)) :]
            shapes.append(tuple(1 if self.chance(0.2) else n for n in cut))
        shapes[self.whole(0, count - 1)] = full
        return shapes

    def axis(self, ndim):
        """One axis, from the front or from the back."""
        return self.whole(-ndim, ndim - 1)

    def axes(self, ndim, low=0):
        """Some axes in any order, or None for all of them."""
        if self.chance(0.3) or ndim == 0:
            return None
        chosen = self.random.permutation(ndim)[: self.whole(max(low, 1), ndim)]
        return [int(a) - (ndim if self.chance(0.3) else 0) for a in chosen]

    # Numbers.
    def normal(self, *shape):
        return np.asarray(self.random.standard_normal(shape))

    def uniform(self, low, high, *shape):
        return np.asarray(self.random.uniform(low, high, shape))

    def apart(self, *shape, gap=0.1):
        """Numbers of which no two are nearer than half of `gap`, none near 0, in any order."""
        count = int(np.prod(shape))
        numbers = (np.arange(count) - count // 2 + 0.5) * gap + self.random.uniform(-0.2, 0.2, count) * gap
        return np.asarray(self.random.permutation(numbers).reshape(shape))

    def away(self, low, high, kinks, *shape, by=0.05):
        """Uniform numbers, none nearer than `by` to a kink."""
        x = self.uniform(low, high, *shape)
        for kink in kinks:
            side = np.where(x >= kink, 1.0, -1.0)
            x = np.where(np.abs(x - kink) < by, kink + side * by * (1 + self.random.random(shape)), x)
        return np.asarray(x)

    def among(self, x, values, p=0.15):
        """`x` with some elements replaced by special ones."""
        chosen = self.random.random(x.shape) < p
        return np.asarray(np.where(chosen, self.random.choice(np.asarray(values, float), x.shape), x))

    def signed(self, low, high, *shape):
        """Numbers of a magnitude, of both signs."""
        return np.asarray(self.uniform(low, high, *shape) * self.random.choice([-1.0, 1.0], shape))

    def whole_numbers(self, low, high, *shape):
        """int64 from `low` to `high`, both included."""
        return np.asarray(self.random.integers(low, high + 1, shape))

    def mask(self, *shape, p=0.5):
        return np.asarray(self.random.random(shape) < p)

    def distinct(self, high, count):
        """`count` different whole numbers below `high`."""
        return self.random.permutation(high)[:count]

    def places(self, shape, axis, count, repeated=False):
        """Indices along an axis for a tensor of this shape, `count` in each line."""
        moved = [n for a, n in enumerate(shape) if a != axis % len(shape)]
        lines = int(np.prod(moved))
        size = shape[axis]
        rows = [self.random.integers(0, size, count) if repeated else self.distinct(size, count) for _ in range(lines)]
        rows = np.asarray(rows, dtype=np.int64).reshape([*moved, count])
        return np.ascontiguousarray(np.moveaxis(rows, -1, axis % len(shape)))

    # Matrices.
    def size(self, low=1, high=4):
        """Of a matrix: small, now and then beyond any block."""
        return self.whole(5, 40) if self.chance(0.03) else self.whole(low, high)

    def batch(self, p=0.4):
        return tuple(self.whole(1, 3) for _ in range(self.whole(1, 2))) if self.chance(p) else ()

    def orthogonal(self, batch, n):
        q, r = np.linalg.qr(self.random.standard_normal((*batch, n, n)))
        return q

    def spread(self, batch, k, low=0.6, gap=0.35):
        """Numbers well apart from one another: singular values or eigenvalues."""
        steps = gap * (1 + self.random.random((*batch, k)))
        return low + np.cumsum(steps, -1)

    def well(self, batch, m, n):
        """Matrices with singular values apart from 0 and from one another."""
        k = min(m, n)
        u, v = self.orthogonal(batch, m)[..., :k], self.orthogonal(batch, n)[..., :k]
        return np.asarray(u * self.spread(batch, k)[..., None, :] @ np.swapaxes(v, -1, -2))

    def symmetric(self, batch, n):
        """Symmetric matrices with eigenvalues of both signs, apart from one another."""
        u = self.orthogonal(batch, n)
        values = self.spread(batch, n)
        values = values - values[..., :1] * self.whole(0, 2)
        return np.asarray(u * values[..., None, :] @ np.swapaxes(u, -1, -2))
