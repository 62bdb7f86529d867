"""What a pivot's numbers may be: every reader that counts them refuses others, `verify` and bundles too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.disk.journal import broken

if TYPE_CHECKING:
    from sessions.events import Pivot


def require_consistent(event: Pivot, k: int) -> None:
    """Pass when a pivot's numbers go with each other and with the spec.

    Args:
        event: as it stands in the journal.
        k: registered continuations an arm.

    Raises:
        RefeedError: kind "integrity", naming the line and the numbers.
    """
    if event.k != k:
        raise broken(event.seq + 1, f"says k = {event.k}, but {k} was registered")
    for result in (event.exact1, event.exact2, event.refeed):
        net, one, other = result.net, result.actual.correct, result.alternative.correct
        if not -k <= net <= k:
            raise broken(event.seq + 1, f"says net {net} of {k} continuations an arm")
        if one is not None and other is not None and (max(one, other) > k or one - other != net):
            raise broken(event.seq + 1, f"says net {net} with {one} and {other} of {k} right")
