"""How often a gelu of which the forward is the tanh approximation and the backward that of the erf form
passes: python docs/gradcheck_misses.py (with extensor and PyTorch installed). 20 random inputs of each size.
"""
import torch

import extensor as ex


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
            y = torch.nn.functional.gelu(x)
        return torch.autograd.grad(y, x, grad_output)[0]


tight = {"atol": 1e-8, "rtol": 1e-6}
ways = {
    "gradcheck fast": lambda x: torch.autograd.gradcheck(Gelu.apply, x, fast_mode=True, raise_exception=False),
    "gradcheck slow": lambda x: torch.autograd.gradcheck(Gelu.apply, x, raise_exception=False),
    "fast, tight": lambda x: torch.autograd.gradcheck(Gelu.apply, x, fast_mode=True, raise_exception=False, **tight),
    "extensor fast": lambda x: ex.check_grad(Gelu, x, mode="fast").passed,
    "extensor full": lambda x: ex.check_grad(Gelu, x, mode="full").passed,
}
print("torch", torch.__version__)
print("elements  " + "  ".join(ways))
for size in (1, 3, 10, 100):
    passed = dict.fromkeys(ways, 0)
    for seed in range(20):
        torch.manual_seed(seed)
        x = torch.randn(size, dtype=torch.float64, requires_grad=True)
        for name, check in ways.items():
            passed[name] += check(x)
    print(f"{size:8}  " + "  ".join(f"{count:{len(name)}}" for name, count in passed.items()))
