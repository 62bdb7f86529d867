"""Where text goes: rich tables on a terminal, plain text in a pipe, ASCII where the locale knows no more, and JSON."""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, RenderableType

PIPE_WIDTH: Final = 80

# Our own signs only; text from outside is escaped by the stream where it cannot be printed.
ASCII: Final = str.maketrans(
    {
        "\u00b7": "-",
        "\u2026": "...",
        "\u2013": "-",
        "\u2014": "-",
        "\u2212": "-",
        "\u00d7": "x",
        "\u2265": ">=",
        "\u2264": "<=",
        "\u2192": "->",
        "\u2713": "ok",
        "\u00b1": "+/-",
        "\u00b2": "2",
    }
)


def speaks_unicode(stream: IO[str] | None = None, environ: Mapping[str, str] | None = None) -> bool:
    """Whether both the stream and the locale can show more than ASCII.

    Python writes UTF-8 under `LC_ALL=C` whatever the terminal shows, so the locale is asked as well: the first of
    LC_ALL, LC_CTYPE and LANG that is set decides, as in C.
    """
    stream = sys.stdout if stream is None else stream
    environ = os.environ if environ is None else environ
    if "utf" not in (getattr(stream, "encoding", None) or "").lower():
        return False
    if environ.get("PYTHONIOENCODING") or environ.get("PYTHONUTF8") == "1":
        return True  # somebody said so
    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    return "utf" in locale.lower()


def plain(text: str, stream: IO[str] | None = None) -> str:
    """Our own text, with its few signs spelt in ASCII where the stream or the locale needs that."""
    return text if speaks_unicode(stream) else text.translate(ASCII)


def say(text: str = "") -> None:
    """Print a line of our own text on stdout and flush it, so that a log shows it at once."""
    print(plain(text), flush=True)  # noqa: T201 - this is where text is printed


def warn(text: str) -> None:
    """Print a line of our own text on stderr."""
    print(plain(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201 - this is where text is printed


def say_json(value: object) -> None:
    """Print one JSON document on stdout: ASCII only, so that nothing in it can act on a terminal.

    Raises:
        ValueError: a number is not finite, which JSON cannot say.
    """
    import json  # noqa: PLC0415 - 5 ms that text need not pay

    print(json.dumps(value, indent=2, allow_nan=False), flush=True)  # noqa: T201 - this is where JSON is printed


def make_console(file: IO[str] | None = None) -> Console:
    """A rich console that keeps to the terminal's width, and to 80 columns (or COLUMNS) in a pipe.

    Markup, emoji codes and highlighting are off: what is printed is what is meant, also when a model wrote it.
    """
    from rich.console import Console  # noqa: PLC0415 - 40 ms that errors and JSON need not pay

    stream = sys.stdout if file is None else file
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def show(*renderables: RenderableType) -> None:
    """Print rich renderables on stdout, without trailing blanks, spelt in ASCII where needed."""
    console = make_console()
    with console.capture() as captured:
        for renderable in renderables:
            console.print(renderable)
    text = "\n".join(line.rstrip() for line in captured.get().split("\n"))
    sys.stdout.write(plain(text))
    sys.stdout.flush()
