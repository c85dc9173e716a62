"""Functions of PyTorch, written by hand or not, are checked as others are, and what PyTorch's own
fast check lets pass is caught."""

import pytest

import extensor as ex

torch = pytest.importorskip("torch")


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.gelu(x, approximate="tanh")

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = torch.nn.functional.gelu(x)  # erf
        return torch.autograd.grad(y, x, grad_output)[0]


def test_torch_fast_gradcheck_passes_the_gelu_pair_that_is_caught_here():
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(1024, dtype=torch.float64, requires_grad=True)
        missed = torch.autograd.gradcheck(Gelu.apply, x, fast_mode=True, raise_exception=False)
        assert missed, "PyTorch became stricter: say so in docs/book/pages/checking/python.md"
        assert not ex.check_grad(Gelu, x, mode="fast")
    report = ex.check_grad(Gelu, x.detach()[:8])
    assert report.problem == "wrong" and report.worst.argument == "x" and report.name == "Gelu"


def test_torch_functions_are_checked_by_differences():
    x, w = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert ex.check_grad(lambda x, w: torch.tanh(x @ w), x, w, order=2)
    report = ex.check_grad(lambda x, w: torch.tanh(x @ w.detach()), x, w)
    assert report.problem == "wrong" and "zero where it should not be" in report.hint
    assert {row.argument for row in report.wrong()} == {"w"}
    assert x.grad is None and w.grad is None


def test_a_hand_written_torch_function_with_a_bug_is_caught():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x, scale)
            return x * scale

        @staticmethod
        def backward(ctx, grad_output):
            x, scale = ctx.saved_tensors
            return grad_output * scale, grad_output * x

    x, scale = torch.randn(2, 3), torch.randn(3)
    assert ex.check_grad(Scale, x, scale)  # torch's engine sums what was broadcast by itself

    class Wrong(Scale):
        @staticmethod
        def backward(ctx, grad_output):
            x, scale = ctx.saved_tensors
            return grad_output * scale, (grad_output * x).mean(0)

    report = ex.check_grad(Wrong, x, scale)
    assert report.problem == "wrong" and "0.5 everywhere; only in scale" in report.hint
    assert report.dtype == "float64" and "float32 inputs, checked in float64" in str(report)
    with pytest.raises(AssertionError, match="Wrong: WRONG GRADIENT at 3 of 9 elements"):
        ex.assert_grad(Wrong, x, scale)


def test_a_wrong_second_derivative_of_torch_is_caught():
    class Sin(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * torch.cos(x.detach())  # cuts the graph

    x = torch.randn(4, dtype=torch.float64)
    assert ex.check_grad(Sin, x).passed
    report = ex.check_grad(Sin, x, order=2)
    assert not report.passed and report.name == "the gradient of Sin"


def test_a_pair_of_torch_functions_is_checked():
    x = torch.randn(5)
    assert ex.check_gradient(torch.sin, lambda g, x: g * torch.cos(x), x)
    assert not ex.check_gradient(torch.sin, lambda g, x: -g * torch.cos(x), x)


def test_the_apply_of_a_torch_function_is_named_as_the_function_is():
    x = torch.randn(4, dtype=torch.float64)
    report = ex.check_grad(Gelu.apply, x)
    assert report.name == "Gelu" and report.worst.argument == "x"


class Wrong(torch.nn.Module):
    """A layer whose gradient for its weight is half of what it should be."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3))
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        half = self.weight.detach() / 2 + self.weight / 2
        return x * half + self.shift


def test_a_module_is_checked_with_its_parameters_in_float64():
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    for f in (layer, layer.forward):
        report = ex.check_grad(f, x, order=2)
        assert report.passed and report.elements == 12 + 6 + 2 and report.dtype == "float64"
        assert report.name == "Linear" and report.eps < 1e-4
    report = ex.check_grad(Wrong(), x)
    assert {row.argument for row in report.wrong()} == {"parameters.weight"}
    assert "0.5 everywhere; only in parameters.weight" in report.hint
    assert ex.check_grad(torch.nn.Tanh(), x).elements == 12


def test_a_module_is_left_as_it_was_whatever_happens():
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.drop = torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)
            self.fails = False

        def forward(self, x):
            y = self.drop(self.norm(x))
            if self.fails:
                raise KeyError("on purpose")
            return y

    module, x = Broken(), torch.randn(6, 3)
    module.norm.weight.requires_grad_(False)
    module.drop.train(), module.norm.eval()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    random = torch.random.get_rng_state()
    for fails in (False, True):
        module.fails = fails
        if fails:
            with pytest.raises(KeyError):
                ex.check_grad(module, x)
        else:
            assert ex.check_grad(module, x)
        after = module.state_dict()
        for name, value in state.items():
            assert torch.equal(after[name], value) and after[name].dtype == value.dtype
        assert module.drop.training and not module.norm.training
        assert not module.norm.weight.requires_grad and module.norm.bias.requires_grad
        assert all(p.grad is None for p in module.parameters()) and x.grad is None
        assert torch.equal(torch.random.get_rng_state(), random)


def test_modules_in_training_mode_are_checked_with_one_draw_and_that_is_said():
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Dropout(0.5))
    x = torch.randn(6, 4)
    report = ex.check_grad(module.train(), x)
    text = " ".join(str(report).split())
    assert report.passed and "every call draws the same random numbers" in text
    assert int(module[1].num_batches_tracked) == 0
    assert "random numbers" not in str(ex.check_grad(module.eval(), x))


def test_frozen_parameters_and_single_methods_are_said_not_to_be_checked():
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    layer.weight.requires_grad_(False)
    report = ex.check_grad(layer, x)
    assert report.passed and report.elements == 14 and "not checked: weight" in str(report)
    layer.double_it = lambda x: layer(x) * 2.0

    class Encoder(torch.nn.Linear):
        def encode(self, x):
            return self(x)

    report = ex.check_grad(Encoder(3, 2).encode, x)
    assert report.elements == 12 and "are not checked, encode being one method" in " ".join(str(report).split())


def test_a_module_of_whole_numbers_and_one_without_inputs_are_checked():
    table = torch.nn.Embedding(5, 3)
    assert ex.check_grad(table, torch.tensor([0, 2, 2])).elements == 15

    class Alone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(3))

        def forward(self):
            return torch.exp(self.w)

    assert ex.check_grad(Alone()).elements == 3
    tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    tied[2].weight = tied[0].weight
    assert ex.check_grad(tied, torch.randn(2, 3)).elements == 6 + 9 + 3 + 3


def test_a_torch_function_that_changes_its_input_is_reported():
    report = ex.check_grad(lambda x: x.mul_(2.0), torch.ones(2, dtype=torch.float64))
    assert report.problem == "mutation" and "was 1.0 before the call and is 2.0 after" in str(report)
