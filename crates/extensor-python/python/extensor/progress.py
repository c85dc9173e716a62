"""Progress bars: one line that is rewritten on a terminal, one display that is updated in a
notebook, and plain lines now and then elsewhere (a file, a log).

It knows text and time; it must not know what makes progress.

>>> import io
>>> from extensor.progress import Progress
>>> log = io.StringIO()
>>> with Progress(3, "reading", stream=log) as bar:
...     for k in range(3):
...         bar.update(size=k)
>>> log.getvalue().startswith("reading 3/3 100%")
True
"""

import html
import importlib
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Protocol, TextIO, TypeVar

__all__ = ["Progress", "track"]


T = TypeVar("T")


class _Form(Protocol):
    """How progress is shown."""

    interval: float

    def show(self, bar: "Progress") -> None: ...
    def end(self, bar: "Progress") -> None: ...
    def write(self, text: str) -> None: ...


def _in_notebook() -> bool:
    """Whether this code runs in a notebook's shell (Colab's is derived from Jupyter's); IPython is
    not imported for it."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if get is not None else None
    return any(cls.__name__ == "ZMQInteractiveShell" for cls in type(shell).__mro__)


class _Terminal:
    """Rewrites its line."""

    interval = 0.1

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.width = stream, 0

    def show(self, bar: "Progress") -> None:
        columns = shutil.get_terminal_size().columns
        text = bar.text()
        if bar.total:
            room = min(30, columns - len(text) - 4)
            if room >= 5:
                done = round(room * bar.share())
                text += f" [{'#' * done}{'.' * (room - done)}]"
        text = text[: max(columns - 1, 1)]
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)

    def end(self, bar: "Progress") -> None:
        self.show(bar)
        self.stream.write("\n")
        self.stream.flush()

    def write(self, text: str) -> None:
        self.stream.write("\r" + text.ljust(self.width) + "\n")
        self.width = 0


class _Notebook:
    """Updates one display."""

    interval = 0.2

    def __init__(self) -> None:
        shown: Any = importlib.import_module("IPython.display")
        self.html, self.display = shown.HTML, shown.display
        self.handle: Any = None

    def show(self, bar: "Progress") -> None:
        value = f' value="{bar.share():.4f}"' if bar.total else ""
        text = html.escape(bar.text())
        shown = self.html(
            f'<div style="font-family: monospace"><progress max="1"{value}></progress> {text}</div>'
        )
        if self.handle is None:
            self.handle = self.display(shown, display_id=True)
        else:
            self.handle.update(shown)

    end = show

    def write(self, text: str) -> None:
        self.display(self.html(f"<div style='font-family: monospace'>{html.escape(text)}</div>"))


class _Lines:
    """Prints a line now and then."""

    interval = 5.0

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def show(self, bar: "Progress") -> None:
        self.write(bar.text())

    end = show

    def write(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()


def _form(stream: TextIO | None) -> _Form:
    if stream is None and _in_notebook():
        return _Notebook()
    stream = sys.stderr if stream is None else stream
    tty = getattr(stream, "isatty", None)
    return _Terminal(stream) if tty is not None and tty() else _Lines(stream)


class Progress:
    """A progress bar over `total` steps (None: nobody knows how many).

    `update(count, name=value…)` says that so many more are done and what is to be shown beside
    them. It is shown at most every tenth of a second on a terminal and every five seconds as plain
    lines, and once more at the end. Given a stream, it writes there; otherwise to the notebook it
    is in, or to the standard error stream.
    """

    def __init__(
        self, total: int | None = None, label: str = "", *, stream: TextIO | None = None, start: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.total, self.label = total, label
        self.done, self._first = start, start
        self._shown: dict[str, Any] = {}
        self._form, self._clock = _form(stream), clock
        self._begun = self._last = clock()
        self._closed = False
        if not isinstance(self._form, _Lines):
            self._form.show(self)

    def share(self) -> float:
        """The share that is done."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    def text(self) -> str:
        """What is shown, as one line."""
        passed = self._clock() - self._begun
        made = self.done - self._first
        count = f"{self.done}"
        if self.total:
            count += f"/{self.total} {100 * self.share():.0f}%"
        parts = [f"{self.label} {count}".strip()]
        if made > 0 and passed > 0:
            rate = made / passed
            parts.append(f"{rate:.3g}/s" if rate < 100 else f"{rate:.0f}/s")
            if self.total and not self._closed:
                parts.append(f"{_duration((self.total - self.done) / rate)} left")
        if self._closed:
            parts.append(_duration(passed))
        parts += [f"{name} {_value(value)}" for name, value in self._shown.items()]
        return "  ".join(parts)

    def update(self, count: int = 1, **shown: Any) -> None:
        """Says that so many more are done, and what is to be shown beside them."""
        self.done += count
        self._shown.update(shown)
        now = self._clock()
        if now - self._last >= self._form.interval and not self._closed:
            self._last = now
            self._form.show(self)

    def write(self, text: str) -> None:
        """Shows a line of text that stays."""
        self._form.write(text)

    def close(self) -> None:
        """Shows the last state; nothing more is shown after that."""
        if not self._closed:
            self._closed = True
            self._form.end(self)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def track(
    items: Iterable[T], label: str = "", total: int | None = None, *, stream: TextIO | None = None
) -> Iterator[T]:
    """The items one after the other, with a progress bar.

    >>> import io
    >>> from extensor.progress import track
    >>> [k * k for k in track([1, 2, 3], stream=io.StringIO())]
    [1, 4, 9]
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(total, label, stream=stream) as bar:
        for item in items:
            yield item
            bar.update()


def _duration(seconds: float) -> str:
    seconds = max(0, round(seconds))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def _value(value: Any) -> str:
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return str(value)
