"""The two themes: dark and light, safe for colour-blind people."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

THEMES: Final = (
    Theme(
        name="refeed-dark",
        primary="#5cb8ef",
        secondary="#f0a30a",
        warning="#f0e442",
        error="#e0693a",
        success="#35c99b",
        accent="#cc9ee6",
        foreground="#d5dbe1",
        background="#10161d",
        surface="#17202a",
        panel="#1e2a36",
        dark=True,
    ),
    Theme(
        name="refeed-light",
        primary="#005f9e",
        secondary="#a35200",
        warning="#6e5600",
        error="#a8330a",
        success="#006a4e",
        accent="#7a3b9c",
        foreground="#1d2733",
        background="#fbfbf8",
        surface="#f0f1ee",
        panel="#e4e7e6",
        dark=False,
    ),
)
