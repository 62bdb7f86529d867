"""A campaign that is being put together: a preset, changed fields, and the command that would launch it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import msgspec

from sessions.errors import RefeedError
from sessions.presets import PRESETS
from sessions.spec import CampaignSpec
from tui.spec_options import DIGESTS, combine, field_help, flag, shown

if TYPE_CHECKING:
    from tui.spec_options import Asked

OUTSIDE: Final = {"name": "Name of the session.", "price_per_hour": "Price of the machine an hour; for cost."}
FIELDS: Final = tuple(name for name in CampaignSpec.__struct_fields__ if name not in DIGESTS)
NAMES: Final = ("preset", *OUTSIDE, *FIELDS)


def meanings() -> dict[str, str]:
    """What each name means."""
    return {"preset": "Settings to start from.", **OUTSIDE, **field_help()}


def parse(name: str, text: str) -> object:
    """A field's value from what a person typed.

    Raises:
        RefeedError: kind "spec", naming the field, when the text is no value of it.
    """
    if name == "decision":
        parts: object = [part.strip() for part in text.split(",")]
    else:
        parts = text.strip()
    kind: Any = float | None if name == "price_per_hour" else get_type_hints(CampaignSpec).get(name, str)
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
        changed: fields that differ from it, parsed.
        name: of the session; None for none.
        price: per hour; None when not known.
    """

    preset: str = "demo"
    changed: dict[str, object] = field(default_factory=dict)
    name: str | None = None
    price: float | None = None

    def value(self, name: str) -> str:
        """What a field is now."""
        if name == "preset":
            return self.preset
        if name == "name":
            return self.name or "none"
        if name == "price_per_hour":
            return shown(self.price)
        defaults = {one: getattr(CampaignSpec(), one) for one in FIELDS}
        return shown({**defaults, **PRESETS[self.preset].fields, **self.changed}[name])

    def origin(self, name: str) -> str:
        """Where its value comes from."""
        if (
            name in self.changed
            or (name == "name" and self.name)
            or (name == "price_per_hour" and self.price is not None)
        ):
            return "changed"
        return "preset" if name == "preset" or name in PRESETS[self.preset].fields else "default"

    def set(self, name: str, text: str) -> None:
        """Change a field; empty text takes a change back. Nothing changes when the text is no value.

        Raises:
            RefeedError: kind "spec", saying which field cannot be what.
        """
        before = (self.preset, dict(self.changed), self.name, self.price)
        try:
            self._set(name, text.strip())
            self.asked()
        except RefeedError:
            self.preset, self.changed, self.name, self.price = before
            raise

    def _set(self, name: str, text: str) -> None:
        if name == "preset":
            if text not in PRESETS:
                raise RefeedError("spec", f"no preset {text!r}", f"there are {', '.join(PRESETS)}")
            self.preset = text
        elif name == "name":
            self.name = text or None
        elif name == "price_per_hour":
            value = parse(name, text) if text else None
            self.price = value if isinstance(value, float) else None
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
        return combine(self.preset, self.changed, name=self.name, price_per_hour=self.price)

    def command(self) -> str:
        """The exact command that launches it."""
        words = ["refeed-tui", "launch", self.preset]
        for name, value in self.changed.items():
            if isinstance(value, bool):
                words.append(flag(name) if value else f"--no-{flag(name).removeprefix('--')}")
            else:
                words += [flag(name), shown(value)]
        if self.name:
            words += ["--name", self.name]
        if self.price is not None:
            words += ["--price-per-hour", f"{self.price:g}"]
        return shlex.join(words)
