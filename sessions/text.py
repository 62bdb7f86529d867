"""Text from models, tasks, files and session folders, made safe to print: every escape of a stranger's text.

A model can write escape sequences, and a session folder can come from anyone. A terminal obeys C0 and C1 control
characters (cursor moves, titles, clipboard writes), and bidirectional controls make text read as what it is not. All
of them are shown as visible escapes, so that nothing is hidden and nothing acts. Letters, signs and spaces of every
script stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Cc: C0, DEL and C1. Cf: bidirectional controls, zero-width characters, tags. Cs: lone surrogates, which no encoding
# can print. Zl, Zp: line and paragraph separators, which some terminals break lines at. Co, Cn stay: they draw a box.
UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_WIDE: Final = 0xFFFF
_ONE_BYTE: Final = 0xFF
_BEYOND_ASCII: Final = re.compile("[\x7f-\U0010ffff]")


def one_line(text: str, limit: int | None = None) -> str:
    """Return text on one line with every control, format and separator character as a visible escape.

    Args:
        text: from outside; may hold anything.
        limit: characters at most; what is cut off is marked by "...".
    """
    if limit is not None:
        text = text[: limit + 1]  # an escape is longer than what it stands for
    if text.isascii() and text.isprintable():
        safe = text
    else:
        safe = "".join(_escape(c) if unicodedata.category(c) in UNSAFE else c for c in text)
    if limit is not None and len(safe) > limit:
        return safe[: max(0, limit - 3)] + "..."
    return safe


def printable(text: str, limit: int = 200) -> str:
    """Return text as `one_line` does, short enough for a message."""
    return one_line(text, limit)


def lines(text: str) -> list[str]:
    """Return text as safe lines: split at newlines (with or without a carriage return), the rest as `one_line`."""
    return [one_line(line.removesuffix("\r").expandtabs()) for line in text.split("\n")]


def json_printable(encoded: bytes) -> bytes:
    r"""Encoded JSON that says the same, with characters that a terminal acts on as `\u` escapes."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _BEYOND_ASCII.sub(_json_escape, encoded.decode()).encode()


def toml_string(text: str) -> str:
    """A TOML basic string that says the text, with every unsafe character as an escape."""
    return f'"{"".join(map(_toml_escape, text))}"'


def _toml_escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return f"\\U{ord(character):08x}" if unicodedata.category(character) in UNSAFE else character


def _escape(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code <= _ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _WIDE else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    if unicodedata.category(found[0]) not in UNSAFE:
        return found[0]
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
