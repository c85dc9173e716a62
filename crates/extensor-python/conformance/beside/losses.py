"""Losses, attention, embeddings."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from .entry import Call, entry, ours, words

AREA = "losses"


def reduction(d):
    return d.pick("none", "mean", "sum")


@entry("cross_entropy", area=AREA)
def cross_entropy(d):
    classes, spatial = d.whole(2, 5), d.shape(0, 2, 3, empty=0.0)
    n = d.whole(1, 4)
    logits = d.normal(n, classes, *spatial) * d.pick(1.0, 1.0, 10.0)
    how, smoothing = reduction(d), d.pick(0.0, 0.0, d.number(0.01, 0.5))
    call = ours("cross_entropy")
    if d.chance(0.3):
        soft = d.uniform(0.05, 1, n, classes, *spatial)
        arrays, ignored = [logits, soft / soft.sum(1, keepdims=True)], None
    else:
        targets = d.whole_numbers(0, classes - 1, n, *spatial)
        ignored = None
        if d.chance(0.5):
            ignored = d.pick(-100, -1, 0, classes - 1)
            if ignored < 0:
                targets = np.where(d.mask(n, *spatial, p=0.3), ignored, targets)
            # At least one counts: the mean of none is NaN.
            targets.reshape(-1)[0] = 0 if ignored != 0 else 1
        arrays = [logits, targets]
    weighted = d.chance(0.5)
    if weighted:
        arrays.append(d.uniform(0.2, 2, classes))

    def mine(x, t, w=None):
        given = {"label_smoothing": smoothing or None, "ignore_index": ignored, "weight": w}
        return call(x, t, reduction=how, **given)

    def theirs(x, t, w=None):
        index = -100 if ignored is None else ignored
        return F.cross_entropy(x, t, weight=w, ignore_index=index, reduction=how, label_smoothing=smoothing)

    text = words(reduction=how, label_smoothing=smoothing, ignore_index=ignored, weighted=weighted, spatial=spatial)
    moving = (0, 1) if arrays[1].dtype == np.float64 else (0,)
    return Call(arrays, mine, theirs, text, moving=moving, mapped=ignored is None)


@entry("nll_loss", area=AREA)
def nll_loss(d):
    classes, spatial, n = d.whole(2, 5), d.shape(0, 2, 3, empty=0.0), d.whole(1, 4)
    x = d.normal(n, classes, *spatial)
    targets = d.whole_numbers(0, classes - 1, n, *spatial)
    how, ignored = reduction(d), d.pick(None, None, -100, 0)
    if ignored == -100:
        targets = np.where(d.mask(n, *spatial, p=0.3), ignored, targets)
    if ignored is not None:
        targets.reshape(-1)[0] = 1
    arrays = [x, targets] + ([d.uniform(0.2, 2, classes)] if d.chance() else [])
    call = ours("nll_loss")
    mine = lambda x, t, w=None: call(x, t, weight=w, ignore_index=ignored, reduction=how)  # noqa: E731
    theirs = lambda x, t, w=None: F.nll_loss(x, t, w, ignore_index=-100 if ignored is None else ignored, reduction=how)  # noqa: E731
    return Call(arrays, mine, theirs, words(reduction=how, ignore_index=ignored, weighted=len(arrays) > 2), moving=(0,))


@entry("binary_cross_entropy", area=AREA)
def binary_cross_entropy(d):
    shape, how = d.shape(empty=0.0), reduction(d)
    arrays = [d.uniform(0.03, 0.97, *shape), d.among(d.uniform(0, 1, *shape), [0.0, 1.0])]
    if d.chance():
        arrays.append(d.uniform(0.1, 2, *d.pick(shape, shape[d.whole(0, len(shape)) :])))
    call = ours("binary_cross_entropy")
    mine = lambda x, t, w=None: call(x, t, weight=w, reduction=how)  # noqa: E731
    theirs = lambda x, t, w=None: F.binary_cross_entropy(x, t, w, reduction=how)  # noqa: E731
    return Call(arrays, mine, theirs, words(reduction=how, weighted=len(arrays) > 2), moving=(0,))


@entry("binary_cross_entropy_with_logits", area=AREA)
def binary_cross_entropy_with_logits(d):
    shape, how = d.shape(empty=0.0), reduction(d)
    arrays = [d.normal(*shape) * d.pick(1.0, 8.0), d.among(d.uniform(0, 1, *shape), [0.0, 1.0])]
    weighted, positive = d.chance(), d.chance()
    if weighted:
        arrays.append(d.uniform(0.1, 2, *shape[d.whole(0, len(shape)) :]))
    if positive:
        arrays.append(d.uniform(0.3, 3, *shape[max(len(shape) - 1, 0) :]))
    call = ours("binary_cross_entropy_with_logits")

    def options(rest):
        rest = list(rest)
        return {"weight": rest.pop(0) if weighted else None, "pos_weight": rest.pop(0) if positive else None}

    mine = lambda x, t, *rest: call(x, t, reduction=how, **options(rest))  # noqa: E731
    theirs = lambda x, t, *rest: F.binary_cross_entropy_with_logits(x, t, reduction=how, **options(rest))  # noqa: E731
    return Call(arrays, mine, theirs, words(reduction=how, weighted=weighted, pos_weight=positive), moving=(0,))


@entry("kl_divergence", area=AREA)
def kl_divergence(d):
    shape = d.shape(1, 3, empty=0.0)
    how, logarithm = d.pick("none", "mean", "sum", "batchmean"), d.chance()
    target = d.normal(*shape) if logarithm else d.uniform(0.05, 1, *shape)
    call = ours("kl_divergence")
    mine = lambda x, t: call(x, t, reduction=how, log_target=True if logarithm else None)  # noqa: E731
    theirs = lambda x, t: F.kl_div(x, t, reduction=how, log_target=logarithm)  # noqa: E731
    return Call([d.normal(*shape), target], mine, theirs, words(reduction=how, log_target=logarithm))


@entry("ctc_loss", area=AREA)
def ctc_loss(d):
    steps, n, classes, most = d.whole(4, 7), d.whole(1, 3), d.whole(2, 4), d.whole(1, 3)
    x = d.normal(steps, n, classes)
    blank = d.pick(0, 0, classes - 1)
    targets = d.whole_numbers(0, classes - 2, n, most)
    targets = targets + (targets >= blank)
    lengths = d.whole_numbers(max(3, steps - 2), steps, n)
    found = d.whole_numbers(0 if d.chance(0.1) else 1, most, n)
    # Repeated labels need a blank between them: what has no path is infinite.
    need = [k + sum(int(a == b) for a, b in zip(row[:k], row[1:k])) for row, k in zip(targets.tolist(), found.tolist())]
    endless = any(k > steps for k, steps in zip(need, lengths.tolist()))
    how = d.pick("none", "mean", "sum")
    zero = endless or d.chance(0.3)
    call = ours("ctc_loss")

    def mine(x, t, i, k):
        import extensor as ex

        options = {"blank": blank, "reduction": how, "zero_infinity": True if zero else None}
        return call(ex.ops.log_softmax(x, -1), t, i, k, **options)

    def theirs(x, t, i, k):
        return F.ctc_loss(F.log_softmax(x, -1), t, i, k, blank=blank, reduction=how, zero_infinity=zero)

    text = words(blank=blank, reduction=how, zero_infinity=zero)
    return Call([x, targets, lengths, found], mine, theirs, text, differences=True, mapped=False)


def plain_ctc(x, targets, steps, labels, blank):
    """The loss of each sequence by its recurrence, for numbers that need not be logarithms of probabilities."""
    losses = []
    for n, (last, count) in enumerate(zip(steps.tolist(), labels.tolist())):
        states = [blank]
        for label in targets[n, :count].tolist():
            states += [label, blank]
        # What cannot be reached is None: nothing comes of it.
        reached = [x[0, n, states[k]] if k < 2 else None for k in range(len(states))]
        for t in range(1, last):
            following = []
            for k, state in enumerate(states):
                skips = k > 1 and state not in (blank, states[k - 2])
                before = [reached[j] for j in range(max(0, k - 1 - skips), k + 1) if reached[j] is not None]
                following.append(x[t, n, state] + torch.stack(before).logsumexp(0) if before else None)
            reached = following
        losses.append(-torch.stack([a for a in reached[-2:] if a is not None]).logsumexp(0))
    return torch.stack(losses)


@entry("ctc_loss_of_any_numbers", "ctc_loss", area=AREA)
def ctc_loss_of_any_numbers(d):
    steps, n, classes, most = d.whole(4, 6), d.whole(1, 3), d.whole(3, 4), d.whole(1, 2)
    x = d.normal(steps, n, classes)
    blank = d.pick(0, 0, classes - 1)
    targets = d.whole_numbers(0, classes - 2, n, most)
    targets = targets + (targets >= blank)
    lengths, found = d.whole_numbers(max(3, steps - 2), steps, n), d.whole_numbers(0, most, n)
    how = d.pick("none", "mean", "sum")
    call = ours("ctc_loss")

    def theirs(x, t, i, k):
        losses = plain_ctc(x, t, i, k, blank)
        means = losses / k.clamp(min=1)
        return {"none": losses, "sum": losses.sum(), "mean": means.mean()}[how]

    mine = lambda x, t, i, k: call(x, t, i, k, blank=blank, reduction=how)  # noqa: E731
    return Call([x, targets, lengths, found], mine, theirs, words(blank=blank, reduction=how), mapped=False)


def off_the_hinge(make, measure, hinges):
    """Draws until no hinge is nearer than 0.05 to where it bends."""
    while True:
        arrays = make()
        bends = hinges(*measure(*map(torch.from_numpy, arrays)))
        if all((x.abs() > 0.05).all() for x in bends):
            return arrays


@entry("triplet_margin_loss", area=AREA)
def triplet_margin_loss(d):
    shape = d.pick((d.whole(2, 5),), (d.whole(1, 3), d.whole(2, 5)))
    margin, p, swap, how = d.pick(1.0, d.number(0.2, 4)), d.pick(2.0, 2.0, 1.0, 3.0), d.chance(0.3), reduction(d)
    arrays = off_the_hinge(
        lambda: [d.normal(*shape) for _ in range(3)],
        lambda a, b, c: [F.pairwise_distance(a, b, p), F.pairwise_distance(a, c, p), F.pairwise_distance(b, c, p)],
        lambda near, far, other: [near - far + margin, near - other + margin, far - other],
    )
    call = ours("triplet_margin_loss")

    def mine(*xs):
        options = {"margin": margin if margin != 1 else None, "p": p if p != 2 else None, "swap": swap or None}
        return call(*xs, reduction=how, **options)

    theirs = lambda *xs: F.triplet_margin_loss(*xs, margin=margin, p=p, swap=swap, reduction=how)  # noqa: E731
    return Call(arrays, mine, theirs, words(margin=margin, p=p, swap=swap, reduction=how))


@entry("cosine_embedding_loss", area=AREA)
def cosine_embedding_loss(d):
    n, size = d.whole(1, 4), d.whole(2, 4)
    margin, how = d.pick(0.0, d.number(-0.5, 0.5)), reduction(d)
    arrays = off_the_hinge(
        lambda: [d.normal(n, size), d.normal(n, size), d.signed(1, 1, n)],
        lambda a, b, t: [F.cosine_similarity(a, b)],
        lambda cosine: [cosine - margin],
    )
    call = ours("cosine_embedding_loss")
    mine = lambda a, b, t: call(a, b, t, margin=margin or None, reduction=how)  # noqa: E731
    theirs = lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin=margin, reduction=how)  # noqa: E731
    return Call(arrays, mine, theirs, words(margin=margin, reduction=how), moving=(0, 1))


@entry("margin_ranking_loss", area=AREA)
def margin_ranking_loss(d):
    shape, margin, how = d.shape(0, 3, empty=0.0), d.pick(0.0, d.number(-0.5, 1)), reduction(d)
    arrays = off_the_hinge(
        lambda: [d.normal(*shape), d.normal(*shape), d.signed(1, 1, *shape)],
        lambda a, b, t: [a, b, t],
        lambda a, b, t: [margin - t * (a - b)],
    )
    call = ours("margin_ranking_loss")
    mine = lambda a, b, t: call(a, b, t, margin=margin or None, reduction=how)  # noqa: E731
    theirs = lambda a, b, t: F.margin_ranking_loss(a, b, t, margin=margin, reduction=how)  # noqa: E731
    return Call(arrays, mine, theirs, words(margin=margin, reduction=how), moving=(0, 1))


@entry("gaussian_nll_loss", area=AREA)
def gaussian_nll_loss(d):
    shape, full, how = d.shape(1, 3, empty=0.0), d.chance(), reduction(d)
    arrays = [d.normal(*shape), d.normal(*shape), d.uniform(0.2, 3, *shape)]
    call = ours("gaussian_nll_loss")
    mine = lambda x, t, v: call(x, t, v, full=full or None, reduction=how)  # noqa: E731
    theirs = lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=full, reduction=how)  # noqa: E731
    return Call(arrays, mine, theirs, words(full=full, reduction=how))


@entry("poisson_nll_loss", area=AREA)
def poisson_nll_loss(d):
    shape, logarithm, full, how = d.shape(0, 3, empty=0.0), d.chance(0.6), d.chance(), reduction(d)
    x = d.normal(*shape) if logarithm else d.uniform(0.2, 4, *shape)
    targets = d.whole_numbers(0, 6, *shape) * 1.0
    call = ours("poisson_nll_loss")
    mine = lambda x, t: call(x, t, log_input=False if not logarithm else None, full=full or None, reduction=how)  # noqa: E731
    theirs = lambda x, t: F.poisson_nll_loss(x, t, log_input=logarithm, full=full, reduction=how)  # noqa: E731
    return Call([x, targets], mine, theirs, words(log_input=logarithm, full=full, reduction=how), moving=(0,))


def plain_attention(q, k, v, mask=None, causal=False, scale=None):
    """Attention by its definition, with batch axes that broadcast."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not(), -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -torch.inf) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, -1) @ v


