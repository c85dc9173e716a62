"""The package as a whole: its stubs, its texts, its README."""

import ast
import contextlib
import doctest
import importlib
import io
import os
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
    for name, text in _stubs.stubs().items():
        stored = pathlib.Path(ex.__file__).with_name(name).read_text(encoding="utf-8")
        assert stored == text, f"{name}: python -m extensor._stubs --write"


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
    assert blocks
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


def words():
    """Every parameter of an operation for which the stub lists the words that it takes."""
    tree = ast.parse((pathlib.Path(ex.__file__).parent / "ops.pyi").read_text(encoding="utf-8"))
    for made in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        (function,) = (node for node in made.body if isinstance(node, ast.FunctionDef))
        for argument in function.args.args[1:]:
            literals = (n for n in ast.walk(argument.annotation) if isinstance(n, ast.Subscript))
            found = [n.slice for n in literals if getattr(n.value, "id", None) == "Literal"]
            for word in (element.value for slice in found for element in slice.elts):
                yield made.name.removeprefix("_"), argument.arg, word


@pytest.mark.parametrize("name, parameter, word", list(words()))
def test_an_operation_takes_every_word_that_its_stub_lists(name, parameter, word):
    half = ex.full((2, 3), 0.5)
    op = getattr(ex, name)
    given = [n for n, p in op.__signature__.parameters.items() if p.default is p.empty]
    positions = ex.zeros((2, 3), dtype=ex.int64)
    whole = {
        "scatter": {"x": half, "index": positions, "source": half, "axis": 0},
        "ctc_loss": {
            "log_probs": ex.full((4, 2, 3), 0.5), "targets": ex.ones((2, 2), dtype=ex.int64),
            "input_lengths": ex.asarray([4, 3]), "target_lengths": ex.asarray([1, 2]),
        },
        "nll_loss": {"log_probabilities": half, "targets": positions[:, 0]},
    }
    values = whole.get(name.removesuffix("_backward"), {n: half for n in given}) | {parameter: word}
    if "grad_output" in given:
        forward = getattr(ex, name.removesuffix("_backward"))
        known = forward.__signature__.parameters
        made = forward(**{n: v for n, v in values.items() if n in known})
        values |= {"grad_output": ex.ones_like(made), "output": made, "log_probabilities_shape": (2, 3)}
        values = {n: v for n, v in values.items() if n in op.__signature__.parameters}
    op(**values)
    with pytest.raises(ValueError, match=parameter):
        op(**values | {parameter: word + "?"})


def test_gelu_takes_the_word_that_pytorch_has_for_its_formula():
    x = ex.asarray([-1.0, -0.0, 0.5])
    assert ex.gelu(x, "tanh").tolist() == ex.gelu(x, True).tolist() != ex.gelu(x, "none").tolist()
    assert ex.gelu(x, approximate="none").tolist() == ex.gelu(x).tolist()
    assert ex.gelu_backward(x, x, "tanh").tolist() == ex.gelu_backward(x, x, True).tolist()


def test_a_setting_that_means_nothing_is_an_error_when_the_package_is_imported():
    environment = {**os.environ, "EXTENSOR_THREADS": "many"}
    done = subprocess.run([sys.executable, "-c", "import extensor"], env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "ValueError: EXTENSOR_THREADS is \"many\", expected a whole number from 1 up" in done.stderr
