"""The PyTorch side of the benchmark: reads `name repetitions warm` lines, answers with seconds.

Started by `cargo run --release -p extensor-bench`, which names the number of threads, and `torch`, or `compile` for
what users compile: the loss with its backward pass, and the optimiser's step.
"""
import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)
COMPILED = sys.argv[2:] == ["compile"]
torch.set_grad_enabled(False)

MILLIONS = 1 << 24
a, b = torch.randn(MILLIONS), torch.randn(MILLIONS)
small = torch.randn(16)
few = torch.randn(16)


def elementwise(name):
    return {
        "add": lambda: a + b,
        "exp": lambda: torch.exp(a),
        "sum": lambda: a.sum(),
        "mean_rows": lambda: a.view(4096, 4096).mean(1),
        "mean_columns": lambda: a.view(4096, 4096).mean(0),
        "tanh": lambda: torch.tanh(a),
        "log": lambda: torch.log(a),
        "sin": lambda: torch.sin(a),
        "erf": lambda: torch.erf(a),
        "add_transposed": lambda: a.view(4096, 4096) + b.view(4096, 4096).T,
        "small_add": lambda: small + few,
        "small_exp": lambda: torch.exp(small),
        "small_sum": lambda: small.sum(),
    }.get(name)


def matmul(name):
    # matmul_tn_512x512x512: A transposed in memory, B not
    _, layout, sizes = name.split("_")
    m, k, n = map(int, sizes.split("x"))
    if layout == "bf16":
        x, y = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16()
        return lambda: x @ y
    x = torch.randn(k, m).T if layout[0] == "t" else torch.randn(m, k)
    y = torch.randn(n, k).T if layout[1] == "t" else torch.randn(k, n)
    return lambda: x @ y


EINSUMS = {
    "product": ("ij,jk->ik", (512, 512), (512, 512)),
    "batched": ("bij,bjk->bik", (64, 128, 128), (64, 128, 128)),
    "scores": ("bhqd,bhkd->bhqk", (8, 8, 256, 64), (8, 8, 256, 64)),
    "values": ("bhqk,bhkd->bhqd", (8, 8, 256, 256), (8, 8, 256, 64)),
    "bilinear": ("bi,ijk,bj->bk", (64, 128), (128, 128, 128), (64, 128)),
    "outer": ("i,j->ij", (2048,), (2048,)),
    "chain": ("ij,jk,kl->il", (200, 200), (200, 200), (200, 200)),
    "inner": ("ij,ij->", (1024, 1024), (1024, 1024)),
    "small_transpose": ("ij->ji", (64, 64)),
    "small_diagonal": ("ii->i", (64, 64)),
}


def einsum(name):
    equation, *shapes = EINSUMS[name]
    operands = [torch.randn(*shape) for shape in shapes]
    return lambda: torch.einsum(equation, *operands)


def linalg(name):
    # linalg_qr_100x64: of 100 matrices, each 64 × 64
    _, which, sizes = name.split("_")
    batch, side = map(int, sizes.split("x"))
    a, b = torch.randn(batch, side, side), torch.randn(batch, side, 16)
    even, definite = a + a.mT, a @ a.mT / side + torch.eye(side)
    return {
        "cholesky": lambda: torch.linalg.cholesky(definite),
        "solve": lambda: torch.linalg.solve(a, b),
        "qr": lambda: torch.linalg.qr(a),
        "svd": lambda: torch.linalg.svd(a, full_matrices=False),
        "eigh": lambda: torch.linalg.eigh(even),
    }[which]


def made(f):
    """The function, compiled if that is asked for."""
    return torch.compile(f) if COMPILED else f


def fb(f, inputs, grad):
    """Forward and backward, as autograd does it, of all inputs."""
    inputs = [x.detach().requires_grad_() for x in inputs]

    def run():
        with torch.enable_grad():
            y = f(*inputs)
            return y, torch.autograd.grad(y, inputs, grad)

    return run


def networks(name):
    F = torch.nn.functional
    r = torch.randn
    if name == "gelu":
        return lambda: F.gelu(a)
    x, g = r(4096, 1024), r(4096, 1024)
    image, same = r(32, 64, 32, 32), r(32, 64, 32, 32)
    table = {
        "relu_fb": lambda: fb(F.relu, [x], g),
        "tanh_fb": lambda: fb(torch.tanh, [x], g),
        "gelu_fb": lambda: fb(F.gelu, [x], g),
        "softmax_fb": lambda: fb(lambda x: F.softmax(x, -1), [x], g),
        "layer_norm_fb": lambda: fb(
            lambda x, w, b: F.layer_norm(x, [1024], w, b), [x, r(1024), r(1024)], g
        ),
        "cross_entropy_fb": lambda: fb(
            lambda x: F.cross_entropy(x, torch.arange(4096) * 37 % 1024), [x], torch.tensor(1.0)
        ),
        "conv2d_fb": lambda: fb(
            lambda x, w: F.conv2d(x, w, None, 1, 1), [image, r(128, 64, 3, 3)], r(32, 128, 32, 32)
        ),
        "depthwise_fb": lambda: fb(
            lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 64), [image, r(64, 1, 3, 3)], same
        ),
        "batch_norm_fb": lambda: fb(
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [image, r(64), r(64)], same
        ),
        "maxpool_fb": lambda: fb(lambda x: F.max_pool2d(x, 2), [image], r(32, 64, 16, 16)),
        "conv3d_fb": lambda: fb(
            lambda x, w: F.conv3d(x, w, None, 1, 1),
            [r(4, 32, 16, 28, 28), r(64, 32, 3, 3, 3)],
            r(4, 64, 16, 28, 28),
        ),
        "bilinear_fb": lambda: fb(
            lambda x: F.interpolate(x, size=(64, 64), mode="bilinear"), [image], r(32, 64, 64, 64)
        ),
        "attention_fb": lambda: fb(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            [r(12, 4, 256, 64) for _ in range(3)],
            r(12, 4, 256, 64),
        ),
    }
    return table[name]() if name in table else None