def attention(name, kind):
    @entry(name, area=AREA)
    def draw(d):
        n, heads, width, deep = d.whole(1, 2), d.whole(1, 3), d.whole(1, 4), d.whole(1, 3)
        queries, keys = d.whole(1, 4), d.whole(1, 5)
        scale = d.pick(None, None, d.number(0.2, 1.5))
        causal = kind != "mask" and d.chance(0.3)
        groups, of_keys, more = 1, (n, heads), []
        if kind == "grouped":
            groups = d.pick(2, 3)
        elif kind == "broadcast":
            of_keys = d.pick((1, heads), (n, 1), (1, 1))
        else:
            shape = (n, heads, queries, keys)
            cut = d.pick(shape, shape[2:], (1, 1, queries, keys), (n, 1, 1, keys))
            # True where a query may look; each still has a place.
            more = [np.concatenate([np.ones((*cut[:-1], 1), bool), d.mask(*cut[:-1], keys - 1, p=0.7)], -1)]
        q = d.normal(n, heads * groups, queries, width)
        k, v = d.normal(*of_keys, keys, width), d.normal(*of_keys, keys, deep)
        call = ours("scaled_dot_product_attention")

        def mine(q, k, v, mask=None):
            return call(q, k, v, mask=mask, causal=causal or None, scale=scale)

        def theirs(q, k, v, mask=None):
            if groups > 1:
                k, v = (x.repeat_interleave(groups, -3) for x in (k, v))
            return plain_attention(q, k, v, mask, causal, scale)

        text = words(causal=causal, scale=scale, groups=groups, keys=of_keys, mask=more and more[0].shape)
        return Call([q, k, v, *more], mine, theirs, text)


