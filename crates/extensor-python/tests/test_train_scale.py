"""Training in float16: the loss is scaled, and an overflow is seen, survived and learnt from."""

import json
import math

import pytest

import extensor as ex
from extensor import data, nn, optim, train


class Steep(nn.Module):
    """Two layers, of which the first is 2**-12 times too small and the second as much too large: what
    goes forward is as ever, and what comes back between them overflows float16."""

    first: nn.Linear
    second: nn.Linear

    def __init__(self, key, by=4096.0):
        a, b = key.split(2)
        first, second = nn.Linear(a, 2, 16), nn.Linear(b, 16, 2)
        self.first = first.replace(weight=first.weight / by, bias=first.bias / by)
        self.second = second.replace(weight=second.weight * by)

    def forward(self, x, mode):
        return self.second(ex.relu(self.first(x))), self

    def __call__(self, x):
        return self.forward(x, nn.INFERENCE)[0]


def examples():
    x = ex.Key(5).normal((64, 2), dtype="float32")
    return x, ex.ops.cast(x[:, 0] * x[:, 1] > 0.0, "int64")


def trained(model, **settings):
    found = []
    result = train.fit(
        model, train.classification(), data.Loader(*examples(), 16, ex.Key(2)), optim.Sgd(1e-6),
        key=ex.Key(3), progress=False, on_step=found.append, **settings,
    )  # fmt: skip
    return result, found


def test_gradients_too_small_for_float16_are_kept_by_scaling_the_loss():
    small = ex.asarray(1e-4, dtype="float16")  # its square is 0

    def loss(w, x, y, mode):
        return ex.sum(w * small * small)

    def moved(compute, **more):
        loader = data.Loader(ex.ones((4, 1)), ex.ones(4), 4, ex.Key(1))
        w = ex.zeros(1, dtype="float32")
        found = train.fit(w, loss, loader, optim.Sgd(1.0), steps=3, key=ex.Key(2), compute=compute,
                          progress=False, **more)  # fmt: skip
        return found.model.item(), found.state

    unscaled, _ = moved("float16", loss_scale=train.LossScale(1.0, interval=0))
    assert unscaled == 0.0
    scaled, state = moved("float16")
    steps = 3 - state.overflows
    assert steps > 0 and scaled == pytest.approx(-1e-8 * steps, rel=1e-2)


@pytest.mark.parametrize("compute", [None, "float32", "bfloat16"])
def test_only_float16_is_scaled(compute):
    result, found = trained(Steep(ex.Key(1), 1.0), steps=5, compute=compute)
    assert result.state.scale.value == 1.0 and result.state.overflows == 0
    assert all(step.scale == 1.0 and not step.skipped for step in found)


def test_an_overflow_in_a_layer_is_seen_halves_the_scale_and_is_survived(tmp_path):
    start = Steep(ex.Key(1))
    lines = tmp_path / "metrics.jsonl"
    result, found = trained(start, steps=40, compute="float16", metrics=lines)
    state, skipped = result.state, [step.skipped for step in found]
    # Every overflow came first, halved the scale and left the model as it was.
    assert 1 < state.overflows < 30 and skipped == sorted(skipped, reverse=True)
    assert state.overflows == sum(skipped)
    scales = [step.scale for step in found]
    assert scales[: state.overflows] == [65536.0 / 2.0**k for k in range(1, state.overflows + 1)]
    assert set(scales[state.overflows :]) == {state.scale.value}
    assert state.optimizer.step == 40 - state.overflows
    assert found[0].loss == pytest.approx(found[4].loss, rel=0.5) and found[-1].loss < found[0].loss
    assert all(math.isfinite(step.loss) for step in found)
    assert all(ex.all(ex.isfinite(x)) for x in result.model.parameters().values())
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    steps = [line for line in written if "lr" in line]
    assert sum(line.get("skipped", 0) for line in steps) == state.overflows
    assert steps[0]["loss_scale"] == 32768.0


def test_a_run_that_goes_on_has_the_scale_it_had(tmp_path):
    whole, _ = trained(Steep(ex.Key(1)), steps=30, compute="float16")
    for steps in (4, 17, 30):
        part, _ = trained(Steep(ex.Key(1)), steps=steps, compute="float16", checkpoints=tmp_path, resume=True)
    assert part.state.scale == whole.state.scale and part.state.overflows == whole.state.overflows
    assert part.model.first.weight.tolist() == whole.model.first.weight.tolist()


def test_an_overflow_that_no_scale_mends_is_an_error_that_names_the_operation():
    fixed = train.LossScale(16384.0, interval=0)
    with pytest.raises(FloatingPointError, match="a gradient is not finite: linear: its gradient for x is -?inf"):
        trained(Steep(ex.Key(1)), steps=5, compute="float16", loss_scale=fixed)


def test_a_loss_scale_is_one_of_trains():
    with pytest.raises(TypeError, match="train.LossScale"):
        trained(Steep(ex.Key(1)), steps=1, compute="float16", loss_scale=1024.0)
    with pytest.raises(ValueError, match="positive"):
        train.LossScale(0.0)
