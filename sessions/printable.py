"""Text from a stranger, made safe for a terminal."""

from __future__ import annotations


def printable(text: str, limit: int = 200) -> str:
    r"""One line of text with control, format and other invisible characters as escapes, cut to `limit` characters.

    Escape sequences, newlines and bidirectional overrides come out as `\x1b`, `\n`, `\u202e`, so that a name or a token
    can neither move the cursor nor pose as another.
    """
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:limit]
    )
    return shown if len(text) <= limit and len(shown) <= limit else shown[: limit - 1] + "…"
