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


def test_the_parameters_of_a_torch_module_are_said_not_to_be_checked():
    layer, x = torch.nn.Linear(3, 2).double(), torch.randn(4, 3, dtype=torch.float64)
    for f in (layer, layer.forward):
        report = ex.check_grad(f, x)
        assert report.passed and report.elements == 12
        assert "the parameters of Linear are not checked" in " ".join(str(report).split())
    assert "not checked" not in str(ex.check_grad(torch.nn.Tanh(), x))


def test_a_torch_function_that_changes_its_input_is_reported():
    report = ex.check_grad(lambda x: x.mul_(2.0), torch.ones(2, dtype=torch.float64))
    assert report.problem == "mutation" and "was 1.0 before the call and is 2.0 after" in str(report)
