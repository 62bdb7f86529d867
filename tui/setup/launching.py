"""From what a person asked for to a session on disk and its worker: one way for all who launch or resume."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from sessions.disk.hooks import keep
from sessions.errors import RefeedError
from sessions.spec import register
from sessions.store import Store
from sessions.text import one_line
from tui.console import say
from tui.setup.options import DIGESTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.worker.supervisor import How
    from sessions.disk.hooks import OnEvent
    from sessions.spec import CampaignSpec, Registration
    from sessions.store import SessionFolder
    from tui.setup.options import Asked


def registered(asked: Asked, resolved: CampaignSpec) -> Registration:
    """Register a resolved spec.

    Raises:
        RefeedError: kind "spec" when the data or the model is not what the spec pins.
    """
    for pin in sorted(DIGESTS):
        pinned, found = getattr(asked.spec, pin), getattr(resolved, pin)
        if pinned is not None and found is not None and pinned != found:  # None: not here, or a hub's
            raise RefeedError("spec", f"spec field `{pin}` is {pinned!r}, but what is there hashes to {found!r}")
    return register(resolved, name=asked.name, price_per_hour=asked.price_per_hour)


SAY_EVERY: Final = 5.0


def teller(what: str, show: Callable[[str], None] = say) -> Callable[[str, float], None]:
    """Return what says, every few seconds, a stage of something that takes long, and how far it is.

    Args:
        what: is being done, in front of each line.
        show: takes the line.
    """
    said = time.monotonic() - SAY_EVERY + 1.0  # what is over within a second needs no line

    def hear(stage: str, fraction: float) -> None:
        nonlocal said
        if time.monotonic() - said >= SAY_EVERY:
            said = time.monotonic()
            show(f"{what}: {one_line(stage)}, {100 * fraction:.0f}%")

    return hear


def start(folder: SessionFolder, how: How | None = None, *, quiet: bool = False) -> None:
    """Start a session's worker and return once it is ready, saying meanwhile what takes long; an interrupt leaves it.

    Raises:
        RefeedError: as `engine.worker.supervisor.launch`.
        KeyboardInterrupt: after saying how to stop the worker.
    """
    from engine.worker.supervisor import How, launch  # noqa: PLC0415 - registering starts nothing

    try:
        launch(folder, How() if how is None else how, hear=None if quiet else teller(f"session {folder.id}"))
    except KeyboardInterrupt:
        sys.stderr.write(f"refeed-tui: interrupted while the worker of {folder.id} started; it may run on; ")
        sys.stderr.write(f"`refeed-tui abort {folder.id}` stops it\n")
        raise


def create(asked: Asked, on_event: OnEvent | None, hear: Callable[[str, float], None] | None = None) -> SessionFolder:
    """Resolve and register what was asked for, make its session and keep the command that hears its events.

    Args:
        asked: spec, name and price.
        on_event: the command; None for none.
        hear: told how far the model's files are read.

    Raises:
        RefeedError: as `engine.registration.resolve` and `registered`; kind "usage" for a name that is taken; kind
            "failed" when nothing can be stored.
    """
    from engine.registration import resolve  # noqa: PLC0415 - a dry run asks for less

    registration = registered(asked, resolve(asked.spec, hear))
    folder = Store().create_named(registration)
    if on_event is not None:
        try:
            keep(folder, on_event)
        except RefeedError:
            folder.give_up()
            raise
    return folder
