"""`report --json` on the published pooled run: each key carries the number that its name promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sessions.report.as_json import as_dict
from stats.cache import CacheTally
from stats.report import report
from tests.helpers.published import load, pooled_main
from tests.helpers.tables import counted, table


@pytest.fixture(scope="module")
def pooled() -> dict[str, Any]:
    return as_dict(report(pooled_main(), cache=CacheTally(checked=1567, verified=1567, counts=1567)), ["a", "b"])


def test_sizes(pooled: dict[str, Any]) -> None:
    """What went in."""
    assert [pooled[key] for key in ("sessions", "pivots", "problems", "informative_problems", "k")] == [
        ["a", "b"], 1567, 40, 40, [4],
    ]  # fmt: skip


def test_rates(pooled: dict[str, Any]) -> None:
    """Fractions, not percentages, with their own intervals."""
    refeed, floor = pooled["common"]["refeed"], pooled["common"]["floor"]
    assert (refeed["disagree"], refeed["zero_crossings"], refeed["reversals"]) == (215, 190, 25)
    assert (floor["disagree"], floor["zero_crossings"], floor["reversals"]) == (96, 89, 7)
    assert (refeed["rate"], floor["rate"]) == (215 / 636, 96 / 636)
    assert refeed["ci95"] == pytest.approx([0.281088, 0.400132], abs=1e-6)
    assert floor["ci95"] == pytest.approx([0.099809, 0.221819], abs=1e-6)
    assert pooled["common"]["excess"] == pytest.approx(119 / 636)
    assert (pooled["exact1"]["n"], pooled["exact1"]["refeed"]["disagree"]) == (515, 112)
    low, high = pooled["exact1"]["refeed"]["ci95"]
    assert low < 112 / 515 < high


def test_estimates(pooled: dict[str, Any]) -> None:
    """The two estimands do not lend each other their t or their randomisation p."""
    excess, clustered = pooled["pooled_excess"], pooled["clustered"]
    assert (excess["t"], clustered["t"]) == pytest.approx((4.93692783, 5.513465911))
    assert (excess["df"], clustered["df"]) == pytest.approx((28.338522, 39))
    assert (excess["p"], clustered["p"]) == pytest.approx((3.1989e-5, 2.4526e-6), rel=1e-4)
    assert (excess["sign_flip_p"], clustered["sign_flip_p"]) == (111057 / 2**34, 15150 / 2**34)
    assert excess["ci95"] == pytest.approx([0.109515, 0.264699], abs=1e-6)
    assert excess["ci95_bootstrap"] == pytest.approx([0.121, 0.269], abs=0.005)
    assert (clustered["mean"], clustered["sd"]) == pytest.approx((0.1673876, 0.1920121), abs=1e-7)


def test_sequential(pooled: dict[str, Any]) -> None:
    """Value, maximum, crossing in informative problems and lower bound; the path ends where the values are."""
    found = pooled["sequential"]
    assert [found[name]["stopped_at"] for name in ("symmetry", "betting", "t_e")] == [20, 25, 20]
    assert [found[name]["lower"] for name in ("symmetry", "betting", "t_e")] == pytest.approx(
        [0.073327, 0.061706, 0.074802], abs=1e-6
    )
    last = found["path"][-1]
    assert [last[name] for name in ("symmetry", "betting", "t_e")] == [
        found[name]["e"] for name in ("symmetry", "betting", "t_e")
    ]
    assert last["plain_t"] == pytest.approx(pooled["clustered"]["t"])
    assert last["mean"] == pytest.approx(pooled["clustered"]["mean"])
    assert (len(found["path"]), last["problem"], found["alpha"]) == (40, int(pooled_main().problems[-1]), 0.05)


def test_maximum_and_value_are_told_apart() -> None:
    """Evidence that came and went."""
    found = as_dict(report(table([counted(8, 0, 10)] * 8 + [counted(0, 9, 10)] * 12), draws=50))["sequential"][
        "symmetry"
    ]
    assert found["e"] < 20 <= found["e_max"]


def test_pairs(pooled: dict[str, Any]) -> None:
    """McNemar both ways and both t of the bias."""
    assert (pooled["mcnemar"]["b"], pooled["mcnemar"]["c"]) == (155, 36)
    assert (pooled["mcnemar"]["z"], pooled["mcnemar"]["z_clustered"]) == pytest.approx((8.6105, 3.5766), abs=1e-4)
    assert (pooled["bias"]["t"], pooled["bias"]["t_cr2"]) == pytest.approx((-1.2331, -1.4198), abs=1e-4)


def test_selection_margin_and_probe(pooled: dict[str, Any]) -> None:
    """Re-feed and replica are not exchanged anywhere."""
    half, most = pooled["selection"]["0.5"], pooled["selection"]["0.75"]
    assert half["refeed"]["jaccard"] == 184 / 269
    assert (half["replica"]["both"], half["replica"]["either"]) == (205, 245)
    assert half["refeed"]["ci95_bootstrap"] == pytest.approx([0.572, 0.771], abs=0.005)
    assert half["replica"]["ci95_bootstrap"] == pytest.approx([0.748, 0.900], abs=0.005)
    assert (half["selected_exact1"], most["selected_exact1"]) == (229, 123)
    assert pooled["margin"]["below_0.3"] == {"refeed": 80 / 234, "floor": 28 / 234, "n": 234}
    assert pooled["margin"]["from_0.3"] == {"refeed": 135 / 402, "floor": 68 / 402, "n": 402}
    assert pooled["probe"]["pivots"] == 1567
    assert pooled["probe"]["refeed"]["diverged"] == 357 / 1567
    assert pooled["probe"]["replica"]["bit_exact"] == 1133 / 1567


def test_what_only_the_text_report_had(pooled: dict[str, Any]) -> None:
    """The sign e-process and the peeking t of the reference table; the other rows as the report has them."""
    found, rows = pooled["supplement"], report(pooled_main(), draws=10)
    assert found["sign"]["e"] == pytest.approx(3528.0311)
    assert found["plain_t"] == {"t": pytest.approx(5.513465911), "crossed_at": 5}
    assert found["no_decode_state"] is None
    chosen = rows.selection["0.5"].selection
    assert found["within_quantum_share"]["0.5"] == {
        "refeed": chosen.refeed.within_quantum_share,
        "replica": chosen.replica.within_quantum_share,
    }
    assert found["margin_differs"]["refeed"]["difference"] == pytest.approx(135 / 402 - 80 / 234)
    assert found["margin_differs"]["excess"]["difference"] == pytest.approx(67 / 402 - 52 / 234)
    assert found["bit_exact_arms"]["replica"] > found["bit_exact_arms"]["refeed"] > 0
    assert found["sign_flip_exact"] == {"pooled": True, "mean": True}


def test_nothing_stands_in_the_notes_of_a_full_report(pooled: dict[str, Any]) -> None:
    """Only the plain t of the first problem does not exist."""
    assert [note.split(":")[0] for note in pooled["notes"]] == ["sequential.path.plain_t"]


def test_one_event_is_something_seen() -> None:
    """Bounds for nothing seen are given only where nothing was."""
    found = report(table([counted(1, 0, 4), counted(0, 0, 4)]), draws=10)
    assert found.common.refeed_bound is None
    assert found.common.floor_bound is not None


def test_pivots_without_decode_state_have_a_row_of_their_own() -> None:
    """A hit that lies in the prompt is a free control; without a ledger there is no such row."""
    plain = load("k8")
    assert report(plain, draws=10).no_decode_state is None
    decode = np.where(np.arange(len(plain.group)) % 3 == 0, 0, 16)
    decode[1] = -1
    found = report(replace(plain, decode_tokens=decode), draws=10).no_decode_state
    assert found is not None
    assert found.n == np.any(plain.net[decode == 0] != 0, axis=1).sum()
