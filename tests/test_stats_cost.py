"""What the statistics load; what they cost is in benchmarks/."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.published import published_folder

REPOSITORY = Path(__file__).resolve().parent.parent

REPORT = """
import sys
from tests.helpers.published import pooled_main
import sessions.report.as_json, stats.report, stats.planning, stats.contrast, stats.joint, stats.live
assert not [name for name in sys.modules if name.startswith("scipy")], "importing must not load scipy"
table = pooled_main()
sessions.report.as_json.as_dict(stats.report.report(table))
stats.planning.plan(table)
assert "scipy.stats" not in sys.modules, "scipy.stats costs most of a second"
"""


def test_a_report_never_imports_scipy_stats() -> None:
    """Import loads no scipy at all, and neither a report nor a plan loads scipy.stats."""
    environment = os.environ | {"REFEED_SHARED": str(published_folder().parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", REPORT], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_module_mentions_scipy_stats() -> None:
    """scipy.special only, in every package."""
    sources = [path for name in ("stats", "sessions", "engine", "tui") for path in (REPOSITORY / name).rglob("*.py")]
    assert len(sources) > 20
    mentions = [
        path for path in sources if "import scipy.stats" in (text := path.read_text()) or "scipy import stats" in text
    ]
    assert mentions == []
