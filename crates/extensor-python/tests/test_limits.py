"""What no machine has is an error, what takes long can be ended, and files are what they were."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest

import extensor as ex

HUGE = 2**40


def view(*shape):
    return ex.broadcast_to(ex.ones((1,)), shape)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ex.repeat(ex.ones((3,)), HUGE),
        lambda: ex.repeat(ex.ones((3,)), ex.asarray([1, HUGE, 1])),
        lambda: ex.ops.split(view(HUGE), HUGE),
        lambda: ex.zeros((2**60,)),
        lambda: ex.ones((HUGE,)),
        lambda: ex.full((HUGE,), 3.0),
        lambda: ex.arange(10**13),
        lambda: ex.linspace(0, 1, HUGE),
        lambda: ex.eye(2**21),
        lambda: ex.tile(ex.ones((3,)), (HUGE,)),
        lambda: view(HUGE).tolist(),
        lambda: ex.nonzero(view(HUGE)),
        lambda: ex.unique_values(view(HUGE)),
        lambda: ex.sum(view(2**60)),
        lambda: ex.jacobian(lambda x: x * x)(view(2**20)),
    ],
)
def test_what_no_machine_has_is_a_memory_error_and_not_an_abort(call):
    with pytest.raises((MemoryError, ValueError)):
        call()


@pytest.mark.parametrize(
    "code",
    [
        "ex.sum(ex.broadcast_to(ex.ones((1,)), (2**40,)))",
        "ex.max(ex.broadcast_to(ex.ones((1,)), (2**20, 2**20)))",
        "ex.jacobian(lambda x: ex.sin(x))(ex.ones((20_000,)))",
        "ex.ops.matmul(ex.ones((6000, 6000)), ex.ones((6000, 6000)))\nwhile True: pass",
    ],
)
def test_ctrl_c_is_heard_within_a_second(code):
    lines = f"""
        import signal, sys, time
        import extensor as ex
        print("ready", flush=True)
        try:
{textwrap.indent(code, " " * 12)}
            print("done")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(float(ex.sum(ex.ones((100_000,)))))
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(lines)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    took = time.monotonic() - sent
    assert child.communicate()[0] == "100000.0\n"
    assert took < 1, took


def test_another_exception_of_a_signal_handler_ends_a_long_call_too():
    def handler(*_):
        raise TimeoutError("too long")

    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(TimeoutError, match="too long"):
            ex.sum(view(HUGE))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("kind", ["safetensors", "npy", "npz"])
def test_saving_keeps_permissions_links_and_pipes(tmp_path, kind):
    save = {
        "safetensors": lambda path: ex.io.save_safetensors(path, {"x": ex.ones((3,))}),
        "npy": lambda path: ex.io.save_npy(path, ex.ones((3,))),
        "npz": lambda path: ex.io.save_npz(path, {"x": ex.ones((3,))}),
    }[kind]
    real, link, pipe = tmp_path / "real", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("real")
    save(link)
    assert link.is_symlink() and real.is_file()
    real.chmod(0o600)
    save(real)
    save(link)
    assert stat.S_IMODE(real.stat().st_mode) == 0o600 and link.is_symlink()
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    save(pipe)
    assert reader.communicate()[0] == real.read_bytes()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "pipe", "real"]


def test_a_flipped_bit_in_a_file_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "x.safetensors"
    ex.io.save_safetensors(path, {"x": ex.ones((3,))}, {"note": "hello"})
    whole = path.read_bytes()
    for at, text in [(len(whole) - 1, "checksum"), (whole.index(b"hello"), "checksum")]:
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises((OSError, ValueError), match=text):
            ex.io.load_safetensors(path)


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    lines = """
        import sys, time
        from extensor.train import Checkpoints
        claim = Checkpoints(sys.argv[1]).claim()
        print("claimed", flush=True)
        time.sleep(60)
    """
    folder = tmp_path / "run"
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(lines), folder], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "claimed\n"
        data = ex.data.Loader(ex.ones((8, 2)), ex.ones((8, 1)), 4, ex.Key(0))
        model = {"w": ex.ones((1, 2))}

        def loss(model, x, y, mode):
            return ex.ops.mean_squared_error(ex.ops.linear(x, model["w"]), y)

        def train(**more):
            return ex.train.fit(
                model, loss, data, ex.optim.Sgd(0.1), key=ex.Key(1), steps=2, progress=False,
                checkpoints=folder, **more,
            )  # fmt: skip

        with pytest.raises(OSError, match=f"process {other.pid} is training in this folder"):
            train()
    finally:
        other.kill()
        other.wait()
    assert train().end == "done"
    assert train(resume=True).end == "done"


def test_the_difference_of_order_0_is_the_tensor_itself():
    x = ex.asarray([1.0, 4.0, 9.0])
    more = ex.asarray([7.0])
    for options in [{}, {"prepend": more}, {"append": more}, {"prepend": more, "append": more}]:
        assert ex.diff(x, n=0, **options).tolist() == [1.0, 4.0, 9.0]
    assert ex.diff(x, prepend=more).tolist() == [-6.0, 3.0, 5.0]
    assert ex.diff(x, n=2**40).shape == (0,)
