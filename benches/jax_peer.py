"""The JAX side of the benchmark: reads `name repetitions warm` lines, answers with seconds.

Started by `cargo run --release -p extensor-bench`, which names the number of threads. Everything is one jitted
function: the loss, its gradient, the optimiser's step. What a step replaces is donated to it.
"""
import os
import sys
import time

THREADS = int(sys.argv[1])
# XLA has as many threads as the process has processors when it starts.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
if THREADS == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax, random  # noqa: E402

MILLIONS = 1 << 24
keys = iter(random.split(random.key(0), 1000))


def normal(*shape):
    return random.normal(next(keys), shape, jnp.float32)


def uniform(fan, *shape):
    """PyTorch's beginning of a layer with so many inputs."""
    return random.uniform(next(keys), shape, jnp.float32, -(fan**-0.5), fan**-0.5)


def formula(x, a, b):
    return jnp.tanh(a * x + b) * jax.nn.sigmoid(x) - jnp.exp(-x * x)


def both(x, a, b, g):
    y, pull = jax.vjp(lambda x: formula(x, a, b), x)
    return y, pull(g)[0]


def layers(h, w, b):
    y = h
    for _ in range(100):
        y = jnp.tanh(y * w + b)
    return y.sum()


def linear(fan, out, bias=True):
    return [uniform(fan, out, fan), uniform(fan, out) if bias else None]


def apply(p, x):
    y = x @ p[0].T
    return y if p[1] is None else y + p[1]


def conv(x, w, bias, padding):
    y = lax.conv_general_dilated(x, w, (1, 1), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return y if bias is None else y + bias[:, None, None]


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def cross_entropy(logits, targets):
    logs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logs, targets[:, None], 1).mean()


def mlp():
    sizes = [784, 512, 512, 10]
    params = [linear(a, b) for a, b in zip(sizes, sizes[1:])]

    def f(params, state, x):
        for p in params[:-1]:
            x = jax.nn.relu(apply(p, x))
        return apply(params[-1], x), state

    return f, params, (), normal(128, 784), 10


def lenet():
    params = [
        [uniform(25, 6, 1, 5, 5), uniform(25, 6)], [uniform(150, 16, 6, 5, 5), uniform(150, 16)],
        linear(400, 120), linear(120, 84), linear(84, 10),
    ]  # fmt: skip

    def f(params, state, x):
        x = pool(jax.nn.relu(conv(x, *params[0], 2)))
        x = pool(jax.nn.relu(conv(x, *params[1], 0)))
        x = x.reshape(x.shape[0], -1)
        x = jax.nn.relu(apply(params[2], x))
        return apply(params[4], jax.nn.relu(apply(params[3], x))), state

    return f, params, (), normal(64, 1, 28, 28), 10


def batch_norm(x, weight, bias, mean, var):
    m, v = x.mean((0, 2, 3)), x.var((0, 2, 3))
    count = x.size // x.shape[1]
    now = [0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v * count / (count - 1)]
    y = (x - m[:, None, None]) * lax.rsqrt(v + 1e-5)[:, None, None]
    return y * weight[:, None, None] + bias[:, None, None], now


def cnn():
    sizes = [(3, 32), (32, 64), (64, 128), (128, 128)]
    params = [[uniform(9 * i, o, i, 3, 3), jnp.ones(o), jnp.zeros(o)] for i, o in sizes] + [linear(128, 10)]
    state = [[jnp.zeros(o), jnp.ones(o)] for _, o in sizes]

    def f(params, state, x):
        after = []
        for k in range(4):
            x, now = batch_norm(conv(x, params[k][0], None, 1), *params[k][1:], *state[k])
            after.append(now)
            x = jax.nn.relu(x)
            x = pool(x) if k in (1, 2) else x
        return apply(params[4], x.mean((2, 3))), after

    return f, params, state, normal(32, 3, 32, 32), 10


def layer_norm(p, x):
    m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * p[0] + p[1]


