"""Learning rates as functions of the step: the Rust library's schedules.

A schedule is a value that is called with a step, from 0 on; what a step is, is the caller's: a
batch or an epoch. The values are those of PyTorch's schedulers.

>>> from extensor.optim import schedule
>>> rate = schedule.cosine(1e-3, 900).warm_up(100)
>>> rate(0), rate(100)
(0.0, 0.001)
"""

from .._core import (
    Schedule,
    schedule_constant as constant,
    schedule_cosine as cosine,
    schedule_cosine_restarts as cosine_restarts,
    schedule_exponential as exponential,
    schedule_multi_step as multi_step,
    schedule_one_cycle as one_cycle,
    schedule_step as step,
)

__all__ = [
    "Schedule", "constant", "cosine", "cosine_restarts", "exponential", "multi_step", "one_cycle",
    "step",
]
