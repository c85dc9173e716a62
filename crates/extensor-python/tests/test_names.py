"""One name is shown for one thing, and it is the standard's."""

import inspect

import pytest

import extensor as ex
from extensor import _standard, nn


def test_the_standards_name_is_shown_and_the_catalogues_works():
    x = ex.asarray([[1.0, -2.0], [3.0, 4.0]])
    for own, standard in _standard.RENAMED.items():
        assert own in dir(ex.ops) and own not in dir(ex) and standard in dir(ex), own
        assert callable(getattr(ex, own))
    assert ex.power(x, 2.0).tolist() == ex.pow(x, 2.0).tolist() and ex.negate is ex.negative
    assert ex.cumsum(x, axis=1).tolist() == ex.cumulative_sum(x, axis=1).tolist()
    assert ex.transpose(x).tolist() == ex.permute_dims(x, (1, 0)).tolist()
    assert repr(ex.pow) == "<extensor operation pow(base, exponent)>" and ex.pow.__name__ == "pow"
    assert repr(ex.ops.power) == "<extensor operation power(base, exponent)>"


def test_what_is_shown_is_there_and_nothing_private_is_shown():
    for name in dir(ex):
        assert hasattr(ex, name), name
        assert not name.startswith("_") or name.startswith("__"), name


@pytest.mark.parametrize(
    "name, said",
    [
        ("neg", "it is called extensor.negative here"),
        ("cat", "extensor.concat joins tensors"),
        ("silu", "it is called extensor.swish here"),
        ("cross_entrop", "did you mean extensor.cross_entropy?"),
    ],
)
def test_a_hint_names_what_is_shown(name, said):
    with pytest.raises(AttributeError) as error:
        getattr(ex, name)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "module, name, said",
    [
        (ex.ops, "bincount", "it is extensor.bincount"),
        (ex.ops, "silu", "it is called ops.swish here"),
        (ex.linalg, "choleski", "did you mean extensor.linalg.cholesky?"),
        (ex.linalg, "silu", "it is called extensor.ops.swish here"),
    ],
)
def test_a_module_of_the_package_hints_too(module, name, said):
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "name, said",
    [
        ("unsqueeze", "it is called extensor.expand_dims here"),
        ("view", "it is called extensor.reshape here"),
        ("add_", "did you mean extensor.add?"),
        ("backward", "extensor.grad differentiates functions"),
        ("exp", "extensor.exp is a function"),
    ],
)
def test_a_method_of_another_librarys_tensors_is_found(name, said):
    x = ex.ones(2)
    with pytest.raises(AttributeError, match="'extensor.Tensor' object has no attribute") as error:
        getattr(x, name)
    assert said in str(error.value)
    assert not hasattr(x, name) and not hasattr(x, "__no_such_protocol__")


def operations():
    return [op for op in ex.ops.CATALOGUE.values() if isinstance(op, ex.Operation)]


@pytest.mark.parametrize("op", operations(), ids=lambda op: op.__name__)
def test_an_axis_is_called_axis_unless_it_is_an_order_of_all(op):
    names = list(inspect.signature(op).parameters)
    assert ("axes" in names) == (op.__name__ == "transpose"), names


def test_the_other_name_of_an_axis_still_works():
    x = ex.ones((2, 3))
    assert ex.ops.sum(x, axes=0).tolist() == ex.ops.sum(x, axis=0).tolist()
    assert ex.sum_backward(ex.ones(3), (2, 3), axes=0).shape == (2, 3)
    assert ex.ops.flip(x, axes=[0]).shape == x.shape and ex.ops.roll(x, shifts=1, axes=[1]).shape == x.shape
    with pytest.raises(TypeError, match="given twice"):
        ex.ops.sum(x, axis=0, axes=0)


def test_a_model_prints_itself_with_its_settings():
    model = nn.Sequential(nn.Conv2d(ex.Key(1), 1, 4, 3, padding=1), ex.relu, nn.Dropout(0.5), nn.BatchNorm2d(4))
    assert repr(model) == str(model)
    assert "0: Conv2d(weight: float32[4, 1, 3, 3], bias: float32[4], stride: 1, padding: 1" in repr(model)
    assert "1: relu" in repr(model) and "2: Dropout(p: 0.5)" in repr(model) and "momentum: 0.1" in repr(model)


def test_a_summary_counts_parameters_and_tells_buffers():
    class Network(nn.Module):
        conv: nn.Conv2d
        blocks: list
        extra: dict
        scale: ex.Tensor

        def __init__(self, key):
            self.conv = nn.Conv2d(key, 1, 2, 3, bias=False)
            self.blocks = [nn.BatchNorm2d(2), nn.LayerNorm(2)]
            self.extra = {"head": nn.Linear(key, 2, 3)}
            self.scale = ex.ones((), dtype="float64")

    found = nn.summary(Network(ex.Key(1)))
    assert found.parameters == 18 + 4 + 4 + 9 + 1 and found.tensors == 8 and found.buffers == 5
    assert found.bytes == 4 * 35 + 8
    text = str(found)
    assert text.splitlines()[-1] == "36 parameters in 8 tensors, 148 bytes; 5 numbers in buffers"
    assert "blocks.0: BatchNorm2d (momentum 0.1, eps 1e-05)" in text and "extra.head: Linear" in text
    assert any(line.split() == ["running_mean", "float32", "[2]", "buffer"] for line in text.splitlines())
    assert nn.summary(ex.ones(3)).parameters == 3 and "0 parameters in 0 tensors" in str(nn.summary([]))
    assert "1.0 KiB" in str(nn.summary(ex.ones(128)))