def gpt(tokens=65, width=128, heads=4, blocks=4, length=64):
    norm = lambda: [jnp.ones(width), jnp.zeros(width)]  # noqa: E731
    block = lambda: [  # noqa: E731
        norm(), linear(width, 3 * width), linear(width, width), norm(), linear(width, 4 * width), linear(4 * width, width),
    ]  # fmt: skip
    params = [
        normal(tokens, width), normal(length, width), [block() for _ in range(blocks)], norm(),
        linear(width, tokens, False),
    ]  # fmt: skip
    seen = jnp.tril(jnp.ones((length, length), bool))

    def attention(x, qkv, out):
        b, t, d = x.shape
        q, k, v = (p.reshape(b, t, heads, d // heads).transpose(0, 2, 1, 3) for p in jnp.split(apply(qkv, x), 3, 2))
        scores = jnp.where(seen, q @ k.transpose(0, 1, 3, 2) * (d // heads) ** -0.5, -jnp.inf)
        return apply(out, (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(b, t, d))

    def f(params, state, x):
        token, place, all_blocks, last, head = params
        x = token[x] + place
        for first, qkv, out, second, wide, back in all_blocks:
            x = x + attention(layer_norm(first, x), qkv, out)
            x = x + apply(back, jax.nn.gelu(apply(wide, layer_norm(second, x)), approximate=False))
        return apply(head, layer_norm(last, x)).reshape(-1, tokens), state

    return f, params, (), jnp.arange(768).reshape(12, 64) % tokens, tokens


def adam(params, grads, m, v, t, decay):
    """One step; `decay` is that of AdamW, 0 for Adam."""
    t = t + 1
    first, second = 1 - 0.9**t, 1 - 0.999**t
    each = jax.tree.map
    m = each(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = each(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    change = lambda p, m, v: p - 1e-3 * (decay * p + m / first / (jnp.sqrt(v / second) + 1e-8))  # noqa: E731
    return each(change, params, m, v), m, v, t


def step(network, decay=0.0):
    f, params, state, x, classes = network
    count = x.size if classes == 65 else x.shape[0]
    targets = jnp.arange(count) % classes

    def run(params, state, m, v, t, x, targets):
        def loss(params):
            logits, after = f(params, state, x)
            return cross_entropy(logits, targets), after

        (value, after), grads = jax.value_and_grad(loss, has_aux=True)(params)
        return (*adam(params, grads, m, v, t, decay), after, value)

    jitted = jax.jit(run, donate_argnums=(0, 1, 2, 3))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
    kept = [params, state, zeros(), zeros(), jnp.float32(0)]

    def go():
        params, m, v, t, after, value = jitted(*kept, x, targets)
        kept[:] = [params, after, m, v, t]
        jax.block_until_ready((kept, value))

    return go


def called(f, *args):
    jitted = jax.jit(f)
    return lambda: jax.block_until_ready(jitted(*args))


def workload(name):
    x = lambda: normal(MILLIONS)  # noqa: E731
    numbers = jnp.float32(1.5), jnp.float32(-0.25)
    few = lambda: [normal(16) for _ in range(3)]  # noqa: E731
    table = {
        "chain": lambda: called(formula, x(), *numbers),
        "chain_fb": lambda: called(both, x(), *numbers, x()),
        "small": lambda: called(jax.grad(layers), *few()),
        "small_all": lambda: called(jax.grad(layers, (0, 1, 2)), *few()),
        "mlp": lambda: step(mlp()),
        "lenet": lambda: step(lenet()),
        "cnn": lambda: step(cnn()),
        "gpt": lambda: step(gpt(), 0.01),
    }
    return table[name]() if name in table else None


def seconds(name, repetitions, warm):
    """How long each repetition took, after others for `warm`; nothing if there is no such workload."""
    if name not in work:
        work[name] = workload(name)
    f = work[name]
    if f is None:
        return []
    start = time.perf_counter()
    while time.perf_counter() - start < warm:
        f()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return times


work = {}
print("ready", jax.__version__, flush=True)
for line in sys.stdin:
    name, repetitions, warm = line.split()
    try:
        times = seconds(name, int(repetitions), float(warm))
        print(" ".join(f"{t:.9f}" for t in times), flush=True)
    except Exception as error:
        print("error", type(error).__name__, str(error)[:200].replace("\n", " "), flush=True)
