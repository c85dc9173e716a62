"""The package is typed: `mypy --strict` passes on its sources and on a program that uses all of it, and
its stubs say what is there."""

import os
import pathlib
import runpy
import subprocess
import sys

import pytest

pytest.importorskip("mypy")
HERE = pathlib.Path(__file__).parent
# Not what is installed: beside it lie other packages' sources, which mypy would take for this one's.
SOURCES = HERE.parent / "python"


def mypy(*arguments, cwd=None):
    command = [sys.executable, "-m", *map(str, arguments)]
    # Colours and the width of the terminal are not asked for.
    environment = {**os.environ, "MYPY_FORCE_COLOR": "0"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def test_a_program_that_uses_the_whole_package_is_strictly_typed(tmp_path):
    found = mypy("mypy", "--strict", "--cache-dir", tmp_path / "cache", HERE / "typed_program.py", cwd=tmp_path)
    assert found.returncode == 0, found.stdout


def test_the_program_that_uses_the_whole_package_runs():
    runpy.run_path(str(HERE / "typed_program.py"), run_name="__main__")


def test_the_packages_own_sources_are_strictly_typed(tmp_path):
    packages = [SOURCES / "extensor", SOURCES / "pytest_extensor"]
    found = mypy("mypy", "--strict", "--cache-dir", tmp_path / "cache", *packages, cwd=tmp_path)
    assert found.returncode == 0, found.stdout


def test_the_stubs_say_what_is_there(tmp_path):
    allowed = HERE / "stubtest_allowlist.txt"
    found = mypy("mypy.stubtest", "extensor", "--allowlist", allowed, "--concise", cwd=tmp_path)
    assert found.returncode == 0, found.stdout


def test_mistakes_are_found(tmp_path):
    lines = [
        "import extensor as ex",
        "from extensor import data, nn, optim, train",
        "x = ex.asarray([1.0])",
        "ex.softmax(x, axis='wrong')",
        "ex.cross_entropy(x, x, reduction='none of these')",
        "ex.sum(x, axes=0)",
        "ex.power(x, 2.0)",
        "x.shape = (1,)",
        "nn.Linear(1, 2, 3)",
        "optim.Adam('fast')",
        "train.Trainer(x, optim.Adam(0.1)).step(3)",
        "y: int = ex.grad(ex.sum)(x)",
        "data.Loader(x, x, key=3)",
        "nn.Linear(ex.Key(1), 2, 3).weigth",
        "ex.compile(lambda: x, limit='many')",
        "ex.compile(len)(3)",
    ]
    source = tmp_path / "mistakes.py"
    source.write_text("\n".join(lines) + "\n")
    found = mypy("mypy", "--strict", "--cache-dir", tmp_path / "cache", source, cwd=tmp_path)
    wrong = {int(line.split(":")[1]) for line in found.stdout.splitlines() if "error:" in line}
    assert wrong == set(range(4, 17)), found.stdout
