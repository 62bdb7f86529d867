"""Whether a session's worker lives, and where: on this machine, or on another one that shares the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sessions.errors import RefeedError
from tui.plaintext import one_line

if TYPE_CHECKING:
    from sessions.store import SessionFolder

LONGEST_HOST: Final = 40


class Worker(NamedTuple):
    """What is known of a session's worker.

    Attributes:
        live: whether it runs: its lock is held, or about to be, or it is of another host and wrote moments ago.
        host: of it where that is not this one; empty otherwise. Nothing can be asked of it from here.
    """

    live: bool = False
    host: str = ""

    @classmethod
    def of(cls, folder: SessionFolder) -> Worker:
        """Ask the lock, and run.json; one that cannot be understood names no host.

        Raises:
            RefeedError: as `SessionFolder.live` and `SessionFolder.summary`.
        """
        live = folder.starting() or folder.live()
        try:
            run = folder.run()
        except RefeedError:
            return cls(live)
        if run is None or not run.elsewhere():
            return cls(live)
        return cls(live or folder.elsewhere() != "", one_line(run.host, LONGEST_HOST))


def unseen(host: str) -> str:
    """What is known of a worker on another host that has not ended and is silent: loading and paused ones are, too."""
    return f"the worker is silent on host {host}, or died there; `refeed-tui list` there says which"
