"""A campaign that is being put together: a preset, changed fields, and the command that would launch it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import msgspec

from sessions.disk.hooks import OnEvent
from sessions.errors import RefeedError
from sessions.presets import PRESETS
from sessions.spec import CampaignSpec
from tui.setup.options import DIGESTS, combine, field_help, flag, shown

if TYPE_CHECKING:
    from tui.setup.options import Asked

OUTSIDE: Final = {
    "name": "Name of the session.",
    "price_per_hour": "Price of the machine an hour; for cost.",
    "on_event": "Command that hears, as JSON, when the campaign ends, crosses, pauses or fails a check.",
}
FIELDS: Final = tuple(name for name in CampaignSpec.__struct_fields__ if name not in DIGESTS)
NAMES: Final = ("preset", *OUTSIDE, *FIELDS)


def meanings() -> dict[str, str]:
    """What each name means."""
    return {"preset": "Settings to start from.", **OUTSIDE, **field_help()}


def parse(name: str, text: str) -> object:
    """A field's value from what a person typed.

    Raises:
        RefeedError: kind "spec", naming the field, when the text is no value of it; kind "usage" for a command that
            cannot be run.
    """
    if name == "on_event":
        OnEvent.parse(text)
    if name == "decision":
        parts: object = [part.strip() for part in text.split(",")]
    else:
        parts = text.strip()
    kind: Any = float if name == "price_per_hour" else get_type_hints(CampaignSpec).get(name, str)
    try:
        value: object = msgspec.convert(parts, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RefeedError("spec", f"spec field `{name}` is {text!r}", str(error)) from None
    if value is None:  # a flag cannot say it either
        raise RefeedError("spec", f"spec field `{name}` cannot be set to none", "leave it empty for the preset's value")
    return value


@dataclass
class Draft:
    """What a person has chosen so far.

    Attributes:
        preset: settings to start from.
        changed: fields that differ from it, and settings outside the spec, parsed.
    """

    preset: str = "demo"
    changed: dict[str, object] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """What a field is now."""
        if name == "preset":
            return self.preset
        return shown({**PRESETS[self.preset].fields, **self.changed}.get(name, getattr(CampaignSpec(), name, None)))

    def origin(self, name: str) -> str:
        """Where its value comes from."""
        if name in self.changed:
            return "changed"
        return "preset" if name == "preset" or name in PRESETS[self.preset].fields else "default"

    def set(self, name: str, text: str) -> None:
        """Change a field; empty text takes a change back. Nothing changes when the text is no value.

        Raises:
            RefeedError: kind "spec" or "usage", saying which field cannot be what.
        """
        before = (self.preset, dict(self.changed))
        try:
            self._set(name, text.strip())
            self.asked()
        except RefeedError:
            self.preset, self.changed = before
            raise

    def _set(self, name: str, text: str) -> None:
        if name == "preset":
            if text not in PRESETS:
                raise RefeedError("spec", f"no preset {text!r}", f"there are {', '.join(PRESETS)}")
            self.preset = text
        elif text == "":
            self.changed.pop(name, None)
        else:
            self.changed[name] = parse(name, text)

    def next_preset(self, step: int) -> None:
        """Take the next or the previous preset, keeping what was changed."""
        names = list(PRESETS)
        self.preset = names[(names.index(self.preset) + step) % len(names)]

    def asked(self) -> Asked:
        """The spec as `launch` makes it, checked.

        Raises:
            RefeedError: kind "spec", naming the field at fault.
        """
        outside: dict[str, Any] = {name: self.changed.get(name) for name in ("name", "price_per_hour")}
        return combine(self.preset, {name: self.changed.get(name) for name in FIELDS}, **outside)

    def on_event(self) -> OnEvent | None:
        """The command that the session's events are told to; None without one.

        Raises:
            RefeedError: kind "usage" when it can no longer be run.
        """
        command = self.changed.get("on_event")
        return None if command is None else OnEvent.parse(str(command))

    def command(self) -> str:
        """The exact command that launches it."""
        words = ["refeed-tui", "launch", self.preset]
        for name, value in sorted(self.changed.items(), key=lambda item: item[0] in OUTSIDE):
            if isinstance(value, bool):
                words.append(flag(name) if value else f"--no-{flag(name).removeprefix('--')}")
            else:
                words += [flag(name), shown(value)]
        return shlex.join(words)
