"""Panel 8: what was registered, and whatever departed from it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from sessions.numbers import clock, moment
from sessions.report.limits import remarks
from sessions.spec import CampaignSpec
from sessions.text import one_line
from tui.dashboard.panels.base import Pane
from tui.dashboard.style import text_of
from tui.dashboard.widgets.lines import ScrollLines
from tui.dashboard.words import heading
from tui.setup.options import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from textual.app import ComposeResult

    from sessions.state.campaign import CampaignState
    from tui.dashboard.style import Glyphs, Line
    from tui.viewer.session import LiveSession

NAME: Final = 26
LONGEST: Final = 2000


class RegistrationPane(Pane):
    """What was registered, and what departed from it."""

    title = "Setup"

    def compose(self) -> ComposeResult:
        """Lines."""
        yield ScrollLines(id="registration")

    def paint(self, session: LiveSession, *, plots: bool) -> None:
        """Show it."""
        if plots:
            body = self.query_one("#registration", ScrollLines)
            body.show(lines(session, max(40, body.size.width - 1), self.glyphs))

    def copied(self, session: LiveSession) -> str:
        """Everything, also what is scrolled away; each value on one line, however the screen breaks it."""
        width = max(40, self.query_one("#registration", ScrollLines).size.width - 1)
        found = lines(session, width, self.glyphs, whole=True)
        return "\n".join(text_of(spans).rstrip() for spans in found)


def lines(session: LiveSession, width: int, glyphs: Glyphs, *, whole: bool = False) -> tuple[Line, ...]:
    """Digest, decision and stop rule, deviations, engine, numerics and machine, then every setting.

    Values wrap below themselves. A name is never cut: a long one has a line of its own.

    Args:
        session: the session.
        width: cells.
        glyphs: marks of this terminal.
        whole: leave every value on one line, for whoever copies it.
    """
    room = LONGEST + NAME if whole else width
    engine = session.state.engine
    sections: list[tuple[str, str, Iterable[Line]]] = [
        ("Registered", "", _pairs(_registered(session), room)),
        ("Decision", "", _pairs(_decision(session.spec), room)),
        ("Deviations", "", _deviations(session, room)),
        ("Engine", "", _engine(session.state, room)),
        ("Settings", "* differs from the default", _settings(session.spec, room)),
    ]
    if engine is not None:
        facts = (("Numerics", engine.numerics), ("Machine", engine.machine))
        sections[-1:-1] = [(title, "", _pairs(sorted(found.items()), room)) for title, found in facts]
    out: list[Line] = []
    for title, note, body in sections:
        out += [heading(title, width, glyphs, note), *body, ()]
    return tuple(out[:-1])


def _registered(session: LiveSession) -> Iterator[tuple[str, str]]:
    price = session.registration.price_per_hour
    yield "session", session.folder.id
    yield "name", session.folder.name or "none"
    yield "digest (SHA-256)", session.registration.digest
    yield "folder", str(session.folder.path)
    yield "price per hour", "none" if price is None else f"{price:g}"


def _decision(spec: CampaignSpec) -> Iterator[tuple[str, str]]:
    negligible, bearing = spec.decision
    above, below = (f"{cut:g} ({100 * cut:.3g}pp)" for cut in (bearing, negligible))
    yield "rule", f"pooled excess above {above}: load-bearing; below {below}: negligible; between: inconclusive"
    stop = "none: all problems are measured"
    if spec.stop != "none":
        level = f"1/alpha = {1 / spec.alpha:g}"
        stop = f"{spec.stop} e-value at {level}, after {spec.min_problems} informative problems"
    yield "stop", stop
    yield "on a cache failure", spec.on_cache_failure


def _pairs(pairs: Iterable[tuple[str, str]], width: int) -> Iterator[Line]:
    for name, value in pairs:
        parts = textwrap.wrap(one_line(value, LONGEST), max(20, width - NAME)) or ["-"]
        safe = one_line(name, LONGEST)
        if len(safe) > NAME - 2:
            yield ((safe, "muted"),)
            safe = ""
        yield ((f"{safe:<{NAME}}", "muted"), (parts[0], "plain"))
        for part in parts[1:]:
            yield ((" " * NAME, "plain"), (part, "plain"))


def _deviations(session: LiveSession, width: int) -> Iterator[Line]:
    found = list(deviations(session.state))
    if not found:
        yield (("none recorded", "good"),)
    for text in found:
        for number, part in enumerate(textwrap.wrap(one_line(text, 1000), max(20, width - 2))):
            yield (("- " if number == 0 else "  ", "warn"), (part, "warn"))


def deviations(state: CampaignState) -> Iterator[str]:
    """Everything that a reader of the numbers has to know, in words."""
    if state.imported:
        yield f"imported from {state.source}: caches, clocks and texts are not known"
    yield from remarks(state)


def _engine(state: CampaignState, width: int) -> Iterator[Line]:
    engine = state.engine
    if engine is None:
        yield (("no engine answered yet" if not state.imported else "not known: an import", "muted"),)
        return
    yield from _pairs(
        (
            ("engine", engine.engine),
            ("model", engine.model),
            ("cache", f"{engine.num_blocks:,} blocks of {engine.block_size} tokens; checks rest on {engine.proof}"),
            ("limits", f"{engine.max_model_len:,} tokens, {engine.max_num_seqs:,} requests in a batch"),
            ("fingerprint", engine.fingerprint),
        ),
        width,
    )
    for number, run in enumerate(state.runs, start=1):
        began = _utc(run.opened.wall)
        text = f"{began}, {clock(run.seconds)}, {run.ended or 'not ended'}, host {run.opened.host or '-'}"
        yield from _pairs(((f"run {number}", text),), width)


def _utc(wall: float) -> str:
    """Seconds since the epoch as a date and time, as the report has them; a dash for a time that no calendar has."""
    began = moment(wall)
    return "-" if began is None else f"{began:%Y-%m-%d %H:%M:%S} UTC"


def _settings(spec: CampaignSpec, width: int) -> Iterator[Line]:
    defaults = CampaignSpec()
    for name in CampaignSpec.__struct_fields__:
        value, default = getattr(spec, name), getattr(defaults, name)
        mark = "* " if value != default else "  "
        text = "engine's own, or none" if value is None else shown(value)
        parts = textwrap.wrap(one_line(text, LONGEST), max(20, width - NAME - 2)) or ["-"]
        yield ((mark, "accent"), (f"{name:<{NAME}}", "muted"), (parts[0], "plain" if mark == "  " else "strong"))
        for part in parts[1:]:
            yield ((" " * (NAME + 2), "plain"), (part, "plain"))
