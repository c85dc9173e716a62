"""Every block of Python in the book runs and prints what the page says (docs/book/README.md has the conventions)."""

import contextlib
import importlib.util
import io
import linecache
import re
import traceback
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[3] / "docs" / "book" / "pages"

# A page shows what a reader at a terminal of the usual width sees. These tell the programs that a block starts
# (pytest, above all) to print something else: longer lines where `CI` is set, colours, another width.
SAYS_HOW_TO_PRINT = ("CI", "BUILD_NUMBER", "COLUMNS", "FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS")


def blocks(page):
    """(line of the opening fence, language, attributes, text) of every fenced block of a page."""
    found, opened = [], None
    for number, line in enumerate(page.splitlines(), 1):
        if opened is None and line.startswith("```"):
            language, *attributes = line[3:].split(",")
            opened = (number, language.strip(), [a.strip() for a in attributes], [])
        elif opened is not None and line == "```":
            found.append((*opened[:3], "\n".join(opened[3])))
            opened = None
        elif opened is not None:
            opened[3].append(line)
    assert opened is None, f"line {opened[0]}: the block is not closed"
    return found


def unhidden(code):
    """The code with its hidden lines, which begin with `~`."""
    return "\n".join(re.sub(r"^(\s*)~ ?", r"\1", line) for line in code.splitlines())


def pattern(shown):
    """What output a page's text stands for: `…` alone in a line is any lines, within a line any text."""
    lines = []
    for line in shown.rstrip().splitlines():
        if line.strip() == "…":
            lines.append(r"(?:[^\n]*\n)*")
        else:
            lines.append("[^\n]*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ \t]*\n")
    return re.compile("".join(lines))


def same(shown, real):
    real = real.rstrip()
    return pattern(shown).fullmatch(real + "\n" if real else "") is not None


def run(page, line, attributes, code, namespace):
    """What the block prints, followed by its exception if it is to raise one."""
    where = f"{page}:{line}"
    # The code begins below the fence, so that tracebacks name the page's lines.
    source = "\n" * line + unhidden(code) + "\n"
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, where, "exec"), namespace)
        except Exception as error:
            if "raises" not in attributes:
                pytest.fail(f"{where}: {traceback.format_exc()}", pytrace=False)
            printed.write("".join(traceback.format_exception_only(error)))
        else:
            if "raises" in attributes:
                pytest.fail(f"{where}: should raise an exception, and did not", pytrace=False)
    return printed.getvalue()


def pages():
    names = (path.relative_to(PAGES).as_posix() for path in sorted(PAGES.rglob("*.md")))
    return [name for name in names if any(block[1] == "python" for block in blocks((PAGES / name).read_text("utf-8")))]


@pytest.mark.parametrize("page", pages())
def test_what_a_page_says_python_prints_is_what_it_prints(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in SAYS_HOW_TO_PRINT:
        monkeypatch.delenv(name, raising=False)
    found = blocks((PAGES / page).read_text("utf-8"))
    namespace = {"__name__": "__main__"}
    missing = set()
    for at, (line, language, attributes, code) in enumerate(found):
        if language != "python":
            continue
        needs = {package for package in ("torch", "jax") if package in attributes}
        lacks = {package for package in needs if importlib.util.find_spec(package) is None}
        if lacks:
            missing |= lacks
            continue
        shown = found[at + 1][3] if at + 1 < len(found) and found[at + 1][1] == "text" else ""
        real = run(page, line, attributes, code, namespace)
        assert same(shown, real), f"{page}:{line}: the page shows\n{shown}\nbut the output is\n{real}"
    if missing:
        pytest.skip(f"the other blocks passed; some need {' and '.join(sorted(missing))}, which is not installed")


def cells(page, column):
    """(line, code) for what stands between backticks in the column of that heading of a page's tables."""
    found, at, fenced = [], None, False
    for number, line in enumerate(page.splitlines(), 1):
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("|"):
            at = None
            continue
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if at is None:
            at = row.index(column) if column in row else -1
        elif at >= 0:
            found += [(number, code.replace("\\|", "|")) for code in re.findall(r"`([^`]+)`", row[at])]
    return found


def given():
    """What the code in tables of names (`Python` in the heading) finds without saying where it comes from."""
    import extensor as ex
    from extensor import data, io, nn, optim, train

    a, b, c, d = ex.Key(1).split(4)
    model = nn.models.Mlp(a, [3, 4, 2])
    x, labels = b.normal((2, 3)), ex.asarray([0, 1])

    def loss(model):
        return nn.class_loss(model(x), labels)

    names = dict(
        ex=ex, data=data, io=io, nn=nn, optim=optim, train=train, model=model, grads=ex.grad(loss)(model), loss=loss,
        x=x, y=c.normal((2, 3)), w=c.normal((3, 2)), b=c.normal((3,)), labels=labels, index=ex.asarray([0, 1]),
        mask=x > 0, images=d.normal((2, 3, 8, 8)), filters=d.normal((4, 3, 3, 3)), key=d,
        f=lambda x: ex.sum(x * x), g=lambda x: x * x, optimizer=optim.AdamW(1e-3),
        queries=d.normal((2, 4, 5, 8)), loader=data.Loader(x, labels, 2, d),
    )  # fmt: skip
    names["state"] = names["optimizer"].init(model)
    return names


TABLES = [
    pytest.param(code, id=f"{path.relative_to(PAGES).as_posix()}:{line}: {code}")
    for path in sorted((PAGES / "coming-from").rglob("*.md"))
    for line, code in cells(path.read_text("utf-8"), "Python")
]


@pytest.mark.parametrize("code", TABLES)
def test_what_a_table_calls_python_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(code, given())


def test_the_book_has_python_in_it():
    assert pages() and TABLES


@pytest.mark.parametrize(
    ("shown", "real", "agree"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("took … ms", "took 12.5 ms\n", True),
        ("", "", True),
        ("…", "a\nb\n", True),
        ("a\nb", "a\nc\n", False),
        ("a", "a\nb\n", False),
        ("", "a\n", False),
        ("a\n…\nd", "a\nb\n", False),
    ],
)
def test_a_gap_stands_for_any_lines_or_any_text_and_for_nothing_else(shown, real, agree):
    assert same(shown, real) == agree
