"""Every pivot of a journal as columns of numbers, in the order of their events.

A hundred thousand pivots are a hundred thousand rows of a table that is scrolled and sorted, and the input of every
statistic; as objects they would take minutes of the collector's time and a gigabyte. Rows are only ever added.
"""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sessions.events import Pivot, Probe

UNKNOWN: Final = -1
_NAN: Final = float("nan")

Whole = Literal[
    "seq",
    "problem",
    "attempt",
    "rollout",
    "position",
    "index",
    "k",
    "net_exact1",
    "net_exact2",
    "net_refeed",
    "actual_exact1",
    "actual_exact2",
    "actual_refeed",
    "alternative_exact1",
    "alternative_exact2",
    "alternative_refeed",
    "correct",
    "hit_tokens",
    "decode_tokens",
    "actual",
    "alternative",
    "rank",
    "cache",
    "proof",
    "twins",
    "diverged_exact2",
    "diverged_refeed",
]
Real = Literal[
    "probe_exact1_actual",
    "probe_exact1_alternative",
    "probe_exact2_actual",
    "probe_exact2_alternative",
    "probe_refeed_actual",
    "probe_refeed_alternative",
    "margin",
    "mono",
    "given_delta_exact2",
    "given_delta_refeed",
    "actual_logprob",
    "alternative_logprob",
]
WHOLE: Final[dict[str, int]] = {name: place for place, name in enumerate(get_args(Whole))}
REAL: Final[dict[str, int]] = {name: place for place, name in enumerate(get_args(Real))}

# Values of the column `cache`, and of `proof`.
VERIFIED: Final = 0
FAILED: Final = 1
NOT_INSTRUMENTED: Final = 2
_CACHE: Final = {"verified": VERIFIED, "failed": FAILED, "not_instrumented": NOT_INSTRUMENTED}
LEDGER: Final = 0
COUNTS: Final = 1
_PROOF: Final = {"ledger": LEDGER, "counts": COUNTS, None: UNKNOWN}


# The columns of Whole down to "rank", in its order, as paths into a Pivot; those after it are worked out.
_get_plain: Final = attrgetter(
    *("seq", "problem", "attempt", "rollout", "position", "index", "k"),
    *("exact1.net", "exact2.net", "refeed.net"),
    *("exact1.actual.correct", "exact2.actual.correct", "refeed.actual.correct"),
    *("exact1.alternative.correct", "exact2.alternative.correct", "refeed.alternative.correct"),
    *("correct", "cache.hit_tokens", "cache.decode_tokens", "actual", "alternative", "rank"),
)
_get_arms: Final = attrgetter(
    *("exact1.actual.probe", "exact1.alternative.probe"),
    *("exact2.actual.probe", "exact2.alternative.probe"),
    *("refeed.actual.probe", "refeed.alternative.probe"),
)


def _diverged(given: bool | None, first: Probe | None, second: Probe | None, *exact1: Probe | None) -> int:
    """1 where an arm left exact-1's probe tokens, 0 where none did, UNKNOWN where a probe or its tokens are absent."""
    if given is not None:
        return int(given)
    one, two = exact1
    if one is None or two is None or first is None or second is None:
        return UNKNOWN
    if not (one.tokens and two.tokens and first.tokens and second.tokens):
        return UNKNOWN
    return int(one.tokens != first.tokens or two.tokens != second.tokens)


