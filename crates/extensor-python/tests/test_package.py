"""The package as a whole: its stubs, its texts, its README."""

import contextlib
import doctest
import importlib
import io
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import extensor as ex
from extensor import _stubs

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_stubs_are_those_of_the_catalogue():
    stored = pathlib.Path(ex.__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    assert stored == _stubs.stubs(), "python -m extensor._stubs --write"


def test_a_type_checker_reads_the_stubs(tmp_path):
    pytest.importorskip("mypy")
    source = tmp_path / "use.py"
    source.write_text(
        "import extensor as ex\n"
        "x = ex.asarray([1.0])\n"
        "y: ex.Tensor = ex.relu(x) + ex.sum(x, axis=0) * 2\n"
        "g: ex.Tensor = ex.relu_backward(y, x)\n"
        "d: ex.DType = x.dtype\n"
        "f = ex.grad(lambda x: ex.sum(x))\n"
        "ex.softmax(x, axis='wrong')\n"
    )
    command = [sys.executable, "-m", "mypy", str(source)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert found.stdout.count("error:") == 1 and "use.py:7" in found.stdout, found.stdout


def modules():
    yield ex
    for info in pkgutil.walk_packages(ex.__path__, "extensor."):
        if not info.name.endswith("_core"):
            yield importlib.import_module(info.name)


@pytest.mark.parametrize("module", list(modules()), ids=lambda m: m.__name__)
def test_the_examples_in_the_texts_are_true(module):
    assert module.__doc__, f"{module.__name__} has no text"
    assert doctest.testmod(module).failed == 0


def test_every_operation_and_its_backward_function_is_bound_with_its_text():
    names = [name for name in ex.ops.CATALOGUE if not name.endswith("_backward")]
    assert len(names) > 150
    for name in names:
        op = getattr(ex.ops, name)
        assert op.__name__ == name and op.info["formula"] and op.__doc__.startswith(op.info["formula"])
        backward = op.info["backward"].split("(")[0]
        if backward:
            assert callable(getattr(ex, backward)), backward


def test_the_readmes_quick_start_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## From Python")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", section, re.S)
    assert len(blocks) >= 3
    pytest.importorskip("numpy")
    scope = {"__name__": "quick_start"}
    for source, said in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "README.md", "exec"), scope)
        if said:
            # The last bits, which the plot of a report shows, are the machine's.
            shown, said = (part.split("error against ε")[0].strip() for part in (printed.getvalue(), said))
            assert shown == said


def test_importing_the_package_imports_neither_numpy_nor_torch():
    program = "import sys, extensor; assert not {'numpy', 'torch', 'dataclasses'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_of_another_library_is_missed_with_a_pointer():
    with pytest.raises(AttributeError, match="asarray makes tensors"):
        ex.tensor  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ex.nothing  # noqa: B018
