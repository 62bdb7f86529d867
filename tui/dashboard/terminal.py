"""The terminal that the dashboard runs in: signals that end it, a lost terminal, the bell and the clipboard."""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessions.disk.files import write_atomic
from sessions.disk.folder import home
from sessions.events import CacheFailure, Ended
from sessions.text import one_line
from tui.viewer.session import process, process_name

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from sessions.events import AnyEvent
    from sessions.state.campaign import CampaignState

SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)
LAST_SECONDS: Final = 3.0
LOOK_EVERY_MS: Final = 1000


def handle_signals(loop: asyncio.AbstractEventLoop, leave: Callable[[int], None]) -> Callable[[], None]:
    """Call `leave(128 + n)` on SIGHUP and SIGTERM; a process that cannot leave within seconds is ended all the same.

    Args:
        loop: the running event loop.
        leave: ends the dashboard in good order.

    Returns:
        a function that puts the former handlers back.
    """
    former = {number: signal.getsignal(number) for number in SIGNALS}

    def caught(number: int) -> None:
        end_for_sure(128 + number)
        leave(128 + number)

    for number in SIGNALS:
        if former[number] is not signal.SIG_IGN:
            loop.add_signal_handler(number, caught, number)

    def restore() -> None:
        for number, handler in former.items():
            if handler is not signal.SIG_IGN:
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    return restore


def end_for_sure(code: int) -> None:
    """End the process in a few seconds, whatever else happens: a dead terminal can block every orderly way out."""
    timer = threading.Timer(LAST_SECONDS, os._exit, (code,))
    timer.daemon = True
    timer.start()


def watch_tty(gone: Callable[[], None], stop: threading.Event) -> threading.Thread | None:
    """Call `gone` from a thread when the terminal hangs up without a signal reaching this process.

    Returns:
        the thread; None when stdin is no terminal.
    """
    stdin = sys.__stdin__
    if stdin is None or not stdin.isatty():
        return None
    fd = stdin.fileno()

    def watch() -> None:
        poller = select.poll()
        poller.register(fd, select.POLLHUP)
        while not stop.is_set():
            events = poller.poll(0)
            if any(mask & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, mask in events):
                gone()
                return
            stop.wait(LOOK_EVERY_MS / 1000)

    thread = threading.Thread(target=watch, name="tty-watch", daemon=True)
    thread.start()
    return thread


LONGEST = 200


def crossed(state: CampaignState) -> bool:
    """Whether the e-process of the registered stop rule ever reached 1/alpha; without a rule, the primary one."""
    return process(state).crossing is not None


def alert(events: Sequence[AnyEvent], state: CampaignState, *, had_crossed: bool) -> str:
    """Return the most serious thing that a batch brought, in one plain line; empty when nothing is worth a bell.

    Args:
        events: just folded, newest last.
        state: after them.
        had_crossed: `crossed` before them.
    """
    for event in reversed(events):
        if isinstance(event, Ended):
            return one_line(f"refeed-tui: {event.state}: {event.reason}")[:LONGEST]
    for event in events:
        if isinstance(event, CacheFailure):
            return one_line(f"refeed-tui: cache check failed in problem {event.problem}: {event.reason}")[:LONGEST]
    if crossed(state) and not had_crossed:
        return f"refeed-tui: the {process_name(state.spec)} e-value crossed 1/alpha = {1 / state.spec.alpha:g}"
    return ""


def notification(text: str) -> str:
    """Bell and OSC 9 for a line that `alert` made; terminals without OSC 9 ignore it."""
    return f"\x07\x1b]9;{text}\x07"


def save(text: str) -> Path:
    """Store the copied text and return its path.

    Raises:
        RefeedError: the file can be written neither in the state folder nor among temporary files.
    """
    folder = home()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="refeed-tui-"))
    path = folder / "clipboard.txt"
    write_atomic(path, text.encode())
    return path
