"""Text from models, tasks, files and session folders, made safe to print.

A model can write escape sequences, and a session folder can come from anyone. A terminal obeys C0 and C1 control
characters (cursor moves, titles, clipboard writes), and bidirectional controls make text read as what it is not. All
of them are shown as visible escapes, so that nothing is hidden and nothing acts.
"""

from __future__ import annotations

import unicodedata
from typing import Final

# Cc: C0, DEL and C1. Cf: bidirectional controls, zero-width characters, tags. Cs: lone surrogates, which no encoding
# can print. Zl, Zp: line and paragraph separators, which some terminals break lines at. Co, Cn stay: they draw a box.
UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
WIDE: Final = 0xFFFF
ONE_BYTE: Final = 0xFF


def _escape(character: str) -> str:
    if character in SHORT:
        return SHORT[character]
    code = ord(character)
    if code <= ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= WIDE else f"\\U{code:08x}"


def one_line(text: str, limit: int | None = None) -> str:
    """Return text on one line with every control, format and separator character as a visible escape.

    Args:
        text: from outside; may hold anything.
        limit: characters at most; what is cut off is marked by "...".
    """
    if text.isascii() and text.isprintable():
        safe = text
    else:
        safe = "".join(_escape(c) if unicodedata.category(c) in UNSAFE else c for c in text)
    if limit is not None and len(safe) > limit:
        return safe[: max(0, limit - 3)] + "..."
    return safe


def lines(text: str) -> list[str]:
    """Return text as safe lines: split at newlines (with or without a carriage return), the rest as `one_line`."""
    return [one_line(line.removesuffix("\r").expandtabs()) for line in text.split("\n")]
