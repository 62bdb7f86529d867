"""Sessions folded to their end and put into a report: one, several pooled, or several side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sessions.disk.journal import read
from sessions.errors import RefeedError
from sessions.numbers import NONE, clock, moment
from sessions.report.as_json import as_dict
from sessions.report.document import Document
from sessions.report.limits import applies, fingerprint, looked, optimism, remarks, standing, unfinished
from sessions.report.reasons import noted
from sessions.report.sections import against_section, headline, sections, size
from sessions.spec import BY_CONTENT, COHORT_FIELDS, changed_fields
from sessions.state.fold import fold_all
from sessions.version import VERSION
from stats.cache import CacheTally
from stats.contrast import Difference, difference
from stats.pool import Pool, pool
from stats.report import report
from stats.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState
    from sessions.store import SessionFolder
    from stats.contrast import Contrast
    from stats.report import Report
    from stats.sequential import StopRule
    from stats.table import PivotTable


def same_content(one: CampaignSpec, other: CampaignSpec) -> frozenset[str]:
    """Fields that name the same data or model, perhaps by another path: those whose digests are known and equal."""
    pairs = {field: (getattr(one, digest), getattr(other, digest)) for field, digest in BY_CONTENT.items()}
    return frozenset(field for field, (first, second) in pairs.items() if first is not None and first == second)


def check_same(specs: Sequence[CampaignSpec], ids: Sequence[str]) -> None:
    """Pass when specs differ in nothing but which problems they take.

    Args:
        specs: of the sessions.
        ids: of the sessions, for the message.

    Raises:
        RefeedError: kind "usage", with the fields that differ and both values.
    """
    for spec, name in zip(specs[1:], ids[1:], strict=True):
        names = changed_fields(specs[0], spec, COHORT_FIELDS | same_content(specs[0], spec))
        if names:
            differences = ", ".join(f"{n} ({getattr(specs[0], n)!r} and {getattr(spec, n)!r})"[:120] for n in names)
            raise RefeedError(
                "usage",
                f"{ids[0]} and {name} cannot be pooled: they differ in {differences}",
                "report them side by side, without --pool",
            )


def pool_sessions(states: Sequence[CampaignState], ids: Sequence[str]) -> Pool:
    """Pool sessions in the order given; a pivot that several hold counts once, in the first.

    Args:
        states: folded sessions.
        ids: of these, for messages.

    Raises:
        RefeedError: kind "usage" when there is none, or their settings differ.
    """
    if not states:
        raise RefeedError("usage", "nothing to pool", "name at least one session")
    check_same([state.spec for state in states], ids)
    return pool([state.table() for state in states])


@dataclass(frozen=True, slots=True)
class Session:
    """One session, folded to the end of its journal.

    Attributes:
        folder: where it is.
        state: what its journal tells.
        torn: bytes after the last whole event.
    """

    folder: SessionFolder
    state: CampaignState
    torn: int = 0

    @classmethod
    def load(cls, folder: SessionFolder) -> Session:
        """Read and fold a session.

        Raises:
            RefeedError: kind "integrity" when its spec or journal does not hold.
        """
        reading = read(folder.journal_path, folder.registration().digest)
        state = fold_all(folder.spec(), reading)
        return cls(folder, state, reading.torn)

    @property
    def spec(self) -> CampaignSpec:
        """Its registered settings."""
        return self.state.spec

    @property
    def label(self) -> str:
        """Its id, and its name where it has one."""
        name = self.folder.name
        return self.folder.id if name is None else f"{self.folder.id} ({name})"

    @property
    def settings(self) -> str:
        """What ran where, when it began, and how long its workers ran."""
        spec, state = self.spec, self.state
        invariant = ", batch-invariant" if spec.batch_invariant else ""
        engine = spec.engine if state.engine is None else state.engine.engine
        began = moment(state.started) if state.started > 0 else None
        when = "" if began is None else f"; {began:%Y-%m-%d %H:%M} UTC, {clock(state.seconds)}"
        return f"{spec.model or NONE} on {engine} ({spec.dtype}{invariant}), {spec.task or NONE}{when}"


@dataclass(frozen=True, slots=True)
class Audit:
    """A report and what it is of.

    Attributes:
        sessions: that went in, in argument order.
        table: their evidence.
        report: its numbers.
        against: id of the session compared with; empty without one.
        difference: to that session; None without one.
        differs: settings in which the two differ, beside which problems they take.
    """

    sessions: tuple[Session, ...]
    table: PivotTable
    report: Report
    against: str = ""
    difference: Difference | None = None
    differs: tuple[str, ...] = ()

    @property
    def so_far(self) -> bool:
        """Whether a campaign has yet to reach its planned end."""
        return any(unfinished(session.state) for session in self.sessions)

    @property
    def looked(self) -> StopRule:
        """The rule by which looks at the data could end a campaign; "none" where none could, or nobody knows."""
        return next((session.spec.stop for session in self.sessions if looked(session.state)), "none")

    def document(self, subject: str = "", *, failures: int | None = None) -> Document:
        """The report in words.

        Args:
            subject: what it is of; the sessions' ids and names where nothing is given.
            failures: of cache checks that are named; None for all.
        """
        against = None
        if self.difference is not None:
            against = against_section(self.against, self.difference, self.differs)
        return Document(
            subject=subject or " + ".join(session.label for session in self.sessions),
            opening=(self.sessions[0].settings, size(self.report)),
            headline=headline(self.report, so_far=self.so_far, looked=self.looked),
            sections=tuple(
                sections(self.report, so_far=self.so_far, looked=self.looked, against=against, failures=failures)
            ),
            notes=tuple(noted(self.report)),
            closing=_closing(self.sessions),
        )

    def as_json(self) -> dict[str, Any]:
        """The report as `report --json` promises it."""
        made = as_dict(self.report, [session.folder.id for session in self.sessions])
        made["so_far"] = self.so_far
        if self.difference is not None:
            made["difference"] = _difference_json(self.difference, self.against) | {"differs_in": list(self.differs)}
        return made


def _closing(sessions: Sequence[Session]) -> str:
    """What was registered and which version counted: enough to find the sessions again, and to count once more."""
    digests = ", ".join(session.folder.registration().digest for session in sessions)
    return f"refeed-tui {VERSION}; spec digest {digests}; intervals at 95%, pp = percentage points"


def _difference_json(found: Difference, against: str) -> dict[str, Any]:
    return {
        "against": against,
        "refeed": _contrast_json(found.refeed),
        "floor": _contrast_json(found.floor),
        "excess": _contrast_json(found.excess),
        "shared_problems": found.shared_problems,
    }


def _contrast_json(contrast: Contrast) -> dict[str, Any]:
    return {
        "value": contrast.difference,
        "se": contrast.se,
        "t": contrast.t,
        "df": contrast.df,
        "p": contrast.p,
        "ci95": None if contrast.ci95 is None else list(contrast.ci95),
    }


def audit(sessions: Sequence[Session], against: Session | None = None) -> Audit:
    """Report on one session, or on several pooled.

    Args:
        sessions: in argument order; several must have the same settings.
        against: a session whose excess is subtracted.

    Raises:
        RefeedError: kind "usage" when the sessions may not be pooled, naming the fields in which they differ.
    """
    first = sessions[0]
    _check_distinct(sessions)
    merged = pool_sessions([session.state for session in sessions], [session.folder.id for session in sessions])
    made = report(
        merged.table,
        alpha=first.spec.alpha,
        decision=first.spec.decision,
        seed=first.spec.seed,
        registered=sum(session.spec.problems for session in sessions),
        cache=_cache(sessions),
        notes=[
            *limits(sessions, merged.table, [dropped.source for dropped in merged.dropped]),
            *(() if against is None else _other_limits(against)),
        ],
    )
    if against is None:
        return Audit(tuple(sessions), merged.table, made)
    found = difference(merged.table, _comparable(against, first.spec, merged.table))
    differs = changed_fields(first.spec, against.spec, COHORT_FIELDS | same_content(first.spec, against.spec))
    return Audit(tuple(sessions), merged.table, made, against.folder.id, found, tuple(differs))


def limits(sessions: Sequence[Session], table: PivotTable, dropped: Sequence[int] = ()) -> list[str]:
    """Everything that limits the numbers of sessions, a sentence each; whatever carries numbers away says these.

    Args:
        sessions: of one report, with the same settings.
        table: their evidence.
        dropped: for each pivot that pooling dropped, which session held it.
    """
    several = len(sessions) > 1
    notes = [f"{session.folder.id}: {note}" if several else note for session in sessions for note in _notes(session)]
    notes += _pool_notes(sessions, dropped) if several else ()
    spec = sessions[0].spec
    return [*notes, fingerprint(table.margin).note] if applies(spec) else notes


def _other_limits(against: Session) -> Iterator[str]:
    """What limits the session compared with, and so the difference."""
    for note in limits([against], against.state.table()):
        yield f"{against.folder.id}, compared with: {note}"


def _comparable(against: Session, spec: CampaignSpec, table: PivotTable) -> PivotTable:
    """Evidence of the session compared with; of another task, its indices are moved away: they are other problems."""
    other = against.state.table()
    same = spec.task == against.spec.task and spec.task_digest == against.spec.task_digest
    if same or "task" in same_content(spec, against.spec):
        return other
    highest = max(table.problems, default=0)
    return replace(other, problems=other.problems + int(highest) + 1)


def _check_distinct(sessions: Sequence[Session]) -> None:
    paths = [session.folder.path.resolve() for session in sessions]
    for at, session in enumerate(sessions):
        if paths[at] in paths[:at]:
            raise RefeedError("usage", f"session {session.folder.id} was given twice", "name each session once")


def _cache(sessions: Sequence[Session]) -> CacheTally:
    tallies = [session.state.cache_tally() for session in sessions]
    if len(tallies) == 1:
        return tallies[0]
    return CacheTally(
        checked=sum(tally.checked for tally in tallies),
        verified=sum(tally.verified for tally in tallies),
        not_instrumented=sum(tally.not_instrumented for tally in tallies),
        ledger=sum(tally.ledger for tally in tallies),
        counts=sum(tally.counts for tally in tallies),
        failures=tuple(
            replace(failure, session=session.folder.id)
            for session, tally in zip(sessions, tallies, strict=True)
            for failure in tally.failures
        ),
    )


def _pool_notes(sessions: Sequence[Session], dropped: Sequence[int]) -> list[str]:
    notes = []
    for at, session in enumerate(sessions):
        repeated = dropped.count(at)
        if repeated > 0:
            notes.append(
                f"pooling dropped {count(repeated, 'pivot')} of {session.label} that an earlier session "
                "holds; their cache checks are counted"
            )
    fingerprints = {session.state.engine.fingerprint for session in sessions if session.state.engine is not None}
    if len(fingerprints) > 1:
        notes.append("the pooled sessions ran on engines whose numerics differ")
    return notes


def _notes(session: Session) -> Iterator[str]:
    """What limits a session's numbers, in words."""
    yield from standing(session.state, session.folder.state())
    yield from optimism(session.state)
    if session.torn > 0 and not session.folder.live():  # a living writer is in the middle of a line
        yield f"{count(session.torn, 'byte')} after the last event are torn and not read"
    yield from remarks(session.state)
