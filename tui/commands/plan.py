"""`refeed-tui plan`: problems, hours and cost that a decision took and would take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tui.commands.base import Command, json_option, session_argument
from tui.console import say_json

if TYPE_CHECKING:
    from stats.planning import Plan
    from tui.plan_text import Pace


@click.command(
    cls=Command,
    examples=("refeed-tui plan night", "refeed-tui plan night --alpha 0.01 --price-per-hour 3.2"),
)
@session_argument
@click.option("--alpha", type=click.FloatRange(0, 0.5, min_open=True), help="One-sided level [default: the spec's].")
@click.option("--price-per-hour", type=click.FloatRange(0), help="Of the machine [default: the session's].")
@json_option
def command(session: str, alpha: float | None, price_per_hour: float | None, as_json: bool) -> None:
    """Say how many problems a decision took, and how many it would take at the observed effect."""
    from sessions.audited import Session  # noqa: PLC0415 - the same
    from sessions.remarks import looked, unfinished  # noqa: PLC0415 - `--help` need not load it
    from sessions.store import Store  # noqa: PLC0415 - the same
    from stats.planning import plan, without_peek  # noqa: PLC0415 - numpy is loaded only for a session that exists
    from tui.plan_text import Pace, render  # noqa: PLC0415 - the same

    loaded = Session.load(Store().find(session))
    level = loaded.spec.alpha if alpha is None else alpha
    made = plan(loaded.state.table(), alpha=level, seed=loaded.spec.seed)
    if looked(loaded.state):
        made = without_peek(made, "nobody fixed a number of problems")
    elif unfinished(loaded.state):
        made = without_peek(made)
    price = loaded.folder.registration().price_per_hour if price_per_hour is None else price_per_hour
    pace = Pace.of(loaded.state, price)
    if as_json:
        say_json(_as_json(loaded.folder.id, made, pace))
        return
    from tui.console import show  # noqa: PLC0415 - JSON needs no rich

    show(*render(loaded.label, made, pace))


def _as_json(session: str, made: Plan, pace: Pace) -> dict[str, object]:
    from dataclasses import asdict  # noqa: PLC0415 - beside its use

    return {
        "session": session,
        **asdict(made),
        "seconds_per_problem": pace.seconds_per_problem,
        "price_per_hour": pace.price_per_hour,
    }
