"""The examples of the generated reference: what its pages show is what they print.

The pages are those in the folder that EXTENSOR_REFERENCE names; without it the program makes them, if cargo is there.
"""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess

import pytest

import extensor

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    given = os.environ.get("EXTENSOR_REFERENCE")
    if given:
        return pathlib.Path(given)
    if not shutil.which("cargo"):
        pytest.skip("neither EXTENSOR_REFERENCE nor cargo")
    folder = tmp_path_factory.mktemp("reference")
    command = ["cargo", "run", "--quiet", "--release", "-p", "extensor-cli", "--", "ops", "--book", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


def blocks(page):
    """The fenced blocks of a page: (language, text)."""
    language, lines = None, []
    for line in page.read_text(encoding="utf-8").splitlines():
        if language is None and line.startswith("```"):
            language, lines = line[3:], []
        elif language is not None and line == "```":
            yield language, "\n".join(lines) + "\n"
            language = None
        else:
            lines.append(line)


def examples(page):
    """The programs in Python with what they print."""
    all = list(blocks(page))
    for (language, code), (after, output) in zip(all, all[1:] + [("", "")]):
        if language == "python":
            assert after == "text", f"{page.name}: an example without output"
            yield code, output


def printed(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), {})
    return out.getvalue()


@pytest.mark.parametrize("name", sorted(n for n in extensor.ops.CATALOGUE if not n.endswith("_backward")))
def test_an_example_prints_what_the_page_says(pages, name):
    found = list(examples(pages / f"{name}.md"))
    assert len(found) == 1
    for code, output in found:
        assert printed(code) == output


def test_there_is_a_page_for_every_operation_and_no_other_example(pages):
    with_examples = {page.stem for page in pages.glob("*.md") if list(examples(page))}
    assert with_examples == {n for n in extensor.ops.CATALOGUE if not n.endswith("_backward")}


def test_the_signatures_on_the_pages_are_those_of_the_functions(pages):
    import inspect

    for name in extensor.ops.CATALOGUE:
        if name.endswith("_backward"):
            continue
        shown = "".join(text for language, text in blocks(pages / f"{name}.md") if language == "py")
        for line in shown.splitlines():
            function, arguments = line.removeprefix("ops.").rstrip(")").split("(", 1)
            given = [a.split("=")[0].strip() for a in arguments.split(", ") if a]
            names = list(inspect.signature(getattr(extensor.ops, function)).parameters)
            assert given == names, line
