"""`refeed-tui launch`: register a spec, start its worker detached, and watch it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sessions.disk.hooks import OnEvent
from sessions.numbers import rough
from sessions.spec import CampaignSpec
from sessions.text import one_line
from tui import errors
from tui.commands.base import Command, ascii_option, json_option, plain_option, refresh_option
from tui.console import say, say_json, warn
from tui.setup.launching import create, registered, start, teller
from tui.setup.options import combine, options, to_toml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.registration import Estimate
    from sessions.spec import Registration
    from sessions.store import SessionFolder
    from tui.commands.display import Refresh
    from tui.setup.options import Asked


class Launch(Command):
    """Shows its own options first, and the fields of the spec apart."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write two sections of options."""
        fields = set(CampaignSpec.__struct_fields__)
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        shown = [(param.name in fields, record) for param in options if (record := param.get_help_record(ctx))]
        for title, wanted in (("Options", False), ("Fields of the spec", True)):
            with formatter.section(title):
                formatter.write_dl([record for is_field, record in shown if is_field is wanted])


@click.command(
    cls=Launch,
    params=options(),
    examples=(
        "refeed-tui launch demo",
        "refeed-tui launch paper-main --problems 40 --name night --price-per-hour 3.2",
        "refeed-tui launch spec.toml --wave 1 --detach",
        "refeed-tui launch smoke --dry-run > spec.toml",
    ),
)
@click.argument("source", metavar="[PRESET or spec.toml]", required=False)
@click.option("--name", help="Name of the session; any command takes it instead of the id.")
@click.option("--price-per-hour", type=click.FLOAT, help="Of this machine, for cost; outside the spec's digest.")
@click.option(
    "--on-event",
    metavar="COMMAND",
    help="Run this, without a shell and with JSON on its input, when the campaign ends, crosses, pauses or fails a "
    "cache check.",
)
@click.option("--dry-run", is_flag=True, help="Print the full spec, its digest and an estimate; start nothing.")
@click.option("--detach", is_flag=True, help="Print the session's id and return; the campaign goes on.")
@plain_option
@refresh_option
@ascii_option
@json_option
def command(
    source: str | None,
    name: str | None,
    price_per_hour: float | None,
    on_event: str | None,
    dry_run: bool,
    detach: bool,
    plain: bool,
    refresh: Refresh,
    ascii_only: bool | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Register the settings of a preset, a TOML file and flags (flags win), and start the campaign.

    The spec is locked and hashed before the first token. The worker runs on by itself: closing the terminal, or Ctrl-C,
    leaves it alone.
    """
    if as_json and not (detach or dry_run):
        raise click.UsageError("--json needs --detach or --dry-run: a campaign that is watched prints progress")
    asked = combine(source, flags, name=name, price_per_hour=price_per_hour)
    told = None if on_event is None else OnEvent.parse(on_event)
    if dry_run:
        _rehearse(asked, as_json=as_json)
        return errors.DONE
    # A script wants the id alone; a person at a terminal should see that something is done.
    hear = teller("registering", warn if detach else say) if not detach or sys.stderr.isatty() else None
    folder = create(asked, told, hear)
    if not detach:
        say(f"session {folder.id}: starting its worker")
    start(folder, quiet=detach)
    if detach:
        _show_detached(folder, as_json=as_json)
        return errors.DONE
    from tui.commands.display import watch  # noqa: PLC0415 - `--detach` and `--dry-run` watch nothing

    return watch(folder, plain=plain, refresh=refresh, ascii_only=ascii_only)


def _rehearse(asked: Asked, *, as_json: bool) -> None:
    from engine.backends.early import check_apart  # noqa: PLC0415
    from engine.registration import estimate, first_prompt, rehearse  # noqa: PLC0415 - `--help` need not load it
    from engine.tasks.registry import open_task  # noqa: PLC0415

    resolved, missing = rehearse(asked.spec)
    prompt = None if missing else first_prompt(resolved, open_task(str(resolved.task)), check_apart)
    _show_plan(registered(asked, resolved), estimate(resolved, asked.price_per_hour), missing, prompt, as_json=as_json)


def _show_detached(folder: SessionFolder, *, as_json: bool) -> None:
    if as_json:
        registration = folder.registration()
        say_json(
            {"id": folder.id, "name": registration.name, "folder": str(folder.path), "digest": registration.digest}
        )
    else:
        say(folder.id)


def _show_plan(
    registration: Registration, estimate: Estimate, missing: Sequence[str], prompt: str | None, *, as_json: bool
) -> None:
    spec = registration.campaign()
    if as_json:
        say_json(
            {
                "spec": msgspec.to_builtins(spec),
                "digest": registration.digest,
                "missing": list(missing),
                "first_prompt": prompt,
                "name": registration.name,
                "price_per_hour": registration.price_per_hour,
                "estimate": {
                    "most_tokens": estimate.most_tokens,
                    "likely_tokens": estimate.likely_tokens,
                    "tokens_per_second": estimate.tokens_per_second,
                    "seconds": estimate.seconds,
                    "cost": estimate.cost,
                },
            }
        )
        return
    say(to_toml(spec))
    if registration.name is not None:
        say(f"# name: {one_line(registration.name)}")
    say(f"# digest: {registration.digest}{' (provisional)' if missing else ''}")
    for lack in missing:
        say(f"# missing here: {one_line(lack)}")
    if prompt is not None:
        say("# first prompt, as the model gets it:")
        for line in prompt.splitlines():
            say(f"#   {one_line(line)}")
    say(f"# tokens: about {estimate.likely_tokens:,}, {estimate.most_tokens:,} at most (screened-out problems aside)")
    rate = f"{estimate.tokens_per_second:,.0f} tokens/s"
    say(f"# time: {rough(estimate.seconds)} at an assumed {rate}, besides starting the engine")
    if estimate.cost is None:
        say("# cost: unknown without --price-per-hour")
    else:
        say(f"# cost: about {estimate.cost:,.2f} at {registration.price_per_hour:g} an hour")
