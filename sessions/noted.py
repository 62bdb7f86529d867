"""What limits the numbers of a report, for people: equal reasons said once, and what they are of in words.

`report --json` has the same notes under the keys of its values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stats.notes import reasons

if TYPE_CHECKING:
    from stats.report import Report

# The table of e-processes says "not crossed", and the line below it what a plain t is worth.
_SAID_BY_TABLE: Final = re.compile(r"sequential\.(\w+\.stopped_at|path\.plain_t)")
_PASS: Final = {"refeed": "re-feed", "replica": "replica", "floor": "floor"}
_SET: Final = {"common": "any pass not 0", "exact1": "exact-1 not 0"}
_WORDS: Final = {
    **_SET,
    **{f"{key}.{name}.ci95": f"{_PASS[name]}, {words}" for key, words in _SET.items() for name in ("refeed", "floor")},
    "pooled_excess": "pooled excess",
    "pooled_excess.ci95_bootstrap": "pooled excess by bootstrap",
    "pooled_excess.sign_flip_p": "sign-flip of the pooled excess",
    "clustered": "per-problem mean",
    "clustered.t": "t of the per-problem mean",
    "clustered.sign_flip_p": "sign-flip of the per-problem mean",
    "sequential.symmetry.lower": "lower bound by symmetry",
    "sequential.betting.lower": "lower bound by betting",
    "sequential.t_e.lower": "lower bound by t",
    "mcnemar": "McNemar",
    "bias": "bias",
    "bias.t_cr2": "bias by CR2",
    "margin.below_0.3": "margin below 0.3 nats",
    "margin.from_0.3": "margin from 0.3 nats",
    "cache": "cache checks",
    "cache.rate": "cache checks",
    "decision.verdict": "verdict",
    **{f"probe.{name}": f"probes, {_PASS[name]}" for name in ("refeed", "replica")},
    **{f"probe.{name}.diverged": f"diverged probes, {_PASS[name]}" for name in ("refeed", "replica")},
    **{f"probe.{name}.median_nonzero": f"median probe delta, {_PASS[name]}" for name in ("refeed", "replica")},
}
_SELECTION: Final = re.compile(r"selection\.([\d.]+)\.(refeed|replica)(\.ci95_bootstrap)?")


def in_words(key: str) -> str:
    """What a key of `report --json` is called in a report for people; one without words stays as it is."""
    selected = _SELECTION.fullmatch(key)
    if selected is None:
        return _WORDS.get(key, key)
    cut, name, interval = selected.groups()
    return f"{'interval of the ' if interval else ''}Jaccard at |A| >= {cut}, {_PASS[name]}"


def noted(report: Report) -> list[str]:
    """Reasons for what is missing or limited, then the report's own notes; what its tables say is left out."""
    of: dict[str, list[str]] = {}
    for key, why in reasons(report):
        said = _SAID_BY_TABLE.fullmatch(key) or (key == "decision.verdict" and report.decision.verdict is not None)
        if not said:
            of.setdefault(why, []).append(in_words(key))
    return [*(f"{why} ({'; '.join(dict.fromkeys(names))})" for why, names in of.items()), *report.notes]
