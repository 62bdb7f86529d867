"""What goes wrong between this machine and the hub, whichever version of its client speaks."""

from __future__ import annotations

import re
import sys
from typing import Final

LONGEST_REASON: Final = 160
NETWORK: Final = re.compile(r"\[Errno -?\d+\] [\w ,]+|timed out|CERTIFICATE_VERIFY_FAILED")


def network_errors() -> tuple[type[Exception], ...]:
    """What huggingface_hub raises when the hub does not answer, or answers with an error.

    Up to 0.36 it speaks through requests, whose errors are OSErrors, as are its own; from 1.0 on through httpx and from
    2.0 on through httpx2, whose errors are families of their own.
    """
    modules = (sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules)
    return (OSError, *(module.HTTPError for module in modules))


def reason(error: BaseException) -> str:
    """What an error says behind its name, short enough for a message."""
    network = NETWORK.search(str(error))  # requests wraps it in the words of three libraries
    lines = str(error).strip().splitlines() if network is None else [network[0]]
    said = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    return said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]}..."
