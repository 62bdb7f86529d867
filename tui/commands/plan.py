"""`refeed-tui plan`: problems, hours and cost that a decision took and would take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
from rich.table import Table
from rich.text import Text

from sessions.numbers import NONE, clock, percent
from sessions.text import one_line
from tui.commands.base import Command, json_option, session_argument
from tui.console import say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from sessions.state.campaign import CampaignState
    from stats.planning import Needed, Plan


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
    from sessions.report.audit import Session  # noqa: PLC0415 - the same
    from sessions.report.limits import looked, unfinished  # noqa: PLC0415 - `--help` need not load it
    from sessions.store import Store  # noqa: PLC0415 - the same
    from stats.planning import plan, without_peek  # noqa: PLC0415 - numpy is loaded only for a session that exists

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


NAMES: Final = {"symmetry": "symmetry e-process", "betting": "betting", "fixed_t": "t, fixed in advance"}
SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class Pace:
    """What a measured problem took on this machine.

    Attributes:
        seconds_per_problem: workers' time over measured problems, screens and loading included; None where unknown.
        price_per_hour: None where unknown.
    """

    seconds_per_problem: float | None
    price_per_hour: float | None

    @classmethod
    def of(cls, state: CampaignState, price_per_hour: float | None) -> Pace:
        """The pace of a campaign so far; imports have none."""
        measured = len(state.measured)
        known = measured > 0 and state.seconds > 0 and not state.imported
        return cls(state.seconds / measured if known else None, price_per_hour)

    def time(self, problems: int | None) -> str:
        """Time that so many problems take."""
        if problems is None or self.seconds_per_problem is None:
            return NONE
        return clock(problems * self.seconds_per_problem)

    def cost(self, problems: int | None) -> str:
        """Cost of so many problems."""
        if problems is None or self.seconds_per_problem is None or self.price_per_hour is None:
            return NONE
        return f"{problems * self.seconds_per_problem * self.price_per_hour / SECONDS_PER_HOUR:,.2f}"


def render(label: str, plan: Plan, pace: Pace) -> Iterator[RenderableType]:
    """Yield a plan as rich renderables, good at 80 columns."""
    yield Text(one_line(f"Plan from {label}"), style="bold")
    informative = f"{plan.informative} of {plan.measured} problems informative"
    yield Text(f"{informative}; decision: excess above 0 at alpha = {plan.alpha:g}")
    if plan.why is not None:
        yield Text(f"no plan: {plan.why}")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, column in enumerate(("decided by", "", "problems", "time", "cost")):
        table.add_column(column, justify="left" if at < 2 else "right")  # noqa: PLR2004 - two columns of words
    for row in plan.rows:
        took = NONE if row.took is None else str(row.took)
        decided = "took" if row.took is not None else row.why or "has not decided"
        table.add_row(NAMES[row.procedure], decided, took, pace.time(row.took), pace.cost(row.took))
        for name, needed in (("anew", row.anew), ("from here on", row.more)):
            if needed is not None:
                _add(table, name, needed, pace)
    yield table
    ahead = f"{plan.draws:,} campaigns drawn from the measured problems, {plan.horizon:,} informative problems ahead"
    yield Text(f"{ahead}. The numbers are for the effect and spread seen so far, which few problems know badly.")


def _add(table: Table, name: str, needed: Needed, pace: Pace) -> None:
    for share, problems in (("50%", needed.half), ("80%", needed.four_fifths), ("90%", needed.nine_tenths)):
        shown = "not in sight" if problems is None else str(problems)
        table.add_row("", f"{name}, in {share} of campaigns", shown, pace.time(problems), pace.cost(problems))
    if needed.undecided > 0:
        table.add_row("", f"{name}, undecided at the horizon", percent(needed.undecided), "", "")
