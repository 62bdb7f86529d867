"""Why the hub gives no model: one line with the cause, and what to do about it."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.backends.vllm.errors import explain
from engine.network import network_errors, reason
from sessions.errors import RefeedError

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
TOO_MANY: Final = 429
SERVER_FAULT: Final = 500


class Refusal(NamedTuple):
    """One cause.

    Attributes:
        holds: whether it is this one.
        what: the cause, in words.
        advice: what to do.
    """

    holds: bool
    what: str
    advice: str


def _answers(error: Exception, model: str, revision: str | None) -> tuple[Refusal, ...]:
    """Causes that the hub or its client told; the first that holds decides."""
    from huggingface_hub import constants, errors, get_token  # noqa: PLC0415 - only for models of the hub

    hub, known = constants.ENDPOINT, get_token() is not None
    status = getattr(getattr(error, "response", None), "status_code", 0)
    asked = f"the hub answered {status} for {model} ({reason(error)})"
    reader = "this machine's token may read" if known else "this machine may read, which has no token"
    return (
        Refusal(
            isinstance(error, errors.HFValidationError),
            f"there is no folder {model}, and it is no name that a model of the hub can have",
            "give `model` an existing folder, or a name such as Qwen/Qwen2.5-7B-Instruct",
        ),
        Refusal(
            isinstance(error, errors.RevisionNotFoundError),
            f"{model} has no revision {revision!r} on {hub}",
            "give `revision` a branch, tag or commit of that repository",
        ),
        Refusal(
            isinstance(error, errors.GatedRepoError) and known,
            f"{model} is gated, and the account of this machine's token has no access to it",
            f"ask for access at {hub}/{model} with that account, or set HF_TOKEN to a token of one that has it",
        ),
        Refusal(
            isinstance(error, errors.GatedRepoError),
            f"{model} is gated, and this machine has no token",
            f"accept its licence at {hub}/{model}, then set HF_TOKEN or run `hf auth login` on this machine",
        ),
        Refusal(
            isinstance(error, errors.RepositoryNotFoundError),
            f"there is no folder {model}, and no model of that name on {hub} that {reader}",
            "check the spelling of `model`; a private model needs HF_TOKEN of an account that may read it",
        ),
        Refusal(
            status == UNAUTHORIZED,
            f"{hub} does not accept this machine's token",
            "set HF_TOKEN to a valid one (see settings/tokens there), or unset it and run `hf auth logout`",
        ),
        Refusal(
            status == FORBIDDEN,
            f"{hub} forbids this machine to read {model} ({reason(error)})",
            f"give its token read access to gated or private repositories at {hub}/settings/tokens",
        ),
        Refusal(status == TOO_MANY, asked, "wait some minutes; with HF_TOKEN set the limits are higher"),
        Refusal(status >= SERVER_FAULT, asked, "try again later, or give `model` a local folder"),
        Refusal(status > 0, asked, "check `model`, `revision` and HF_ENDPOINT"),
    )


def refusal(error: Exception, model: str, revision: str | None) -> RefeedError:
    """Return the error that a person sees when the hub, its client or the disk gave no model.

    Args:
        error: what huggingface_hub raised.
        model: as given.
        revision: as given.
    """
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415 - only for models of the hub

    behind = error.__cause__
    if isinstance(error, LocalEntryNotFoundError) and isinstance(behind, Exception):
        return refusal(behind, model, revision)
    for cause in _answers(error, model, revision):
        if cause.holds:
            return RefeedError("engine", cause.what, cause.advice)
    if _is_network(error):
        hint = "check the network, then start again: whole files are kept"
        return RefeedError("engine", f"the download of {model} broke off ({reason(error)})", hint)
    return explain(error, model, "downloading", log="", who="the hub's client")


def _is_network(error: Exception) -> bool:
    """Whether it is the network's fault; errors of the disk are of the same family, and have a number."""
    numbered = getattr(error, "errno", None) is not None
    return isinstance(error, network_errors()) and (not numbered or isinstance(error, ConnectionError | TimeoutError))


def unreachable(error: Exception, model: str) -> RefeedError:
    """Return the error for a hub that does not answer and a cache that has no whole copy."""
    from huggingface_hub import constants  # noqa: PLC0415

    lacks = f"the local cache ({constants.HF_HUB_CACHE}) has no whole copy of {model}"
    if constants.HF_HUB_OFFLINE:
        return RefeedError(
            "engine",
            f"HF_HUB_OFFLINE is set, and {lacks}",
            "unset it, set HF_HUB_CACHE to a cache that has the model, or give `model` a local folder",
        )
    return RefeedError(
        "engine",
        f"{constants.ENDPOINT} cannot be reached ({reason(error)}), and {lacks}",
        "check the network, HTTPS_PROXY and HF_ENDPOINT, or give `model` a local folder",
    )
