"""How long exports of 100,000 pivots take, and how much memory, each format in a process of its own.

Run: python -m benchmarks.export_speed [PIVOTS]
Bar: csv and parquet under 5 s each, in bounded memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.attach_speed import session
from sessions.exchange.export import FORMATS

ONE = """
import resource, sys, time
from pathlib import Path
from sessions.exchange.export import export
from sessions.disk.journal import read
from sessions.state.fold import fold_all
from sessions.store import Store
folder = Store().newest()
started = time.perf_counter()
fold_all(folder.spec(), read(folder.journal_path, folder.registration().digest))
folded = time.perf_counter() - started
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
files = export(folder, [sys.argv[1]], Path(sys.argv[2])).files
seconds = time.perf_counter() - started
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(path.stat().st_size for path in files)
print(f"{sys.argv[1]:8} {seconds:5.2f} s, of which {folded:.2f} s reading and folding; peak {after / 1024:.0f} MiB "
      f"({(after - before) / 1024:+.0f} over the fold); {size / 1e6:.1f} MB in {len(files)} files")
"""


def main(pivots: int) -> None:
    """Write a session, then export it format by format."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["REFEED_TUI_HOME"] = home
        folder = session(pivots)
        load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
        print(
            f"{pivots:,} pivots, {folder.journal_path.stat().st_size / 1e6:.0f} MB of journal; load {load}", flush=True
        )
        for name in FORMATS:
            subprocess.run([sys.executable, "-c", ONE, name, f"{home}/out"], check=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
