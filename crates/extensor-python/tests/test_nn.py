"""Layers and models: gradients against differences, names, bits, immutability, statistics."""

import inspect
import pickle
from pathlib import Path

import pytest

import extensor as ex
from extensor import io, nn, tree

FIXTURES = Path(__file__).parents[2] / "extensor/tests/fixtures"


def key(seed=1):
    return ex.Key(seed)


def far(a, b):
    """The largest distance of two elements in the same place."""
    return float(ex.ops.max_reduce(ex.abs(a - b)))


def directional(f, at, seed, h=1e-6):
    """The derivative of `f` along a random direction: by differences, and by the gradient."""
    leaves, structure = tree.flatten(at, buffers=False)
    along = [key(seed).fold_in(i).normal(x.shape, "float64") for i, x in enumerate(leaves)]
    moved = [tree.unflatten(structure, [x + s * h * v for x, v in zip(leaves, along)]) for s in (1, -1)]
    differences = (float(f(moved[0])) - float(f(moved[1]))) / (2 * h)
    grads = tree.flatten(ex.grad(f)(at), buffers=False)[0]
    return differences, sum(float(ex.sum(g * v)) for g, v in zip(grads, along))


LAYERS = {
    "linear": (lambda: nn.Linear(key(), 4, 3), (5, 4)),
    "linear without bias": (lambda: nn.Linear(key(), 4, 3, bias=False), (2, 5, 4)),
    "conv1d": (lambda: nn.Conv1d(key(), 4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(key(), 3, 4, (3, 2), stride=(2, 1), padding=1), (2, 3, 6, 5)),
    "conv_transpose2d": (
        lambda: nn.ConvTranspose2d(key(), 3, 4, 3, stride=2, output_padding=1), (2, 3, 4, 4)),
    "batch_norm2d": (lambda: nn.BatchNorm2d(3), (4, 3, 2, 5)),
    "layer_norm": (lambda: nn.LayerNorm((3, 4)), (5, 3, 4)),
    "rms_norm": (lambda: nn.RMSNorm(4), (5, 4)),
    "group_norm": (lambda: nn.GroupNorm(2, 6), (2, 6, 3)),
    "attention": (lambda: nn.MultiHeadAttention(key(), 8, 2), (2, 5, 8)),
    "dropout": (lambda: nn.Dropout(0.4), (6, 7)),
    "maxpool2d": (lambda: nn.MaxPool2d(2), (2, 3, 4, 6)),
    "avgpool2d": (lambda: nn.AvgPool2d((2, 3), stride=(1, 2), padding=1), (2, 3, 4, 6)),
    "global_avgpool": (lambda: nn.GlobalAvgPool(), (2, 3, 4, 6)),
    "adaptive_avgpool": (lambda: nn.AdaptiveAvgPool((2, 3)), (2, 3, 5, 7)),
    "flatten": (lambda: nn.Flatten(), (2, 3, 5)),
    "sequential": (
        lambda: nn.Sequential(nn.Linear(key(), 4, 8), ex.tanh, nn.LayerNorm(8), nn.Linear(key(2), 8, 2)),
        (5, 4)),
    "mlp": (lambda: nn.models.Mlp(key(), [6, 5, 4]), (3, 2, 3)),
    "lenet5": (lambda: nn.models.LeNet5(key(), (1, 12, 12), 3), (2, 1, 12, 12)),
    "resnet": (lambda: nn.models.ResNet(key(), 2, 3, 1, widths=(2, 3, 4)), (3, 2, 8, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("mode", [nn.INFERENCE, nn.Training(ex.Key(5))], ids=["inference", "training"])
def test_the_gradient_of_every_layer_is_that_of_differences(name, mode):
    make, shape = LAYERS[name]
    layer = make().astype("float64")
    x = key(3).normal(shape, "float64")
    weights = key(4).normal(layer.forward(x, mode)[0].shape, "float64")

    def f(both):
        layer, x = both
        return ex.sum(layer.forward(x, mode)[0] * weights)

    for seed in (6, 7):
        differences, gradient = directional(f, (layer, x), seed)
        assert gradient == pytest.approx(differences, rel=1e-5, abs=1e-6)


def test_the_gradient_of_an_embedding_and_of_a_transformer_is_that_of_differences():
    tokens = ex.asarray([[1, 2, 2], [0, 4, 1]])
    for model in (
        nn.Embedding(key(), 5, 3),
        nn.models.Gpt(key(), vocabulary=5, context=4, layers=2, heads=2, width=8, dropout=0.1),
    ):
        model = model.astype("float64")
        mode = nn.Training(key(9))
        weights = key(4).normal(model.forward(tokens, mode)[0].shape, "float64")
        f = lambda model: ex.sum(model.forward(tokens, mode)[0] * weights)  # noqa: E731
        differences, gradient = directional(f, model, 6)
        assert gradient == pytest.approx(differences, rel=1e-5, abs=1e-6)


def fnv(tensors):
    """FNV-1a of the bytes of tensors, one after the other."""
    digest = 0xCBF29CE484222325
    for x in tensors:
        for byte in x.numpy().tobytes():
            digest = ((digest ^ byte) * 0x100000001B3) % (1 << 64)
    return digest


# Printed by a Rust program with the Rust library's layers and models of the same keys and sizes, with
# FNV-1a over the bytes of all leaves in order.
RUST = {
    "linear": (lambda: nn.Linear(key(7), 5, 3), 3690665387795738620),
    "linear without bias": (lambda: nn.Linear(key(7), 5, 3, bias=False), 5572608664446037441),
    "embedding": (lambda: nn.Embedding(key(7), 6, 4), 7509926622909207029),
    "conv1d": (lambda: nn.Conv1d(key(7), 4, 6, 3, groups=2), 15709117005753732911),
    "conv2d": (lambda: nn.Conv2d(key(7), 4, 6, (3, 2), groups=2), 291620111748234619),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(key(7), 4, 6, 3, groups=2), 5216576866576447968),
    "batch_norm2d": (lambda: nn.BatchNorm2d(3), 11361014056250016693),
    "layer_norm": (lambda: nn.LayerNorm(3), 9658270558431750856),
    "group_norm": (lambda: nn.GroupNorm(2, 4), 8856400964634267653),
    "attention": (lambda: nn.MultiHeadAttention(key(7), 8, 2), 10196015258892520539),
    "mlp": (lambda: nn.models.Mlp(key(7), [5, 4, 3]), 15743109623849754723),
    "lenet5": (lambda: nn.models.LeNet5(key(7), (1, 12, 12), 10), 17588339520557905495),
    "resnet": (lambda: nn.models.ResNet(key(7), 3, 5, 2, widths=(2, 3, 4)), 18010245797047514136),
    "gpt": (lambda: nn.models.Gpt(key(7), 5, 4, 2, 2, 8), 5171763853272875644),
    "truncated normal": (lambda: nn.init.truncated_normal(key(7), (4, 5), 0.5, 2.0, -1.0, 3.0), 3815621297276872431),
    "orthogonal": (lambda: nn.init.orthogonal(key(7), (4, 3), 2.0), 8317137437552020695),
}


@pytest.mark.parametrize("name", RUST)
def test_a_layer_of_the_same_key_has_the_same_bits_as_in_rust(name):
    make, digest = RUST[name]
    assert fnv(tree.leaves(make())) == digest


def test_lenet5_of_pytorch_gives_pytorchs_logits():
    model = io.load_into(FIXTURES / "lenet5.safetensors", nn.models.LeNet5(key()))
    case = io.load_safetensors(FIXTURES / "lenet5-case.safetensors")
    assert far(model(case["pictures"]), case["logits"]) <= 1e-5


def test_leaves_have_pytorchs_names():
    names = lambda x: list(x.state_dict())  # noqa: E731
    assert names(nn.models.Mlp(key(), [4, 3, 2]))[2:] == ["layers.1.weight", "layers.1.bias"]
    assert names(nn.MultiHeadAttention(key(), 4, 2)) == [
        "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]  # fmt: skip
    block = nn.models.ResNet(key(), 1, 2, 1, widths=(2, 3, 4))
    assert "layer2.0.downsample.1.running_mean" in names(block)
    assert "layer2.0.downsample.1.running_mean" not in block.parameters()
    assert names(nn.Sequential(nn.Flatten(), nn.Linear(key(), 2, 1))) == ["1.weight", "1.bias"]


def test_modules_are_immutable_and_replace_makes_another():
    layer = nn.Linear(key(), 3, 2)
    with pytest.raises(AttributeError, match="immutable"):
        layer.weight = layer.bias
    with pytest.raises(AttributeError, match="immutable"):
        del layer.weight
    other = layer.replace(bias=None)
    assert other.bias is None and layer.bias is not None and other.weight is layer.weight
    with pytest.raises(AttributeError, match="no field 'wieght'"):
        layer.replace(wieght=layer.weight)
    with pytest.raises(TypeError, match="'bias' is missing"):
        nn.Linear.of(weight=layer.weight)


def test_a_field_that_is_not_annotated_is_an_error_and_not_silently_no_parameter():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(key(), 2, 2)

    with pytest.raises(AttributeError, match="no field 'layer'"):
        Forgetful()


def test_a_module_without_a_constructor_takes_its_fields_in_order_or_by_name():
    class Scale(nn.Module):
        factor: ex.Tensor
        power: int = 2
        label: str = nn.static("x")
        seen: ex.Tensor = nn.buffer(None)

        def __call__(self, x):
            return (x * self.factor) ** self.power

    scale = Scale(ex.asarray(3.0), seen=ex.asarray(7.0))
    assert float(scale(ex.asarray(2.0))) == 36.0
    assert list(scale.parameters()) == ["factor"] and list(scale.state_dict()) == ["factor", "seen"]
    grads = ex.grad(lambda m: m(ex.asarray(2.0)))(scale)
    assert type(grads) is Scale and float(grads.factor) == 24.0 and float(grads.seen) == 7.0
    with pytest.raises(TypeError, match="'factor' is missing"):
        Scale()
    with pytest.raises(TypeError, match="twice"):
        Scale(ex.asarray(1.0), factor=ex.asarray(1.0))


def test_batch_norm_returns_the_layer_with_new_statistics_and_never_loses_them():
    layer = nn.BatchNorm2d(2)
    x = key().normal((8, 2, 3, 3))
    mode = nn.Training(key(2))
    y, new = layer.forward(x, mode)
    mean = ex.ops.mean(x, (0, 2, 3))
    assert far(new.running_mean, 0.1 * mean) < 1e-6
    assert int(new.num_batches_tracked) == 1 and int(layer.num_batches_tracked) == 0
    with pytest.raises(TypeError, match="would be lost"):
        layer(x, mode=mode)
    assert layer.forward(x)[1] is layer
    net = nn.Sequential(nn.Conv2d(key(), 2, 2, 1), layer)
    _, new = net.forward(x, mode)
    assert int(new[1].num_batches_tracked) == 1 and new[0] is net[0]
    with pytest.raises(TypeError, match="would be lost"):
        net(x, mode=mode)
    assert net(x).shape == x.shape


def test_dropout_drops_in_training_alone_and_differently_in_each_place():
    x = ex.ones((50,), dtype="float32")
    net = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    assert net(x).tolist() == [1.0] * 50
    found = net(x, mode=nn.Training(key())).tolist()
    assert set(found) == {0.0, 2.0, 4.0} or set(found) == {0.0, 4.0}
    assert 0 < found.count(4.0) < 25
    assert found == net(x, mode=nn.Training(key())).tolist()


def test_attention_of_one_tensor_is_that_of_three_alike_and_masks_hide():
    layer = nn.MultiHeadAttention(key(), 8, 2)
    x = key(2).normal((2, 4, 8))
    same = layer(x)
    apart = layer.attend(x, x + 0.0, x + 0.0)
    assert far(same, apart) < 1e-6
    causal = layer(x, causal=True)
    mask = ex.asarray([[j <= i for j in range(4)] for i in range(4)])
    assert far(causal, layer.attend(x, x, x, mask)) < 1e-6
    with pytest.raises(ValueError, match=r"query has shape \[4, 8\]"):
        layer(ex.ones((4, 8), dtype="float32"))


def test_mistakes_are_told_in_the_librarys_sentences():
    with pytest.raises(ValueError, match="groups"):
        nn.Conv2d(key(), 3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="heads"):
        nn.MultiHeadAttention(key(), 6, 4)
    with pytest.raises(ValueError, match="at least two"):
        nn.models.Mlp(key(), [3])
    with pytest.raises(ValueError, match="12 rows"):
        nn.models.LeNet5(key(), (1, 8, 8))
    with pytest.raises(ValueError, match="groups"):
        nn.GroupNorm(4, 6)
    with pytest.raises(TypeError, match="takes a key"):
        nn.Training(3)
    with pytest.raises(TypeError, match="module or a function"):
        nn.Sequential(3)

    class Nothing(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="neither"):
        Nothing()(1.0)


def test_state_dicts_are_loaded_strictly():
    model, other = nn.Linear(key(1), 3, 2), nn.Linear(key(2), 3, 2)
    loaded = model.load_state_dict(other.state_dict())
    assert loaded.weight.tolist() == other.weight.tolist()
    state = other.state_dict()
    with pytest.raises(ValueError, match="bias is missing"):
        model.load_state_dict({"weight": state["weight"]})
    with pytest.raises(ValueError, match="extra is not expected"):
        model.load_state_dict({**state, "extra": state["bias"]})
    with pytest.raises(ValueError, match=r"bias is float32\[2, 3\], expected float32\[2\]"):
        model.load_state_dict({**state, "bias": state["weight"]})


def test_modules_go_through_pickle_and_keep_their_structure():
    model = nn.Sequential(nn.Linear(key(), 3, 2), nn.BatchNorm2d(2))
    again = pickle.loads(pickle.dumps(model))
    assert fnv(tree.leaves(again)) == fnv(tree.leaves(model))
    assert tree.flatten(again)[1] == tree.flatten(model)[1]
    assert tree.flatten(nn.Linear(key(), 2, 2))[1] != tree.flatten(nn.Linear(key(), 2, 2, False))[1]


# Printed by the same Rust program: what the Rust library's model of this key continues [1, 2] with.
CONTINUED = [5, 8, 5, 5, 0, 3, 3, 0, 3, 9, 3, 0]


def test_a_transformer_continues_a_text_as_in_rust_and_only_looks_back():
    model = nn.models.Gpt(key(7), 11, 6, 2, 2, 8)
    model = tree.map(lambda x: x * 6.0, model)  # sharper distributions than those it begins with
    assert model.generate([1, 2], 12, key(8), temperature=1.5, top_k=5) == CONTINUED
    greedy = model.generate([1], 4, key(8), temperature=0)
    logits = model(ex.asarray([[1, *greedy[:3]]]))
    assert ex.ops.argmax(logits, -1).tolist()[0] == greedy
    one, other = model(ex.asarray([[1, 2, 3]])), model(ex.asarray([[1, 2, 9]]))
    assert one[0, 1].tolist() == other[0, 1].tolist() and one[0, 2].tolist() != other[0, 2].tolist()
    with pytest.raises(ValueError, match="at least one token"):
        model.generate([], 1, key())
    with pytest.raises(ValueError, match="at most 6 tokens"):
        model(ex.ones((1, 7), dtype="int64"))


def test_parameters_that_no_memory_holds_raise_memory_error():
    shape = (2**25, 2**25)
    for begin in (nn.init.truncated_normal, nn.init.orthogonal, nn.init.normal):
        with pytest.raises(MemoryError):
            begin(key(), shape)
    with pytest.raises(MemoryError):
        nn.Linear(key(), *shape)


class TorchStyle(nn.Module):
    fc: nn.Linear
    scale: float = 2.0

    def __init__(self, key):
        super().__init__()
        self.fc = nn.Linear(key, 3, 2)

    def forward(self, x):
        return self.fc(x) * self.scale


def test_a_module_written_as_in_pytorch_works():
    x, model = ex.Key(2).normal((5, 3)), TorchStyle(ex.Key(1))
    y = model(x)
    assert y.tolist() == (model.fc(x) * 2.0).tolist() == model.forward(x).tolist()
    mode = nn.Training(ex.Key(3))
    assert model(x, mode).tolist() == y.tolist()
    found, module = model.forward(x, mode)
    assert found.tolist() == y.tolist() and module is model
    assert nn.Sequential(model, ex.relu)(x).shape == (5, 2)
    grads = ex.grad(lambda m: ex.sum(m(x)))(model)
    assert list(grads.parameters()) == ["fc.weight", "fc.bias"] and grads.scale == 2.0

    class Shifted(TorchStyle):
        def forward(self, x):
            return super().forward(x) + 1.0

    assert Shifted(ex.Key(1))(x).tolist() == (y + 1.0).tolist()


def test_a_forward_with_a_mode_that_returns_no_pair_is_told_so():
    class Wrong(nn.Module):
        def forward(self, x, mode):
            return x

    with pytest.raises(TypeError, match=r"Wrong.forward\(x, mode\) returned Tensor, expected \(y, module\)"):
        Wrong()(ex.ones((2, 3)))


def test_the_signature_of_a_module_names_its_fields():
    class Pair(nn.Module):
        first: nn.Linear
        count: int = 3
        last: nn.Linear

    class Own(Pair):
        def __init__(self, key, width=4):
            pass

    texts = {kind: str(inspect.signature(kind)) for kind in (nn.Flatten, Pair, Own, TorchStyle)}
    assert texts[nn.Flatten] == "()" and texts[Pair] == "(first, count=3, *, last)"
    assert texts[Own] == "(key, width=4)" and texts[TorchStyle] == "(key)"
    with pytest.raises(AttributeError, match="Own has no attribute 'first'"):
        Own(1).first
