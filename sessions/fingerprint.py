"""A fingerprint of the published pivot filter's fault, from margins alone.

The published filter tests logprobs for truth, so a token of probability 1 (logprob exactly 0.0) sorts last, and its
"margin" is taken between ranks 2 and 3. In that case the softmax's normaliser equals the top logit, so both logprobs
are differences of bfloat16 logits and the recorded margin lies exactly on their grid. A margin off the grid was rounded
in float32 and therefore is a true top-1/top-2 gap: its pivot is cleared. A margin on the grid proves nothing, for most
true gaps lie there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stats.words import count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sessions.spec import CampaignSpec

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
