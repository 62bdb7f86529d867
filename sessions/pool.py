"""Several sessions as one table, where their settings allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.errors import RefeedError
from sessions.spec import BY_CONTENT, COHORT_FIELDS, changed_fields
from stats.pool import Pool, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.campaign import CampaignState
    from sessions.spec import CampaignSpec


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
