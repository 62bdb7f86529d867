"""The process that downloads a model: it can be ended at once, and ends with the worker that started it.

The hub's client downloads in threads that nothing stops; a worker that did it itself could not be aborted meanwhile.
Run as `python -P -m engine.backends.vllm.fetcher MODEL [REVISION]`; its standard input stays open as long as it is
wanted, and its last line says what came of it, in JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from engine.backends.vllm.hub import FILES
from engine.backends.vllm.refusals import refusal

OPEN_FILES: Final = Path("/proc/self/fd")
# Unfinished files with a name of their own are continued by nobody; `<content>.incomplete` is, by older clients.
OWN_PARTIAL: Final = re.compile(r"\.[0-9a-f]{8}\.incomplete$")
UNWANTED: Final = 1


def _leave_nothing() -> None:
    """Remove the unfinished files that this process has open and nobody would continue."""
    for link in OPEN_FILES.iterdir():
        with suppress(OSError):
            path = link.readlink()
            if OWN_PARTIAL.search(path.name) is not None:
                path.unlink()


def _end_with_the_asker() -> None:
    sys.stdin.read()
    with suppress(OSError):
        _leave_nothing()
    os._exit(UNWANTED)  # the client's threads would go on


def _silent() -> Any:
    from tqdm.std import tqdm  # noqa: PLC0415 - comes with huggingface_hub

    class Silent(tqdm):  # type: ignore[misc]
        """A progress bar that counts and draws nothing."""

        def __init__(self, *rest: Any, **more: Any) -> None:
            more.pop("name", None)
            super().__init__(*rest, **more)

        def display(self, *_rest: Any, **_more: Any) -> bool:
            return True

    return Silent


def download(model: str, revision: str | None) -> dict[str, str]:
    """Download what the cache lacks of a model.

    Asks by the revision as it was given, which the cache then knows when the hub cannot be reached.

    Returns:
        "path", the folder of the files; or "message" and "hint" of the error that a person sees.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only here

    try:
        path = snapshot_download(model, revision=revision, allow_patterns=list(FILES), tqdm_class=_silent())
    except Exception as error:  # noqa: BLE001 - whatever it was, the worker must hear of it
        traceback.print_exc()  # the log has what the one line of the refusal leaves out
        refused = refusal(error, model, revision)
        return {"message": refused.message, "hint": refused.hint}
    return {"path": str(path)}


def main(arguments: list[str]) -> int:
    """Download, and say what came of it."""
    threading.Thread(target=_end_with_the_asker, daemon=True).start()
    model, *rest = arguments
    said = download(model, rest[0] if rest else None)
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
