"""Text from a stranger, made safe for a terminal."""

from __future__ import annotations

import re
from typing import Final

# DEL and C1, and every format, line and paragraph separator: what JSON leaves as it is and a terminal acts on.
_ACTING: Final = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f]"
)


def printable(text: str, limit: int = 200) -> str:
    r"""One line of text with control, format and other invisible characters as escapes, cut to `limit` characters.

    Escape sequences, newlines and bidirectional overrides come out as `\x1b`, `\n`, `\u202e`, so that a name or a token
    can neither move the cursor nor pose as another.
    """
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:limit]
    )
    return shown if len(text) <= limit and len(shown) <= limit else shown[: limit - 1] + "…"


def json_printable(encoded: bytes) -> bytes:
    r"""Encoded JSON that says the same, with characters that a terminal acts on as `\u` escapes."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _ACTING.sub(_escape, encoded.decode()).encode()


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
