"""Settings that ship: a small demo, a smoke test, and the configurations of the published runs."""

from __future__ import annotations

from typing import Final, NamedTuple

from sessions.errors import RefeedError

# Bytes of the published harness's instruction; the question and a blank line come before it.
PUBLISHED_INSTRUCTION: Final = (
    "Reason step by step. End your response with one final line in exactly this format:\nAnswer: <number>"
)


class Preset(NamedTuple):
    """Named settings.

    Attributes:
        name: as typed after `refeed-tui launch`.
        description: one line.
        fields: of the spec, where they differ from its defaults.
    """

    name: str
    description: str
    fields: dict[str, object]


_PAPER: Final[dict[str, object]] = {
    "engine": "vllm",
    "model": "Qwen/Qwen2.5-7B-Instruct",
    "dtype": "bfloat16",
    "task": "gsm8k",
    "prompt": PUBLISHED_INSTRUCTION,
    "start": 0,
    "problems": 20,
    "rollouts": 8,
    "temperature": 0.7,
    "top_p": 0.95,
    "k": 4,
    "margin": 1.0,
    "boundary_slack": 2,
    "max_pivots": 5,
    "max_trunk_tokens": 512,
    "max_cont_tokens": 400,
    "probe_tokens": 32,
    "top_logprobs": 5,
    "max_model_len": 4096,
    "gpu_memory_utilization": 0.92,
    "block_size": 16,
    "wave": 1,
    "group": 1,
    "seed": 0,
}
_SCREENED: Final[dict[str, object]] = {"screen": "mixed", "scan_limit": 200}
_LATER: Final[dict[str, object]] = {**_SCREENED, "start": 20}


def _paper(name: str, description: str, **fields: object) -> Preset:
    return Preset(f"paper-{name}", f"{description} (needs vLLM and a GPU)", {**_PAPER, **fields})


_ALL: Final = (
    Preset(
        "demo",
        "a whole campaign on the bundled model, minutes on a laptop",
        {
            "engine": "embedded",
            "model": "bundled",
            "task": "arithmetic",
            "problems": 8,
            "rollouts": 6,
            "k": 4,
            "max_pivots": 3,
            "max_trunk_tokens": 200,
            "max_cont_tokens": 160,
            "probe_tokens": 32,
        },
    ),
    Preset(
        "smoke",
        "the smallest campaign that passes every stage, in seconds",
        {
            "engine": "embedded",
            "model": "bundled",
            "task": "arithmetic",
            "problems": 2,
            "rollouts": 2,
            "k": 2,
            "max_pivots": 2,
            "max_trunk_tokens": 120,
            "max_cont_tokens": 64,
            "probe_tokens": 8,
        },
    ),
    _paper("main", "primary run: GSM8K problems 0-19, K = 4"),
    _paper("screened", "20 problems of mixed difficulty from 20 on, K = 4", **_LATER),
    _paper("k8", "the screened problems with K = 8", **_LATER, k=8),
    _paper("k16", "10 problems of mixed difficulty from 20 on, K = 16", **_LATER, k=16, problems=10),
    _paper("greedy", "one greedy continuation an arm, screened from 0", **_SCREENED, k=1, cont_temperature=0.0),
    _paper("grpo", "a GRPO-trained model, screened from 0", **_SCREENED, model="hkust-nlp/Qwen-2.5-7B-SimpleRL-Zoo"),
    _paper("phi4", "Phi-4-mini, screened from 0", **_SCREENED, model="microsoft/Phi-4-mini-instruct"),
    _paper("batch-invariant", "problems 0-9 with batch-invariant kernels", batch_invariant=True, problems=10),
)
PRESETS: Final[dict[str, Preset]] = {preset.name: preset for preset in _ALL}


def fields(name: str) -> dict[str, object]:
    """Fields of a preset, in a dictionary of the caller's own.

    Raises:
        RefeedError: kind "usage" when there is no such preset.
    """
    if name not in PRESETS:
        raise RefeedError("usage", f"no preset {name!r}", f"there are {', '.join(PRESETS)}")
    return dict(PRESETS[name].fields)
