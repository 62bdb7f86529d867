"""`refeed-tui presets`: settings that ship."""

from __future__ import annotations

import textwrap
from typing import Final

import click

from sessions.presets import PRESETS
from sessions.spec import CampaignSpec
from tui.commands.base import Command, json_option
from tui.console import say, say_json
from tui.plaintext import one_line

NAMES: Final = 21
WIDTH: Final = 80
LONGEST: Final = 40


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
        say(f"{preset.name:<{NAMES}} {preset.description}")
        for line in textwrap.wrap(_differences(preset.fields), WIDTH - NAMES - 1, break_on_hyphens=False):
            say(f"{'':<{NAMES}} {line}")


def _differences(fields: dict[str, object]) -> str:
    """Fields that a preset sets away from the spec's defaults; `launch --dry-run` shows all of them."""
    default = CampaignSpec()
    changed = ((name, value) for name, value in fields.items() if value != getattr(default, name))
    return ", ".join(f"{name} = {one_line(str(value), LONGEST)}" for name, value in changed)
