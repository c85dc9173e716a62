"""The PyTorch side of the benchmark: reads `name repetitions` lines, answers with seconds.

Started by `cargo run --release -p extensor-bench`, which names the number of threads.
"""
import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)
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
    x = torch.randn(k, m).T if layout[0] == "t" else torch.randn(m, k)
    y = torch.randn(n, k).T if layout[1] == "t" else torch.randn(k, n)
    return lambda: x @ y


work = {}
print("ready", torch.__version__, flush=True)
for line in sys.stdin:
    name, repetitions = line.split()
    if name not in work:
        work[name] = matmul(name) if name.startswith("matmul") else elementwise(name)
    f = work[name]
    inner = 1000 if name.startswith("small") else 1
    times = []
    f()
    for _ in range(int(repetitions)):
        start = time.perf_counter()
        for _ in range(inner):
            f()
        times.append((time.perf_counter() - start) / inner)
    print(" ".join(f"{t:.9f}" for t in times), flush=True)