class PivotColumns:
    """Columns of every Pivot event, whether it is evidence or not.

    Attributes:
        texts: (actual, alternative) token text by row.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.texts: list[tuple[str, str]] = []
        self._whole = array("q")
        self._real = array("d")
        self._tables: tuple[int, NDArray[np.int64], NDArray[np.float64]] | None = None

    def __len__(self) -> int:
        """Rows."""
        return len(self.texts)

    def append(self, pivot: Pivot) -> int:
        """Add a pivot and return its row."""
        one, two, three, cache = pivot.exact1, pivot.exact2, pivot.refeed, pivot.cache
        plain, probes = _get_plain(pivot), _get_arms(pivot)
        if None in plain:
            plain = tuple(UNKNOWN if value is None else value for value in plain)
        # few calls for each row: attaching to a long campaign comes through here a hundred thousand times
        self._whole.extend(plain)
        self._whole.extend(
            (
                _CACHE[cache.state],
                _PROOF[cache.proof],
                one.twins + two.twins + three.twins,
                _diverged(two.probe_diverged, probes[2], probes[3], probes[0], probes[1]),
                _diverged(three.probe_diverged, probes[4], probes[5], probes[0], probes[1]),
            )
        )
        self._real.extend([_NAN if probe is None else probe.first_logprob for probe in probes])
        self._real.extend(
            (
                pivot.margin,
                pivot.mono,
                _NAN if two.probe_delta is None else two.probe_delta,
                _NAN if three.probe_delta is None else three.probe_delta,
                _NAN if pivot.actual_logprob is None else pivot.actual_logprob,
                _NAN if pivot.alternative_logprob is None else pivot.alternative_logprob,
            )
        )
        self.texts.append((pivot.actual_text, pivot.alternative_text))
        return len(self.texts) - 1

    def whole(self, name: Whole) -> NDArray[np.int64]:
        """A column of integers, int64 [rows]; UNKNOWN where a value is not known. Read only."""
        return self._arrays()[0][:, WHOLE[name]]

    def real(self, name: Real) -> NDArray[np.float64]:
        """A column of floats, float64 [rows]; NaN where a value is not known. Read only."""
        return self._arrays()[1][:, REAL[name]]

    def wholes(self, *names: Whole) -> NDArray[np.int64]:
        """Several columns of integers side by side, int64 [rows, names]."""
        return self._arrays()[0][:, [WHOLE[name] for name in names]]

    def reals(self, *names: Real) -> NDArray[np.float64]:
        """Several columns of floats side by side, float64 [rows, names]."""
        return self._arrays()[1][:, [REAL[name] for name in names]]

    def arm_deltas(self) -> NDArray[np.float64]:
        """|First-token logprob - exact-1's| by comparison (exact-2, re-feed) and arm, nats, float64 [rows, 2, 2].

        NaN where either probe is absent. Differences of float32 values, taken in float64 as the published records do.
        """
        import numpy as np  # noqa: PLC0415 - `list` folds without it

        exact1 = self.reals("probe_exact1_actual", "probe_exact1_alternative")
        exact2 = self.reals("probe_exact2_actual", "probe_exact2_alternative")
        refeed = self.reals("probe_refeed_actual", "probe_refeed_alternative")
        return np.abs(np.stack([exact2, refeed], axis=1) - exact1[:, None, :])

    def deltas(self) -> NDArray[np.float64]:
        """Larger of a comparison's two arm deltas, nats, float64 [rows, 2]; an import's own figure where it has one."""
        import numpy as np  # noqa: PLC0415 - `list` folds without it

        given = self.reals("given_delta_exact2", "given_delta_refeed")
        largest: NDArray[np.float64] = self.arm_deltas().max(axis=2)  # NaN where either arm is
        return np.where(np.isnan(given), largest, given)

    def cell(self, row: int, name: Whole) -> int:
        """One integer, without copying the columns."""
        return self._whole[row * len(WHOLE) + WHOLE[name]]

    def nets(self, row: int) -> tuple[int, int, int]:
        """Net counts of one row: exact-1, exact-2, re-feed."""
        first = row * len(WHOLE) + WHOLE["net_exact1"]
        one, two, three = self._whole[first : first + 3]
        return one, two, three

    def append_nets(self, problem: int, attempt: int, place: tuple[int, int], nets: tuple[int, int, int]) -> int:
        """Add a row of which nothing else is known, as a summary keeps it, and return it.

        Args:
            problem: task index.
            attempt: at that problem.
            place: rollout and position.
            nets: by pass.
        """
        known = {"problem": problem, "attempt": attempt, "rollout": place[0], "position": place[1]}
        known |= zip(("net_exact1", "net_exact2", "net_refeed"), nets, strict=True)
        self._whole.extend(known.get(name, UNKNOWN) for name in WHOLE)
        self._real.extend([_NAN] * len(REAL))
        self.texts.append(("", ""))
        return len(self.texts) - 1

    def _arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Copies, made once for each length: a view would forbid the arrays to grow."""
        if self._tables is None or self._tables[0] != len(self):
            import numpy as np  # noqa: PLC0415 - `list` folds without it

            whole = np.array(self._whole, dtype=np.int64).reshape(-1, len(WHOLE))
            real = np.array(self._real, dtype=np.float64).reshape(-1, len(REAL))
            for table in (whole, real):
                table.flags.writeable = False
            self._tables = (len(self), whole, real)
        return self._tables[1], self._tables[2]
