"""`refeed-tui presets`: settings that ship."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import Final

import click

from sessions.presets import PRESETS
from sessions.spec import CampaignSpec
from sessions.text import one_line
from tui.commands.base import Command, json_option
from tui.console import say, say_json
from tui.setup.options import toml_value

NAMES: Final = 21
WIDTH: Final = 80
LONGEST: Final = 40
UNBROKEN: Final = "\N{NO-BREAK SPACE}"


@click.command(
    cls=Command,
    examples=("refeed-tui presets", "refeed-tui launch paper-main --dry-run"),
)
@json_option
def command(as_json: bool) -> None:
    """List the presets: what each is, and the fields that it sets."""
    if as_json:
        say_json(
            {
                "presets": [
                    {"name": preset.name, "description": preset.description, "fields": preset.fields}
                    for preset in PRESETS.values()
                ]
            }
        )
        return
    for preset in PRESETS.values():
        lines = (*textwrap.wrap(preset.description, WIDTH - NAMES - 1), *_wrapped(_differences(preset.fields)))
        for name, line in zip_longest((preset.name,), lines, fillvalue=""):
            say(f"{name:<{NAMES}} {line}")


def _differences(fields: dict[str, object]) -> list[str]:
    """Fields that a preset sets away from the spec's defaults, as a spec file has them; `launch --dry-run` has all."""
    default = CampaignSpec()
    changed = ((name, value) for name, value in fields.items() if value != getattr(default, name))
    return [f"{name} = {toml_value(_short(value))}" for name, value in changed]


def _short(value: object) -> object:
    return one_line(value, LONGEST) if isinstance(value, str) else value


def _wrapped(settings: list[str]) -> list[str]:
    """Settings with commas between them, broken only there."""
    text = ", ".join(setting.replace(" ", UNBROKEN) for setting in settings)
    wrapped = textwrap.wrap(text, WIDTH - NAMES - 1, break_on_hyphens=False)
    return [line.replace(UNBROKEN, " ") for line in wrapped]
