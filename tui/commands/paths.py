"""`refeed-tui paths`: where things are."""

from __future__ import annotations

from pathlib import Path

import click

import tui
from sessions.disk.folder import home
from sessions.text import one_line
from tui.commands.base import Command
from tui.console import say


@click.command(
    cls=Command,
    examples=("refeed-tui paths", "REFEED_TUI_HOME=/data/audits refeed-tui paths"),
)
def command() -> None:
    """Where sessions, error files and the program itself are."""
    root = home()
    places = {
        "sessions": root / "sessions",
        "errors": root / "errors",
        "program": Path(tui.__file__).resolve().parent.parent,
    }
    for name, place in places.items():
        say(f"{name:<9} {one_line(str(place))}")
