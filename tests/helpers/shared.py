"""Published data that lies beside the repository, never in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("REFEED_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def shared_path(*parts: str) -> Path:
    """Path under ../shared (or $REFEED_SHARED); skips the test, saying so, where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not on this machine; published data is never committed")
    return path
