"""A plan as a table: problems, hours and cost by procedure and by the share of campaigns that would have decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from sessions.words import NONE, clock, percent
from tui.plaintext import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from sessions.campaign import CampaignState
    from stats.planning import Needed, Plan

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