attention("attention_mask", "mask")
attention("attention_grouped", "grouped")
attention("attention_broadcast", "broadcast")


@entry("attention_against_pytorch", area=AREA)
def attention_against_pytorch(d):
    """PyTorch's own function, with a mask and its grouped queries."""
    n, heads, width, queries, keys, groups = (
        d.whole(1, 2),
        d.whole(1, 2),
        d.whole(1, 4),
        d.whole(1, 4),
        d.whole(1, 4),
        d.pick(1, 2),
    )
    q = d.normal(n, heads * groups, queries, width)
    arrays = [q, d.normal(n, heads, keys, width), d.normal(n, heads, keys, width)]
    masked = d.chance()
    if masked:
        mask = d.mask(n, heads * groups, queries, keys, p=0.7)
        mask[..., 0] = True
        arrays.append(mask)
    call = ours("scaled_dot_product_attention")
    mine = lambda q, k, v, m=None: call(q, k, v, mask=m)  # noqa: E731

    def theirs(q, k, v, m=None):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=groups > 1)

    return Call(arrays, mine, theirs, words(groups=groups, masked=masked))


@entry("attention_added", area=AREA)
def attention_added(d):
    """PyTorch's own function, with a mask of numbers that are added to the scores."""
    n, heads, width = d.whole(1, 2), d.whole(1, 2), d.whole(1, 4)
    queries, keys = d.whole(1, 4), d.whole(1, 4)
    arrays = [d.normal(n, heads, queries, width), d.normal(n, heads, keys, width), d.normal(n, heads, keys, width)]
    full = (n, heads, queries, keys)
    added = d.normal(*d.pick(full, full[1:], full[2:], (1, 1, queries, keys), (n, 1, 1, keys)))
    scale = d.pick(None, None, d.number(0.2, 1.5))
    call = ours("scaled_dot_product_attention")
    mine = lambda q, k, v, m: call(q, k, v, mask=m, scale=scale)  # noqa: E731
    theirs = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=scale)  # noqa: E731
    return Call([*arrays, added], mine, theirs, words(mask=added.shape, scale=scale))


