"""How long the Python package takes to import, one operation on 16 elements beside NumPy and PyTorch
where they are installed, and what it costs to copy or share an array of 64 MiB: `python benches/bench_python.py` with the package installed from a
release wheel. Every figure is the least of many repetitions.
"""

import argparse
import importlib
import importlib.util
import subprocess
import sys
import timeit


def import_time(name, repetitions):
    """The least time of an import in a fresh process, in milliseconds."""
    code = f"import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
    run = lambda: float(subprocess.run(  # noqa: E731
        [sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    return 1e3 * min(run() for _ in range(repetitions))


def nanoseconds(f, repetitions, number=2000):
    """The least time of a call, in nanoseconds."""
    timer = timeit.Timer(f)
    return 1e9 / number * min(timer.repeat(repetitions, number))


def extensor_calls(ex):
    values = [float(i) / 16 for i in range(16)]
    x, y = ex.asarray(values, dtype=ex.float32), ex.asarray(values, dtype=ex.float32)
    a = ex.reshape(x, (4, 4))
    return {
        "exp(x)": lambda: ex.exp(x),
        "x + y": lambda: x + y,
        "x * 2.0": lambda: x * 2.0,
        "add(x, y)": lambda: ex.add(x, y),
        "sum(x)": lambda: ex.sum(x),
        "matmul(a, a)": lambda: ex.matmul(a, a),
        "a @ a": lambda: a @ a,
        "x[3]": lambda: x[3],
        "x.shape": lambda: x.shape,
        "reshape": lambda: ex.reshape(x, (4, 4)),
        "relu(x)": lambda: ex.relu(x),
        "grad": lambda f=ex.grad(lambda v: ex.sum(v * v)): f(x),
    }


def numpy_calls(np):
    x = np.arange(16, dtype=np.float32) / 16
    y, a = x.copy(), x.reshape(4, 4)
    return {
        "exp(x)": lambda: np.exp(x),
        "x + y": lambda: x + y,
        "x * 2.0": lambda: x * 2.0,
        "add(x, y)": lambda: np.add(x, y),
        "sum(x)": lambda: np.sum(x),
        "matmul(a, a)": lambda: np.matmul(a, a),
        "a @ a": lambda: a @ a,
        "x[3]": lambda: x[3],
        "x.shape": lambda: x.shape,
        "reshape": lambda: np.reshape(x, (4, 4)),
        "relu(x)": lambda: np.maximum(x, 0),
    }


def torch_calls(torch):
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    x = torch.arange(16, dtype=torch.float32) / 16
    y, a = x.clone(), x.reshape(4, 4)

    def gradient():
        with torch.enable_grad():
            v = x.detach().requires_grad_()
            (v * v).sum().backward()
            return v.grad

    return {
        "exp(x)": lambda: torch.exp(x),
        "x + y": lambda: x + y,
        "x * 2.0": lambda: x * 2.0,
        "add(x, y)": lambda: torch.add(x, y),
        "sum(x)": lambda: torch.sum(x),
        "matmul(a, a)": lambda: torch.matmul(a, a),
        "a @ a": lambda: a @ a,
        "x[3]": lambda: x[3],
        "x.shape": lambda: x.shape,
        "reshape": lambda: torch.reshape(x, (4, 4)),
        "relu(x)": lambda: torch.relu(x),
        "grad": gradient,
    }


def exchange(ex, np):
    """Ways in and out for an array of 64 MiB."""
    array = np.ones(2**24, dtype=np.float32)
    locked = array.copy()
    locked.flags.writeable = False
    x = ex.asarray(array)
    return {
        "asarray(array)": lambda: ex.asarray(array),
        "array.copy()": lambda: array.copy(),
        "asarray(array, copy=False)": lambda: ex.asarray(array, copy=False),
        "asarray(read-only array)": lambda: ex.asarray(locked),
        "from_dlpack(array)": lambda: ex.from_dlpack(array),
        "numpy.asarray(x)": lambda: np.asarray(x),
        "numpy.from_dlpack(x)": lambda: np.from_dlpack(x),
        "numpy.from_dlpack(x, copy=False)": lambda: np.from_dlpack(x, copy=False),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--imports", type=int, default=10)
    options = parser.parse_args()
    makers = {"extensor": extensor_calls, "numpy": numpy_calls, "torch": torch_calls}
    found = {name: make for name, make in makers.items() if importlib.util.find_spec(name)}
    for name in found:
        print(f"import {name:9} {import_time(name, options.imports):9.1f} ms")
    columns = {
        name: {call: nanoseconds(f, options.repetitions) for call, f in make(importlib.import_module(name)).items()}
        for name, make in found.items()
    }
    print(f"\n{'ns a call':14}" + "".join(f"{name:>10}" for name in columns))
    for call in columns["extensor"]:
        figures = (columns[name].get(call) for name in columns)
        print(f"{call:14}" + "".join(f"{v:10.0f}" if v is not None else f"{'-':>10}" for v in figures))
    if "numpy" in found:
        print("\n64 MiB in or out, ms")
        for call, f in exchange(*map(importlib.import_module, ("extensor", "numpy"))).items():
            print(f"{call:34}{1e-6 * nanoseconds(f, options.repetitions, 2):10.4f}")


if __name__ == "__main__":
    main()
