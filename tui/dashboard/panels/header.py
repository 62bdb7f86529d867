"""The two lines above every panel: state, session, time and money; problems, model, digest, machine."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sessions.text import one_line
from tui.dashboard.words import (
    block,
    duration,
    elapsed,
    joined,
    machine,
    model_name,
    money,
    status,
    time_left,
)

if TYPE_CHECKING:
    from sessions.state.campaign import CampaignState
    from tui.dashboard.style import Glyphs, Line, Span
    from tui.viewer.session import LiveSession

SECONDS_PER_HOUR: Final = 3600
LONG_SILENCE: Final = 10.0


def header(session: LiveSession, width: int, glyphs: Glyphs) -> tuple[Line, Line]:
    """State, session, time and money; then how many problems, model, digest and machine."""
    state, registration = session.state, session.registration
    name = session.folder.name or session.folder.id
    counts: tuple[Span, ...] = (
        (f"{len(state.measured)}/{session.spec.problems} problems", "strong"),
        (f", {state.live.informative} of {len(state.measured)} informative", "plain"),
        *_set_aside(state),
    )
    first = joined(
        (
            (block(status(session.status), glyphs),),
            ((f"on {session.away}", "warn"),) if session.away else (),
            ((f"{state.events:,} events read", "warn"),) if not session.opened and session.mode == "attach" else (),
            ((one_line(name, 32), "strong"),),
            *_time_and_money(session),
        ),
        width,
        glyphs,
    )
    second = joined(
        (
            counts,
            ((model_name(state, session.spec.model), "plain"),),
            (("batch-invariant", "plain"),) if session.spec.batch_invariant else (),
            ((f"digest {registration.digest[:8]}", "muted"),),
            ((_place(state), "muted"),) if _place(state) else (),
        ),
        width,
        glyphs,
    )
    return first, second


def _set_aside(state: CampaignState) -> tuple[Span, ...]:
    """Problems that a screen or a failed check took out, where there are any."""
    outcomes = Counter(row.outcome for row in state.problems.values())
    out: list[Span] = []
    if outcomes["screened-out"] > 0:
        out.append((f", {outcomes['screened-out']} screened out", "muted"))
    if outcomes["dropped"] > 0:
        out += [(", ", "plain"), (f" {outcomes['dropped']} DROPPED ", "bad")]
    return tuple(out)


def _place(state: CampaignState) -> str:
    engine = "" if state.engine is None else f"({state.engine.engine})"
    return " ".join(part for part in (machine(state), engine) if part)


def _time_and_money(session: LiveSession) -> tuple[tuple[Span, ...], ...]:
    state = session.state
    if state.imported:
        return (((f"imported from {one_line(state.source, 40)}", "accent"),),)
    ran, left = elapsed(session), time_left(session)
    time: list[Span] = [(f"elapsed {duration(ran)}", "plain")]
    if left is not None:
        time.append((f", ~{duration(left)} left", "plain"))
    elif session.status == "running" and session.waited < LONG_SILENCE:  # at 80 columns there is room for one
        time.append((", time left: after 2 problems", "muted"))
    return tuple(time), *_cost(session, ran, left), _last(session)


def _cost(session: LiveSession, ran: float, left: float | None) -> tuple[tuple[Span, ...], ...]:
    price = session.registration.price_per_hour
    if price is None:
        return ()
    text = f"cost {money(price * ran / SECONDS_PER_HOUR)}"
    if left is not None:
        text += f" of ~{money(price * (ran + left) / SECONDS_PER_HOUR)}"
    return ((text, "plain"),), ((f"{money(price)}/h", "muted"),)


def _last(session: LiveSession) -> tuple[Span, ...]:
    """How long the worker has been silent, once that is worth saying."""
    waited = session.waited
    return ((f"silent for {duration(waited)}", "warn"),) if waited >= LONG_SILENCE else ()