@entry("normalize_with_eps", "normalize", area=AREA)
def normalize_with_eps(d):
    shape = list(d.shape(1, 3, empty=0.0))
    axis, p = d.axis(len(shape)), d.pick(2.0, 2.0, 1.0, 3.0, math.inf)
    shape[axis] += 1
    eps = d.pick(1e-12, 1e-12, 0.5)
    x = d.apart(*shape, gap=0.15) + 0.07
    mine = lambda x: ours("normalize")(x, p=p, axis=axis, eps=eps)  # noqa: E731
    return Call([x], mine, lambda x: F.normalize(x, p, axis, eps), words(p=p, axis=axis, eps=eps))


@entry("cosine_similarity_with_eps", "cosine_similarity", area=AREA)
def cosine_similarity_with_eps(d):
    a, b = d.broadcast(2, 1)
    axis, eps = d.axis(max(len(a), len(b))), d.pick(1e-8, 1e-8, 0.1)
    mine = lambda a, b: ours("cosine_similarity")(a, b, axis=axis, eps=eps)  # noqa: E731
    theirs = lambda a, b: F.cosine_similarity(a, b, axis, eps)  # noqa: E731
    return Call([d.signed(0.2, 3, *a), d.signed(0.2, 3, *b)], mine, theirs, words(axis=axis, eps=eps))


