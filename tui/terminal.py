"""The terminal that the dashboard runs in: signals that end it, and a terminal that goes away."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

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
