"""The numerics fingerprint: a resumed campaign must continue on an engine that computes the same bits."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from engine.backends.load import known
from engine.backends.vllm.environment import MODE, MULTIPROCESS
from engine.variables import PREFIX, counts
from engine.worker.canary import VARIES
from sessions.errors import RefeedError
from sessions.events import EngineReady

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from engine.backend import EngineInfo
    from sessions.spec import CampaignSpec
    from sessions.state.campaign import CampaignState

# A commit of the hub; a folder's weights are named by a longer digest.
COMMIT: Final = re.compile("[0-9a-f]{40}")
JOINED: Final = "kernel_variables"  # how 0.1.0 recorded the variables of the embedded engine, in one text
LATER: Final = frozenset({"triton", "flashinfer", "flash_attn"})  # recorded since there is a canary
CANARY: Final = "canary"
LONGEST_VALUE: Final = 60


def fingerprint(numerics: Mapping[str, str]) -> str:
    """SHA-256 hex over everything that can change a logit."""
    return hashlib.sha256(msgspec.json.encode(dict(numerics), order="sorted")).hexdigest()


class EngineChangedError(RefeedError):
    """A resume is refused since its engine would compute other bits; the session is as it was."""


def _comparable(numerics: Mapping[str, str]) -> dict[str, str]:
    """Numerics by today's list of variables, whichever list they were recorded by."""
    found = {
        name: value for name, value in numerics.items() if not name.startswith(PREFIX) or counts(name[len(PREFIX) :])
    }
    joined = found.pop(JOINED, "")
    return found | {PREFIX + name: value for name, _, value in (pair.partition("=") for pair in joined.split())}


def changed_numerics(first: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Names whose value differs, appeared or vanished, of those that can change a logit."""
    one, other = _comparable(first), _comparable(now)
    return tuple(name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name))


def _without_later(names: tuple[str, ...], first: EngineReady) -> tuple[str, ...]:
    """Names but those that the journal's version did not record yet."""
    return names if first.canary else tuple(name for name in names if name not in LATER)


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


def check_known(spec: CampaignSpec, state: CampaignState, environment: Mapping[str, str]) -> None:
    """Refuse to resume where it is known before an engine loads that it would compute other bits.

    Args:
        spec: as registered.
        state: of the session.
        environment: that the engine will be loaded in.

    Raises:
        EngineChangedError: naming the variables and versions that differ.
    """
    first = _first(state)
    if first is None:
        return
    now = known(spec, environment)
    began = {
        name: value
        for name, value in first.numerics.items()
        if name in now or name == JOINED or name.startswith(PREFIX)
    }
    _refuse(_without_later(changed_numerics(began, now), first), first.numerics, now)


def engine_ready(info: EngineInfo, seconds: float, canary: str, state: CampaignState) -> EngineReady:
    """Return the event that says what the engine is, and what changed since the session's first engine.

    Args:
        info: of the engine, read back after its start.
        seconds: from start of loading to ready.
        canary: what it answered, as of `engine.worker.canary.sing`.
        state: of the session.
    """
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
        changed=() if first is None else _changed(first, numerics, canary),
        canary=canary,
    )


def _changed(first: EngineReady, numerics: Mapping[str, str], canary: str) -> tuple[str, ...]:
    names = _without_later(changed_numerics(first.numerics, numerics), first)
    steady = first.canary not in {"", VARIES}
    return (*names, CANARY) if steady and canary != first.canary else names


def check_engine(ready: EngineReady, state: CampaignState, *, allow_changed: bool) -> None:
    """Refuse to continue a campaign on other numerics unless that was asked for.

    Raises:
        EngineChangedError: naming what changed.
    """
    first = _first(state)
    if first is not None and not allow_changed:
        now = {**ready.numerics, CANARY: ready.canary}
        _refuse(ready.changed, {**first.numerics, CANARY: first.canary}, now)


def _refuse(changed: tuple[str, ...], first: Mapping[str, str], now: Mapping[str, str]) -> None:
    if not changed:
        return
    said = "; ".join(f"{name} was {_short(first.get(name))} and is {_short(now.get(name))}" for name in changed)
    variables = [name.removeprefix(PREFIX) for name in changed if name.startswith(PREFIX)]
    where = f"the same values of {', '.join(variables)} in the environment" if variables else ""
    same = " and ".join(
        filter(None, (where, "" if len(variables) == len(changed) else "the same versions and hardware"))
    )
    raise EngineChangedError(
        "engine",
        f"the engine's numerics changed since this session began: {said}",
        f"resume with {same}, or with --allow-changed-engine (every report will say so)",
    )


def _short(value: str | None) -> str:
    return "not there" if not value else value[:LONGEST_VALUE]