@entry("cdist_broadcast", "cdist", area=AREA)
def cdist_broadcast(d):
    a, b = d.broadcast(2, 0, 2)
    n, m, width = d.whole(1, 4), d.whole(1, 4), d.whole(1, 4)
    p = d.pick(2.0, 2.0, 1.0, 3.0)
    count = math.prod(a) * n + math.prod(b) * m
    # Numbers of which no two are alike.
    every = d.apart(count, width, gap=0.12)
    arrays = every[: math.prod(a) * n].reshape(*a, n, width), every[math.prod(a) * n :].reshape(*b, m, width)
    mine = lambda a, b: ours("cdist")(a, b, p=p)  # noqa: E731
    theirs = lambda a, b: torch.cdist(a, b, p)  # noqa: E731
    return Call(list(arrays), mine, theirs, words(p=p), differences=True)


@entry("embedding", area=AREA)
def embedding(d):
    rows, width = d.whole(2, 5), d.whole(1, 3)
    padding = d.pick(None, d.whole(0, rows - 1))
    index = d.whole_numbers(0, rows - 1, *d.shape())
    call = ours("embedding") if padding is None else ours("embedding_with_padding", "embedding")
    mine = lambda w, i: call(w, i, padding_idx=padding)  # noqa: E731
    return Call(
        [d.normal(rows, width), index], mine, lambda w, i: F.embedding(i, w, padding), words(padding_idx=padding)
    )
