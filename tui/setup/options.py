"""Every field of the spec as a flag, and the spec that preset, file and flags make together.

The flags are read off `CampaignSpec`: its fields, their types, and the help that they carry.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from sessions.errors import RefeedError
from sessions.spec import CampaignSpec, described, from_fields
from sessions.text import one_line, toml_string

if TYPE_CHECKING:
    from collections.abc import Mapping

# Registration takes these from the data; a spec file may pin them, a person has no use for the flag.
DIGESTS: Final = frozenset({"task_digest", "model_digest"})


def _two_numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """Parse two numbers with a comma between them, as in "0.02,0.05"."""
    if value is None:
        return None
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        message = f"{value!r} is not two numbers with a comma between them, such as 0.02,0.05"
        raise click.BadParameter(message, ctx, param) from None
    return low, high


def flag(field: str) -> str:
    """The flag of a field: `max_pivots` is `--max-pivots`."""
    return "--" + field.replace("_", "-")


def field_help() -> dict[str, str]:
    """What each field means."""
    return {field.name: field.help for field in described()}


def _click_settings(kind: msgspec.inspect.Type) -> dict[str, Any]:
    """How click shall read a field of this type; nothing for booleans, which are switches."""
    match kind:
        case msgspec.inspect.BoolType():
            return {}
        case msgspec.inspect.LiteralType(values=values):
            return {"type": click.Choice([str(value) for value in values])}
        case msgspec.inspect.IntType():
            return {"type": click.INT}
        case msgspec.inspect.FloatType():
            return {"type": click.FLOAT}
        case msgspec.inspect.TupleType():
            return {"metavar": "LOW,HIGH", "callback": _two_numbers}
        case _:
            return {"type": click.STRING}


def shown(value: object) -> str:
    """A field's value as a flag takes it."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def options() -> list[click.Option]:
    """One option for each field of the spec, in its order; not given means None, whatever the field's default is."""
    made = []
    for field in described():
        if field.name in DIGESTS:
            continue
        settings = _click_settings(field.kind)
        declaration = flag(field.name)
        if not settings:
            declaration = f"{declaration}/--no-{declaration.removeprefix('--')}"
        text = f"{field.help} [default: {shown(field.default)}]"
        made.append(click.Option([declaration, field.name], default=None, help=text, **settings))
    return made


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asked for.

    Attributes:
        spec: checked, not resolved.
        name: of the session.
        price_per_hour: of the machine.
    """

    spec: CampaignSpec
    name: str | None
    price_per_hour: float | None


def read_toml(path: Path) -> dict[str, object]:
    """Read the fields of a spec file.

    Raises:
        RefeedError: kind "spec" when the file cannot be read or is not TOML, naming file and line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RefeedError("spec", f"cannot read the spec file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RefeedError("spec", f"{path} is not a TOML file: {error}") from None


def base_fields(source: str | None) -> dict[str, object]:
    """Fields of a preset or a spec file; none without one.

    Raises:
        RefeedError: kind "spec" when there is no such preset or file.
    """
    from sessions import presets  # noqa: PLC0415 - so that the flags can be made without it

    if source is None:
        return {}
    if source in presets.PRESETS:
        return dict(presets.fields(source))
    path = Path(source)
    if path.suffix == ".toml" or path.is_file():
        return read_toml(path)
    names = ", ".join(presets.PRESETS)
    raise RefeedError("spec", f"'{one_line(source)}' is neither a preset nor a spec file", f"presets: {names}")


def _outside(fields: dict[str, object], name: str, kinds: tuple[type, ...]) -> Any:
    """Take a setting that is outside the digest from a file's fields."""
    value = fields.pop(name, None)
    if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
        raise RefeedError("spec", f"spec field `{name}` is {value!r}", f"it must be a {kinds[0].__name__}")
    return value


def combine(
    source: str | None, flags: Mapping[str, object], *, name: str | None, price_per_hour: float | None
) -> Asked:
    """Make the spec from preset or file and flags; flags win.

    Raises:
        RefeedError: kind "spec", naming the field at fault.
    """
    fields = base_fields(source)
    base_name = _outside(fields, "name", (str,))
    base_price = _outside(fields, "price_per_hour", (float, int))
    fields |= {field: value for field, value in flags.items() if value is not None}
    spec = from_fields(fields)
    price = base_price if price_per_hour is None else price_per_hour
    if price is not None and not 0 <= price < float("inf"):
        raise RefeedError("spec", f"spec field `price_per_hour` is {price!r}", "it must be a number of at least 0")
    if spec.max_cost is not None and price is None:
        raise RefeedError(
            "spec", f"spec field `max_cost` is {spec.max_cost}, but there is no price", "add --price-per-hour"
        )
    return Asked(spec, base_name if name is None else name, None if price is None else float(price))


def to_toml(spec: CampaignSpec) -> str:
    """A spec as a TOML file that `launch` reads back; fields that are None are left as comments."""
    lines = []
    for name in CampaignSpec.__struct_fields__:
        value = getattr(spec, name)
        lines.append(f"# {name} = (the engine's own, or none)" if value is None else f"{name} = {toml_value(value)}")
    return "\n".join(lines)


def toml_value(value: object) -> str:
    """A field's value as a spec file has it."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(toml_value(part) for part in value)}]"
        case str():
            return toml_string(value)
        case _:
            return repr(value)