def training(name):
    if name in ("chain", "chain_fb"):
        x, g, a, b = torch.randn(MILLIONS), torch.randn(MILLIONS), torch.tensor(1.5), torch.tensor(-0.25)
        f = made(lambda x, a, b: torch.tanh(a * x + b) * torch.sigmoid(x) - torch.exp(-x * x))
        return (lambda: f(x, a, b)) if name == "chain" else fb(lambda x: f(x, a, b), [x], g)
    if name in ("small", "small_all"):
        h, w, b = (torch.randn(16) for _ in range(3))
        by = [h] if name == "small" else [h, w, b]
        by = [x.requires_grad_() for x in by]

        @made
        def layers(h, w, b):
            y = h
            for _ in range(100):
                y = torch.tanh(y * w + b)
            return y.sum()

        def run():
            with torch.enable_grad():
                return torch.autograd.grad(layers(h, w, b), by)

        return run
    nn = torch.nn
    adam = torch.optim.Adam
    if name == "mlp":
        sizes = [784, 512, 512, 10]
        layers = [x for i in range(3) for x in (nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU())]
        return step(nn.Sequential(*layers[:-1]), torch.randn(128, 784), 128, adam)
    if name == "lenet":
        net = nn.Sequential(
            *[nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)],
            *[nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()],
            *[nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)],
        )
        return step(net, torch.randn(64, 1, 28, 28), 64, adam)
    if name == "cnn":
        layers = []
        for k, (i, o) in enumerate([(3, 32), (32, 64), (64, 128), (128, 128)]):
            layers += [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if k in (1, 2) else []
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
        return step(nn.Sequential(*layers), torch.randn(32, 3, 32, 32), 32, adam)
    if name == "gpt":
        return step(Gpt(), torch.arange(768).reshape(12, 64) % 65, 768, torch.optim.AdamW)
    if name in ("large_gpt", "large_gpt_bf16"):
        tokens = torch.arange(4096).reshape(16, 256) % 65
        mixed = name.endswith("bf16")
        return step(Gpt(65, 384, 6, 6, 256), tokens, 4096, torch.optim.AdamW, mixed)
    return None


def step(net, x, count, optimizer, mixed=False):
    targets = torch.arange(count) % (65 if count in (768, 4096) else 10)
    optimizer = optimizer(net.parameters(), lr=1e-3)
    loss_of = made(lambda x, targets: torch.nn.functional.cross_entropy(net(x), targets))
    update = made(optimizer.step)

    def run():
        with torch.enable_grad():
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                loss = loss_of(x, targets)
            loss.backward()
            update()

    return run


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        nn = torch.nn
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        F = torch.nn.functional
        b, t, d = x.shape
        parts = self.qkv(self.first(x)).split(d, 2)
        q, k, v = (p.view(b, t, self.heads, d // self.heads).transpose(1, 2) for p in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, d))
        return x + self.back(F.gelu(self.wide(self.second(x))))


class Gpt(torch.nn.Module):
    def __init__(self, tokens=65, width=128, heads=4, blocks=4, length=64):
        super().__init__()
        nn = torch.nn
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def workload(name):
    if COMPILED:
        return training(name)
    if name.startswith("einsum_"):
        return einsum(name.removeprefix("einsum_"))
    if name.startswith("linalg_"):
        return linalg(name)
    return matmul(name) if name.startswith("matmul") else elementwise(name) or networks(name) or training(name)


def seconds(name, repetitions, warm):
    """How long each repetition took, after others for `warm`; nothing if there is no such workload."""
    if name not in work:
        work[name] = workload(name)
    f = work[name]
    if f is None:
        return []
    inner = 1000 if name.removeprefix("einsum_").startswith("small_") and name not in ("small", "small_all") else 1
    times = []
    start = time.perf_counter()
    while time.perf_counter() - start < warm:
        f()
    for _ in range(repetitions):
        start = time.perf_counter()
        for _ in range(inner):
            f()
        times.append((time.perf_counter() - start) / inner)
    return times


work = {}
print("ready", torch.__version__, flush=True)
for line in sys.stdin:
    name, repetitions, warm = line.split()
    try:
        times = seconds(name, int(repetitions), float(warm))
        print(" ".join(f"{t:.9f}" for t in times), flush=True)
    except Exception as error:
        print("error", type(error).__name__, str(error)[:200].replace("\n", " "), flush=True)
