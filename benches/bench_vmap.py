"""The gradients of a network's loss for each example of a batch: `ex.vmap(ex.grad(loss))` beside a loop over
`ex.grad`, and beside `torch.func` where PyTorch is installed: `python benches/bench_vmap.py` with the package
installed. Each figure is the least of many repetitions, taken in turns.
"""

import argparse
import time

SIZES, BATCH = (784, 512, 512, 10), 256


def extensor_calls():
    import extensor as ex

    keys = ex.Key(1).split(len(SIZES))
    pairs = list(zip(SIZES, SIZES[1:]))
    draw = lambda key, n, m: key.normal((m, n), dtype=ex.float32) * ex.asarray(n ** -0.5, dtype=ex.float32)
    model = [(draw(key, n, m), ex.zeros((m,), dtype=ex.float32)) for key, (n, m) in zip(keys, pairs)]
    x = keys[-1].normal((BATCH, SIZES[0]), dtype=ex.float32)
    t = ex.asarray([i % SIZES[-1] for i in range(BATCH)])

    def loss(model, x, t):
        for i, (w, b) in enumerate(model):
            x = ex.linear(x, w, b)
            x = ex.relu(x) if i + 1 < len(model) else x
        return ex.cross_entropy(x, t)

    each = ex.vmap(ex.grad(loss), in_axes=(None, 0, 0))
    one = ex.grad(loss)
    rows, targets = [x[i] for i in range(BATCH)], [t[i] for i in range(BATCH)]

    def loop():
        found = [ex.tree.leaves(one(model, a, b)) for a, b in zip(rows, targets)]
        return [ex.stack(list(leaves)) for leaves in zip(*found)]

    def close():
        for a, b in zip(ex.tree.leaves(each(model, x, t)), loop()):
            assert float(ex.max(ex.abs(a - b))) < 1e-4 * float(ex.max(ex.abs(b)))

    close()
    return {"extensor vmap(grad)": lambda: each(model, x, t), "extensor loop over grad": loop}


def torch_calls():
    try:
        import torch
        from torch.func import grad, vmap
    except ImportError:
        return {}
    pairs = list(zip(SIZES, SIZES[1:]))
    model = [(torch.randn(m, n) * n ** -0.5, torch.zeros(m)) for n, m in pairs]
    x, t = torch.randn(BATCH, SIZES[0]), torch.arange(BATCH) % SIZES[-1]

    def loss(model, x, t):
        for i, (w, b) in enumerate(model):
            x = torch.nn.functional.linear(x, w, b)
            x = torch.relu(x) if i + 1 < len(model) else x
        return torch.nn.functional.cross_entropy(x, t)

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    return {"torch.func vmap(grad)": lambda: each(model, x, t)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repetitions", type=int, default=15)
    repetitions = arguments.parse_args().repetitions
    calls = {**extensor_calls(), **torch_calls()}
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(repetitions):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - start)
    for name, seconds in least.items():
        print(f"{name:<28}{1e3 * seconds:>10.2f} ms")


if __name__ == "__main__":
    main()
