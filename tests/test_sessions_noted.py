"""Notes of a report for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessions.report.reasons import noted, reasons
from stats.cache import CacheTally
from stats.report import report
from tests.helpers.tables import Net, table

if TYPE_CHECKING:
    from stats.table import PivotTable

QUIET: list[list[Net]] = [[(1, 1, 1), (0, 0, 0)]]
DOUBTFUL: list[list[Net]] = [[(1, 1, 1), (1, 1, -1)], [(2, 2, 2)], [(3, 3, 3)]]
NAN = float("nan")
TABLES = (
    table([]),
    table([[(0, 0, 0)]]),
    table(QUIET),
    table(QUIET, delta=[(0.0, 0.0), (NAN, NAN)]),
    table(QUIET, delta=[(0.0, 0.0), (0.0, 0.5)], diverged=[(0, 1), (0, 0)], margin=[0.1, 0.2]),
    table(DOUBTFUL, margin=[0.1, 0.2, 0.4, 0.5]),
    table([[(1, 0, 1)], [(1, 0, 1)], [(1, 0, 1)]]),
)


@pytest.mark.parametrize("evidence", TABLES)
@pytest.mark.parametrize("cache", [None, CacheTally(0, 0, 3)])
def test_every_reason_has_words_without_keys(evidence: PivotTable, cache: CacheTally | None) -> None:
    """No note of a report for people holds a path of `report --json`."""
    made = report(evidence, cache=cache)
    names = [reason.name for reason in reasons(made)]
    assert names
    assert not any("." in name.replace("0.3 nats", "").replace("0.5", "").replace("0.75", "") for name in names)
    assert not any("_" in note for note in noted(made))


def test_equal_reasons_are_said_once_with_what_they_are_of() -> None:
    """Four rates without an event give one note that names the four."""
    (note,) = (note for note in noted(report(table(QUIET))) if note.startswith("nothing seen"))
    assert note.startswith("nothing seen in 1 pivot of 1 problem, which is not zero")
    assert note.endswith(
        "(re-feed, any pass not 0; floor, any pass not 0; re-feed, exact-1 not 0; floor, exact-1 not 0)"
    )


def test_keys_have_words() -> None:
    """A key of the JSON report is called what the tables call it."""
    names = {reason.key: reason.name for evidence in TABLES for reason in reasons(report(evidence))}
    assert names["selection.0.75.refeed"] == "Jaccard at |A| >= 0.75, re-feed"
    assert names["selection.0.5.replica.ci95_bootstrap"] == "interval of the Jaccard at |A| >= 0.5, replica"
    assert names["clustered.t"] == "t of the per-problem mean"


def test_a_reports_own_notes_stay_as_they_are() -> None:
    """What limits a session is a sentence already."""
    made = report(table(DOUBTFUL), notes=("warning: the disk was full",))
    assert noted(made)[-1] == "warning: the disk was full"


def test_a_verdict_that_its_interval_does_not_bear_out_is_noted_for_programs() -> None:
    """The JSON's notes say it; reports for people say it beside the verdict, not twice."""
    made = report(table(DOUBTFUL))
    assert made.decision.verdict == "load-bearing"
    assert ("decision.verdict", "by the point estimate; its interval includes 0") in [
        (reason.key, reason.why) for reason in reasons(made)
    ]
    assert not any("verdict" in note for note in noted(made))
