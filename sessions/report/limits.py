"""What limits a session's numbers, in words: every report of it, on a screen or in a file, says these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from sessions.numbers import clock, least
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState
    from sessions.state.rows import Gap

HARDLY: Final = 0.05  # share of right trunks, or of wrong ones, that is said

# False alarms of a plain t at 5% where a stop rule ends a campaign, and if it is read after every problem until it is
# significant, on sign-flipped published data (benchmarks/results/peeking_size.json).
AT_A_STOP: Final = "5 to 7%"
AT_EVERY_LOOK: Final = "14 to 30%"

# Notices of these kinds limit what the numbers say; others (loading) are about the run.
TELLING: Final = frozenset({"warning", "deviation", "import"})


def remarks(state: CampaignState) -> list[str]:
    """All of them, a sentence each: resumes, dropped pivots, settings, notices, irregularities.

    What every run warned of again is said once.
    """
    notices = (f"{notice.kind}: {notice.text}" for notice in state.notices if notice.kind in TELLING)
    return [
        *(_gap(state, gap) for gap in state.gaps()),
        *_accuracy(state),
        *_dropped(state),
        *_settings(state.spec),
        *dict.fromkeys(notices),
        *state.irregular,
    ]


def standing(state: CampaignState, doing: str) -> list[str]:
    """How far a campaign came, where it is not all that was registered.

    Args:
        state: folded.
        doing: state of the session, as the store says it.
    """
    if state.imported:
        return [f"imported from {state.source} (SHA-256 {state.source_sha256[:16]})"]
    measured, registered = len(state.measured), state.spec.problems
    if doing != "finished":
        why = f" ({state.ended.reason})" if state.ended is not None else ""
        return [f"the campaign is {doing}{why}: {measured} of {registered} problems measured"]
    return [f"{measured} of {registered} problems measured"] if measured < registered else []


def unfinished(state: CampaignState) -> bool:
    """Whether a campaign has yet to reach its planned end: its verdict is one so far, whatever it does now.

    "Stopped" is the planned end where the registered rule says so; else hours or cost ran out before. An import is
    whole once it was read to its end; in the middle of a replay it is not.
    """
    if state.imported:
        return state.ended is None
    if state.ended is None or state.ended.state != "stopped":
        return state.ended is None or state.ended.state != "finished"
    return not state.live.monitor.should_stop(state.spec.stop, state.spec.min_problems)


def looked(state: CampaignState) -> bool:
    """Whether the number of problems was left to looks at the data: a rule that could end the campaign after any.

    How an import was stopped is not known.
    """
    return state.spec.stop != "none" and not state.imported


def optimism(state: CampaignState) -> list[str]:
    """What looking after every problem does to inference at a fixed n, and what holds instead; none without a rule."""
    if not looked(state):
        return []
    monitor, rule = state.live.monitor, state.spec.stop
    process: Literal["symmetry", "betting"] = "betting" if rule == "betting" else "symmetry"
    why = "so fixed-n intervals and p values (CR2, bootstrap, sign-flip, plain t) are optimistic"
    alarms = f"{AT_A_STOP} false alarms at such an end and {AT_EVERY_LOOK} if read after every problem"
    holds = f"what holds is the {process} e-process: {least(monitor.lower(process), monitor.alpha)}"
    return [f"the campaign {_watched(state)}, {why} (a plain t at 5% on the published data: {alarms}); {holds}"]


def _watched(state: CampaignState) -> str:
    """How a campaign looked at its data, and what came of it."""
    each, past = "at its data after every problem", any(run.opened.past_stop for run in state.runs)
    crossed = state.live.monitor.should_stop(state.spec.stop, state.spec.min_problems)
    if past and crossed:
        return f"looked {each} and went on past the stop of its rule"
    if unfinished(state):
        return f"looks {each} and stops by its rule"
    return f"looked {each} and {'stopped by its rule' if crossed else 'would have stopped by its rule'}"


def _gap(state: CampaignState, gap: Gap) -> str:
    after = f"ended as {gap.after}" if gap.after else "died"
    parts = [f"run {gap.run + 1} continued {_elapsed(gap.seconds)} after run {gap.run} {after}"]
    if gap.host_changed:
        parts.append("on another host")
    if gap.versions is not None:
        parts.append(f"refeed-tui {gap.versions[0]} became {gap.versions[1]}")
    if gap.machine:
        parts.append(f"machine changed: {', '.join(gap.machine)}")
    if gap.changed:
        parts.append(f"CHANGED ENGINE, numerics differ from the first run's: {', '.join(gap.changed)}")
    retry = "RETRY after a cache abort: " if gap.retry else ""
    past = "PAST its stop rule: " if state.runs[gap.run].opened.past_stop else ""
    return f"{retry}{past}{'; '.join(parts)}"


def _elapsed(seconds: float) -> str:
    return f"(the clock stepped back {clock(-seconds)})" if seconds < 0 else clock(seconds)


def _accuracy(state: CampaignState) -> Iterator[str]:
    """How many trunks are right, where so few or so many are that estimates can hardly leave 0."""
    rows = [row for row in state.problems.values() if row.right is not None and row.trunks]
    right = sum(row.right for row in rows if row.right is not None)
    trunks = sum(len(row.trunks) for row in rows)
    if trunks > 0 and not HARDLY < right / trunks < 1 - HARDLY:
        says = "hardly solves" if 2 * right < trunks else "hardly ever fails"
        graded = f"{right} of {count(trunks, 'trunk')} are right"
        yield f"{graded}: a model that {says} its task leaves few estimates that can differ from 0"


def _dropped(state: CampaignState) -> list[str]:
    reasons = (
        (state.dropped.failed, "failed their cache checks"),
        (state.dropped.problem, "belong to problems that were dropped"),
        (state.dropped.abandoned, "belong to attempts that ended before their problem closed"),
        (state.waiting, "wait for their problem to close"),
    )
    return [f"{count(number, 'pivot')} not counted: they {why}" for number, why in reasons if number > 0]


def _settings(spec: CampaignSpec) -> Iterator[str]:
    if spec.pivot_filter == "published":
        yield "pivot_filter = published: reproduces a fault of the published harness, for comparison"
    if spec.grading == "published":
        yield "grading = published: grades the continuation alone, for comparison"


# Logits of 1/8 and more are spaced 2^-10 or wider in bfloat16 (8 significant bits); those of ranks 2 and 3 are larger.
_GRID: Final = 2.0**-10


class Fingerprint(NamedTuple):
    """What margins say about the filter's fault.

    Attributes:
        pivots: looked at.
        cleared: margin off the bfloat16 grid, so the true gap is what was recorded.
        unknown: margin on the grid; the true gap may be anything.
    """

    pivots: int
    cleared: int
    unknown: int

    @property
    def note(self) -> str:
        """The finding in a sentence or two, with method and limits."""
        share = f" ({100 * self.unknown / self.pivots:.0f}%)" if self.pivots > 0 else ""
        return (
            f"published pivot filter: {self.cleared:,} of {count(self.pivots, 'pivot')} are cleared of its fault (a "
            f"margin off the bfloat16 grid is a true top-1/top-2 gap); {self.unknown:,}{share} cannot be told from "
            "margins, which is no finding against them. The fault ranks tokens of probability 1 last, so that such a "
            "position looks low-margin. Needs bfloat16 logits; nothing was corrected."
        )


def fingerprint(margin: NDArray[np.float64]) -> Fingerprint:
    """Count the pivots that their margins clear of the filter's fault.

    Args:
        margin: recorded margins, nats, float64 [P].
    """
    cleared = int(np.count_nonzero(np.mod(margin, _GRID) != 0.0))
    return Fingerprint(pivots=len(margin), cleared=cleared, unknown=len(margin) - cleared)


def applies(spec: CampaignSpec) -> bool:
    """Whether a campaign's pivots were chosen by that filter, from logits whose grid is known."""
    return spec.pivot_filter == "published" and spec.dtype == "bfloat16"
