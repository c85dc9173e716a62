"""Trajectories of torch.optim and values of its schedulers, for crates/extensor/tests/optim.

    python tools/optim_golden.py > crates/extensor/tests/optim/golden.json

Every optimiser runs for 100 steps on one small function in float64, and on given gradients in float32, with learning
rates at which it does not swing around the minimum (each step would magnify the rounding of the last). Lion, which torch
has not, is written here as its paper has it.
"""

import json
import math
import sys

import torch
from torch.optim import lr_scheduler as schedulers

STEPS = 100
KEPT = [1, 2, 3, 5, 10, 20, 40, 60, 80, 100]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p.sub_(group["lr"] * (c.sign() + group["weight_decay"] * p))
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


T = torch.optim
OPTIMISERS = {
    "sgd": lambda p: T.SGD(p, 0.1),
    "sgd decay": lambda p: T.SGD(p, 0.1, weight_decay=0.05),
    "sgd momentum": lambda p: T.SGD(p, 0.05, momentum=0.9),
    "sgd dampening": lambda p: T.SGD(p, 0.05, momentum=0.8, dampening=0.3, weight_decay=0.01),
    "sgd nesterov": lambda p: T.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: T.Adam(p, 0.01),
    "adam decay": lambda p: T.Adam(p, 0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adam amsgrad": lambda p: T.Adam(p, 0.05, betas=(0.9, 0.9), amsgrad=True),
    "adam beta": lambda p: T.Adam(p, 0.02, betas=(0.3, 0.7)),
    "adamw": lambda p: T.AdamW(p, 0.01),
    "adamw decay": lambda p: T.AdamW(p, 0.02, betas=(0.85, 0.98), weight_decay=0.5),
    "adamw amsgrad": lambda p: T.AdamW(p, 0.02, betas=(0.9, 0.9), weight_decay=0.1, amsgrad=True),
    "rmsprop": lambda p: T.RMSprop(p, 0.01),
    "rmsprop decay": lambda p: T.RMSprop(p, 0.002, alpha=0.9, eps=1e-6, weight_decay=0.1),
    "rmsprop momentum": lambda p: T.RMSprop(p, 0.003, alpha=0.95, momentum=0.8),
    "rmsprop centred": lambda p: T.RMSprop(p, 0.005, alpha=0.9, centered=True),
    "rmsprop centred momentum": lambda p: T.RMSprop(p, 0.002, alpha=0.9, centered=True, momentum=0.7),
    "adagrad": lambda p: T.Adagrad(p, 0.1),
    "adagrad decay": lambda p: T.Adagrad(p, 0.1, lr_decay=0.02, weight_decay=0.05),
    "adagrad start": lambda p: T.Adagrad(p, 0.2, initial_accumulator_value=0.5, eps=1e-6),
    "lion": lambda p: Lion(p, 0.003),
    "lion decay": lambda p: Lion(p, 0.01, betas=(0.8, 0.95), weight_decay=0.3),
    "adamw clipped": lambda p: T.AdamW(p, 0.05),
    "sgd clipped": lambda p: T.SGD(p, 0.5, momentum=0.5),
    "adamw groups": lambda p: T.AdamW(
        [dict(params=p[:1], lr=0.002, weight_decay=0.4), dict(params=p[1:], weight_decay=0.0)], 0.01
    ),
}
CLIP = 0.1


def start(dtype):
    w = [[0.3, -0.8, 0.5], [-0.2, 0.7, -0.4]]
    b = [0.1, -0.6]
    return [torch.tensor(x, dtype=dtype, requires_grad=True) for x in (w, b)]


def loss(w, b):
    x = torch.tensor([[1.0, 2.0, -1.0], [0.5, -1.5, 2.0], [-2.0, 0.3, 0.7], [1.2, -0.4, -0.9]], dtype=w.dtype)
    y = torch.tensor([[0.5, -0.3], [-0.8, 0.9], [0.2, 0.4], [-0.6, -0.1]], dtype=w.dtype)
    d = torch.tanh(x @ w.T + b) - y
    return torch.log1p(d * d).sum()


def given(step, size):
    """Gradients that the test can make again, exactly: multiples of 1/64."""
    return [((step * 37 + i * 101 + step * i * 13) % 255 - 127) / 64 for i in range(size)]


def run(name, make, dtype):
    params = start(dtype)
    optimiser = make(params)
    kept = []
    for step in range(1, STEPS + 1):
        if dtype == torch.float64:
            optimiser.zero_grad()
            loss(*params).backward()
        else:
            flat = torch.tensor(given(step, 8), dtype=dtype)
            params[0].grad, params[1].grad = flat[:6].reshape(2, 3), flat[6:].clone()
        if "clipped" in name:
            # As torch.nn.utils.clip_grad_norm_, which adds 1e-6 to the norm: the limit is missed by that.
            norm = torch.sqrt(sum((p.grad**2).sum() for p in params))
            for p in params:
                p.grad *= min(1.0, CLIP / norm)
        optimiser.step()
        if step in KEPT:
            digits = 12 if dtype == torch.float64 else 9
            flat = torch.cat([p.detach().flatten() for p in params]).tolist()
            kept.append([float(f"%.{digits}g" % v) for v in flat])
    return kept


S = schedulers


def sequential(optimiser, warm, start, then):
    return S.SequentialLR(
        optimiser, [S.LinearLR(optimiser, start, 1.0, warm), then(optimiser)], milestones=[warm]
    )


SCHEDULES = {
    "constant": lambda o: S.ConstantLR(o, 1.0, 1),
    "step": lambda o: S.StepLR(o, 7, 0.3),
    "multi step": lambda o: S.MultiStepLR(o, [5, 6, 20], 0.2),
    "exponential": lambda o: S.ExponentialLR(o, 0.93),
    "cosine": lambda o: S.CosineAnnealingLR(o, 25, 0.01),
    "cosine restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 6, 2, 0.02),
    "cosine restarts even": lambda o: S.CosineAnnealingWarmRestarts(o, 9, 1, 0.0),
    "one cycle": lambda o: S.OneCycleLR(o, 0.5, 60),
    "one cycle linear": lambda o: S.OneCycleLR(
        o, 0.5, 60, pct_start=0.4, anneal_strategy="linear", div_factor=10, final_div_factor=100
    ),
    "one cycle three phases": lambda o: S.OneCycleLR(o, 0.5, 60, pct_start=0.4, three_phase=True),
    "warm-up cosine": lambda o: sequential(o, 10, 0.1, lambda o: S.CosineAnnealingLR(o, 50)),
    "warm-up exponential": lambda o: sequential(o, 8, 0.25, lambda o: S.ExponentialLR(o, 0.9)),
}

PLATEAUS = {
    "plateau": dict(factor=0.5, patience=2),
    "plateau cooldown": dict(factor=0.3, patience=1, cooldown=3, min_lr=0.01),
    "plateau rising": dict(mode="max", factor=0.5, patience=3, threshold=0.05),
    "plateau absolute": dict(threshold=0.2, threshold_mode="abs", patience=1, factor=0.7),
}


def measured(step):
    return 2.0 / (1 + step) + 0.3 * math.cos(2.0 * step)


def rates(make, observes):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.2, momentum=0.9)
    scheduler = make(optimiser)
    found = []
    for step in range(60):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if step < 59:
            scheduler.step(measured(step)) if observes else scheduler.step()
    return [float("%.13g" % lr) for lr in found]


golden = {
    "torch": torch.__version__,
    "kept": KEPT,
    "f64": {name: run(name, make, torch.float64) for name, make in OPTIMISERS.items()},
    "f32": {name: run(name, make, torch.float32) for name, make in OPTIMISERS.items()},
    "schedules": {name: rates(make, False) for name, make in SCHEDULES.items()},
    "plateaus": {
        name: rates(lambda o, s=s: S.ReduceLROnPlateau(o, **s), True) for name, s in PLATEAUS.items()
    },
}
json.dump(golden, sys.stdout, separators=(",", ":"))
print()
