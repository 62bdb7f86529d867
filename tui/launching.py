"""From what a person asked for to a session on disk: one way for `launch` and for the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.errors import RefeedError
from sessions.onevent import keep
from sessions.spec import register
from sessions.store import Store
from tui.spec_options import DIGESTS

if TYPE_CHECKING:
    from sessions.onevent import OnEvent
    from sessions.spec import CampaignSpec, Registration
    from sessions.store import SessionFolder
    from tui.spec_options import Asked


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


def create(asked: Asked, on_event: OnEvent | None) -> SessionFolder:
    """Resolve and register what was asked for, make its session and keep the command that hears its events.

    Raises:
        RefeedError: as `engine.registration.resolve` and `registered`; kind "usage" for a name that is taken; kind
            "failed" when nothing can be stored.
    """
    from engine.registration import resolve  # noqa: PLC0415 - a dry run asks for less

    registration = registered(asked, resolve(asked.spec))
    folder = Store().create_named(registration)
    if on_event is not None:
        keep(folder, on_event)
    return folder
