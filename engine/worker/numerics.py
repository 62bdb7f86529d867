"""The numerics fingerprint: a resumed campaign must continue on an engine that computes the same bits."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from engine.backends.vllm.environment import MODE, MULTIPROCESS
from sessions.errors import RefeedError
from sessions.events import EngineReady

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from engine.backend import EngineInfo
    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState

# A commit of the hub; a folder's weights are named by a longer digest.
COMMIT: Final = re.compile("[0-9a-f]{40}")


def fingerprint(numerics: Mapping[str, str]) -> str:
    """SHA-256 hex over everything that can change a logit."""
    return hashlib.sha256(msgspec.json.encode(dict(numerics), order="sorted")).hexdigest()


def changed_numerics(first: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Names whose value differs, appeared or vanished."""
    return tuple(name for name in sorted(first.keys() | now.keys()) if first.get(name) != now.get(name))


def _first(state: CampaignState) -> EngineReady | None:
    """The session's first engine; None before there was one."""
    return next((run.engine for run in state.runs if run.engine is not None), None)


def pinned(spec: CampaignSpec, state: CampaignState) -> CampaignSpec:
    """The spec with a hub model's revision replaced by the commit that the session began on.

    A branch may have moved since; a resumed campaign would download its new commit, and then be refused.
    """
    first = _first(state)
    commit = "" if first is None else first.numerics.get("weights", "")
    if spec.engine != "vllm" or spec.model_digest is not None or COMMIT.fullmatch(commit) is None:
        return spec
    return msgspec.structs.replace(spec, revision=commit)


def keep_process_mode(state: CampaignState, environment: MutableMapping[str, str]) -> None:
    """Let a resumed session's vLLM run where it ran at first, this process or its own, unless the caller says where.

    A shell that lacks the variable would load the weights only to be refused.
    """
    first = _first(state)
    if first is not None and f"env:{MODE}" in first.numerics:
        environment.setdefault(MULTIPROCESS, first.numerics[f"env:{MODE}"])


def engine_ready(info: EngineInfo, seconds: float, state: CampaignState) -> EngineReady:
    """Return the event that says what the engine is, and what changed since the session's first engine."""
    numerics = {name: str(value) for name, value in info.numerics.items()}  # torch.__version__ is a subclass of str
    first = _first(state)
    return EngineReady(
        engine=info.engine,
        model=info.model,
        block_size=info.block_size,
        num_blocks=info.num_blocks,
        max_model_len=info.max_model_len,
        max_num_seqs=info.max_num_seqs,
        proof=info.proof,
        seconds=seconds,
        numerics=numerics,
        fingerprint=fingerprint(numerics),
        machine=dict(info.machine),
        changed=() if first is None else changed_numerics(first.numerics, numerics),
    )


def check_engine(ready: EngineReady, *, allow_changed: bool) -> None:
    """Refuse to continue a campaign on other numerics unless that was asked for.

    Raises:
        RefeedError: kind "engine", naming what changed.
    """
    if ready.changed and not allow_changed:
        raise RefeedError(
            "engine",
            f"the engine's numerics changed since this session began: {', '.join(ready.changed)}",
            "resume on the same versions and hardware, or with --allow-changed-engine (every report will say so)",
        )
