"""The registered stop rule: which e-process it follows, and whether the planned end was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sessions.remarks import looked, unfinished

if TYPE_CHECKING:
    from sessions.campaign import CampaignState
    from sessions.spec import CampaignSpec
    from stats.sequential import EProcess

ProcessName = Literal["symmetry", "betting"]


def process_name(spec: CampaignSpec) -> ProcessName:
    """The e-process that the campaign stops by; the symmetry process, the primary one, where it stops by none."""
    return "symmetry" if spec.stop == "none" else spec.stop


def process(state: CampaignState) -> EProcess:
    """That e-process, as far as the campaign came."""
    return state.live.monitor.followed(state.spec.stop)


def at_planned_end(state: CampaignState) -> bool:
    """Whether a plain t may be read: once, at an end that no look at the data chose.

    A sequential stop rule looks after every problem; how an import was stopped is not known.
    """
    return not (looked(state) or state.imported or unfinished(state))
