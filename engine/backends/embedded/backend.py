"""The embedded engine: schedule, run, sample, postprocess, report, until nothing is left."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch

from engine.backend import BlockOrigin, Completion, EngineInfo, FirstToken, StepStats
from engine.backends.chat import Chat
from engine.backends.embedded.batch import Piece, build
from engine.backends.embedded.checkpoint import load_weights
from engine.backends.embedded.config import read_config
from engine.backends.embedded.ledger import Ledger, chain, hit_limit
from engine.backends.embedded.model import Model
from engine.backends.embedded.numerics import describe, dtype_of, machine, shapes_of
from engine.backends.embedded.pages import Pages
from engine.backends.embedded.sampler import SCHEME, Draws, raw_logprobs, sample
from engine.backends.embedded.scheduler import Running, Scheduler, Work
from engine.backends.embedded.selfcheck import check_invariance, require_invariance
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from engine.backend import Request, Watcher
    from engine.backends.embedded.config import ModelConfig

BUNDLED: Final = Path(__file__).parent / "bundled"
DEFAULT_MODEL_LEN: Final = 4096
DEFAULT_BATCHED_TOKENS: Final = 2048
DEFAULT_KV_BYTES: Final = 2**30
SEED_LIMIT: Final = 2**63


@dataclass(frozen=True, slots=True)
class Limits:
    """Capacity of an engine: KV block size and count, longest sequence, most requests and tokens of a step."""

    block_size: int
    num_blocks: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int


def load(
    model: Path,
    *,
    dtype: str = "bfloat16",
    numerics: Literal["split", "natural", "invariant"] = "split",
    block_size: int = 16,
    num_blocks: int | None = None,
    max_model_len: int | None = None,
    max_num_seqs: int = 128,
    max_num_batched_tokens: int | None = None,
    threads: int | None = None,
    template_date: str | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> EmbeddedBackend:
    """Load a Qwen2 or Llama checkpoint in Hugging Face format.

    Memory: the weights in `dtype`, the head once more in fp32, the configured KV, and a workspace of some 32 MiB plus
    the activations of one step.

    Args:
        model: the checkpoint's folder.
        dtype: bfloat16, float16 or float32, of weights, activations and KV.
        numerics: see `numerics`.
        block_size: tokens of a KV block.
        num_blocks: KV blocks; by default twice what a full batch of longest sequences holds (half to run, half to
            keep), at most 1 GiB of KV, at least one longest sequence.
        max_model_len: longest prompt plus generation; by default the checkpoint's own, at most 4096.
        max_num_seqs: most requests of a step.
        max_num_batched_tokens: most tokens of a step; by default 2048, or max_num_seqs where that is more.
        threads: torch threads of this process; by default as they are.
        template_date: as of `engine.backends.chat.Chat`.
        progress: told of ("loading weights" or "self-check", share done).

    Raises:
        RefeedError: kind "engine", naming file and value, for a checkpoint or a setting that cannot run.
    """
    tell = progress if progress is not None else _silent
    shapes, torch_dtype = shapes_of(numerics), dtype_of(dtype)
    if not model.is_dir():
        raise RefeedError("engine", f"{model} is not a folder", "name a checkpoint folder in Hugging Face format")
    config = read_config(model)
    tokenizer = Chat(model, config.vocab_size, template_date)
    limits = _limits(
        config,
        torch_dtype,
        block_size=block_size,
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    if threads is not None:
        _positive(threads=threads)
        torch.set_num_threads(threads)
    with torch.inference_mode():
        weights = load_weights(model, config, torch_dtype, tell)
        decoder = Model(config, weights, shapes, limits.max_model_len)
        facts = describe(shapes, dtype)
        if shapes.mode == "invariant":
            checked = check_invariance(decoder, block_size, limits.max_model_len, tell)
            require_invariance(checked)
            facts["self_check"] = f"passed: {checked.logit_rows} logit rows, {checked.kv_elements} KV elements equal"
        pages = Pages(config, limits.num_blocks, block_size, torch_dtype)
    info = _info(model, config, tokenizer, limits, facts)
    return EmbeddedBackend(info, decoder, pages, tokenizer, limits)


class EmbeddedBackend:
    """A `Backend` in this process, on the CPU. Not safe for several threads."""

    def __init__(self, info: EngineInfo, model: Model, pages: Pages, tokenizer: Chat, limits: Limits) -> None:
        """Put the parts together; `load` makes them."""
        self._info = info
        self._model: Model | None = model
        self._pages: Pages | None = pages
        self._tokenizer = tokenizer
        self._limits = limits
        self._ledger = Ledger(limits.num_blocks)
        width = model.shapes.table_width(limits.max_model_len, limits.block_size)
        self._scheduler = Scheduler(
            self._ledger, limits.block_size, limits.max_num_seqs, limits.max_num_batched_tokens, width
        )
        self._used_ids: set[str] = set()
        self._generated = 0

    @property
    def info(self) -> EngineInfo:
        """What the engine turned out to be."""
        return self._info

    def encode_chat(self, system: str | None, user: str) -> tuple[int, ...]:
        """Token ids of a one-turn chat, ready for the assistant's first token."""
        return self._tokenizer.encode_chat(system, user)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens."""
        return self._tokenizer.decode(tokens)

    def run(self, requests: Sequence[Request], watcher: Watcher) -> tuple[Completion, ...]:
        """Serve requests, admitted in the order given; see `Backend.run`.

        Raises:
            RefeedError: kind "engine" when a request cannot be served (before any work), or a step failed (the engine
                is closed then: blocks of a failed step would be found by later requests).
        """
        self._check_requests(requests)
        seqs = self._scheduler.submit(requests)
        self._used_ids.update(request.id for request in requests)
        self._generated = 0
        try:
            proceed = True
            while proceed and self._scheduler.unfinished:
                with self._closed_on_failure():
                    work = self._scheduler.schedule()
                    logits = self._forward(work)
                    firsts = self._postprocess(work, logits)
                proceed = self._report(firsts, watcher)
        finally:
            self._scheduler.abort_all()
        return tuple(_completion(seq) for seq in seqs)

    def resident_origins(self, prompt: Sequence[int], salt: str) -> tuple[BlockOrigin, ...]:
        """Blocks that a request with this prompt would hit now; touches nothing."""
        size = self._limits.block_size
        hits = self._ledger.match(chain(prompt, salt, size), hit_limit(len(prompt), size))
        return self._ledger.origins(hits)

    def reset_prefix_cache(self) -> bool:
        """Forget every cached block; False, with nothing forgotten, while blocks are in use."""
        return self._ledger.reset()

    def check_integrity(self) -> None:
        """Check that the ledger balances with the running requests.

        Raises:
            RefeedError: kind "engine", with the counts, when it does not.
        """
        self._ledger.check_integrity([seq.blocks for seq in self._scheduler.running])

    def close(self) -> None:
        """Free weights and pages; safe to call twice."""
        self._model = None
        self._pages = None

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """Close the engine when a step fails: the ledger may list blocks whose KV was never written."""
        try:
            yield
        except RuntimeError as error:
            self.close()
            raise RefeedError("engine", f"torch failed in a step: {error}", "the engine is closed") from error
        except BaseException:
            self.close()
            raise

    def _forward(self, work: list[Work]) -> torch.Tensor:
        """Run a step; returns the logits of each item's last token, in the order of `_ordered(work)`."""
        model, pages = self._parts()
        pieces = [
            Piece(seq.row, start, count, decode, seq.tokens[start : start + count])
            for seq, start, count, decode in _ordered(work)
        ]
        with torch.inference_mode():
            return model.forward(build(pieces, self._scheduler.tables, pages, model.shapes), pages)

    def _postprocess(self, work: list[Work], logits: torch.Tensor) -> list[Running]:
        """Sample where all tokens are computed; returns the requests whose first token this was."""
        ready = []
        rows = []
        for row, (seq, start, count, _) in enumerate(_ordered(work)):
            seq.computed = start + count
            if seq.computed == len(seq.tokens):
                ready.append(seq)
                rows.append(row)
        if not ready:
            return []
        if len(rows) < len(logits):
            logits = logits[torch.tensor(rows)]
        if not bool(torch.isfinite(logits).all()):
            bad = int(torch.argmin(torch.isfinite(logits).all(-1).int()))
            raise RefeedError("engine", f"logits of request {ready[bad].request.id} are not finite", "try float32")
        tokens = sample(logits, _draws(ready))
        self._append_logprobs(ready, logits, tokens)
        return self._append_tokens(ready, tokens.tolist())

    def _append_logprobs(self, ready: list[Running], logits: torch.Tensor, tokens: NDArray[np.int64]) -> None:
        rows = [row for row, seq in enumerate(ready) if seq.request.logprobs > 0]
        if not rows:
            return
        counts = np.array([ready[row].request.logprobs for row in rows])
        some = logits if len(rows) == len(ready) else logits[torch.tensor(rows)]
        for row, record in zip(rows, raw_logprobs(some, tokens[rows], counts), strict=True):
            ready[row].logprobs.append(record)

    def _append_tokens(self, ready: list[Running], tokens: list[int]) -> list[Running]:
        stops, longest = self._info.stop_ids, self._limits.max_model_len
        firsts = []
        self._generated += len(tokens)
        for seq, token in zip(ready, tokens, strict=True):
            seq.tokens.append(token)
            if not seq.reported:
                seq.reported = True
                firsts.append(seq)
            if token in stops:
                self._scheduler.finish(seq, "stop")
            elif seq.generated == seq.request.max_tokens or len(seq.tokens) == longest:
                self._scheduler.finish(seq, "length")
        self._scheduler.drop_finished()
        return sorted(firsts, key=lambda seq: seq.index)

    def _report(self, firsts: list[Running], watcher: Watcher) -> bool:
        """Tell the watcher; every first token of the step is told even after a False, so that no evidence is lost."""
        answers = [watcher.first_token(FirstToken(seq.request.id, seq.cached_tokens, seq.origins)) for seq in firsts]
        if not all(answers):
            self._scheduler.abort_all()
        return watcher.step(self._stats()) and all(answers)

    def _stats(self) -> StepStats:
        return StepStats(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting),
            finished=self._scheduler.finished,
            tokens=self._generated,
            kv_use=self._ledger.used / self._limits.num_blocks,
            preemptions=self._scheduler.preemptions,
        )

    def _parts(self) -> tuple[Model, Pages]:
        if self._model is None or self._pages is None:
            raise RefeedError("engine", "the embedded engine is closed", "load the model again")
        return self._model, self._pages

    def _check_requests(self, requests: Sequence[Request]) -> None:
        self._parts()
        if self._scheduler.unfinished:
            raise RefeedError("engine", "the embedded engine is already serving a call", "wait until it returns")
        seen: set[str] = set()
        for request in requests:
            problem = self._problem(request)
            if request.id in seen or request.id in self._used_ids:
                problem = "its id was used before"
            if problem is not None:
                raise RefeedError("engine", f"request {request.id}: {problem}")
            seen.add(request.id)

    def _problem(self, request: Request) -> str | None:
        limits, vocab = self._limits, self._info.vocab_size
        longest = min(len(request.prompt) + request.max_tokens, limits.max_model_len)
        blocks = -(-(longest - 1) // limits.block_size)
        seeded = request.seed is not None and 0 <= request.seed < SEED_LIMIT
        checks = (
            (len(request.prompt) >= 1, "its prompt is empty"),
            (
                all(0 <= edge < vocab for edge in _edges(request.prompt)),
                f"its prompt has token ids outside 0..{vocab - 1}",
            ),
            (
                len(request.prompt) < limits.max_model_len,
                f"its prompt of {len(request.prompt)} tokens leaves no room in max_model_len = {limits.max_model_len}",
            ),
            (blocks <= limits.num_blocks, f"it may need {blocks} KV blocks, and there are {limits.num_blocks}"),
            (request.salt != "", "its salt is empty"),
            (request.max_tokens >= 1, f"max_tokens is {request.max_tokens}"),
            (0 <= request.temperature < math.inf, f"temperature is {request.temperature}"),
            (0 < request.top_p <= 1, f"top_p is {request.top_p}"),
            (request.temperature == 0 or seeded, f"seed is {request.seed} at temperature {request.temperature}"),
            (0 <= request.logprobs <= vocab, f"logprobs is {request.logprobs}"),
        )
        return next((problem for fine, problem in checks if not fine), None)


def _ordered(work: list[Work]) -> list[Work]:
    """Decode first, as a batch wants it; the order within each kind stays."""
    return sorted(work, key=_not_decode)


def _not_decode(item: Work) -> bool:
    return not item.decode


def _edges(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """Smallest and largest token id, or nothing."""
    return (min(prompt), max(prompt)) if prompt else ()


def _draws(ready: list[Running]) -> Draws:
    requests = [seq.request for seq in ready]
    return Draws(
        seeds=np.array([0 if request.seed is None else request.seed for request in requests], dtype=np.uint64),
        indices=np.array([seq.generated for seq in ready], dtype=np.uint64),
        temperatures=np.array([request.temperature for request in requests], dtype=np.float32),
        top_ps=np.array([request.top_p for request in requests], dtype=np.float64),
    )


def _completion(seq: Running) -> Completion:
    return Completion(
        id=seq.request.id,
        tokens=tuple(seq.tokens[len(seq.request.prompt) :]),
        finish=seq.finish if seq.finish is not None else "aborted",
        cached_tokens=seq.cached_tokens if seq.reported else None,
        origins=seq.origins if seq.reported else None,
        preemptions=seq.preemptions,
        logprobs=tuple(seq.logprobs),
    )


def _silent(_what: str, _share: float) -> None:
    """Tell nobody."""


def _positive(**settings: int) -> None:
    for name, value in settings.items():
        if value < 1:
            raise RefeedError("engine", f"{name} is {value}", "it must be at least 1")


def _limits(
    config: ModelConfig,
    dtype: torch.dtype,
    *,
    block_size: int,
    num_blocks: int | None,
    max_model_len: int | None,
    max_num_seqs: int,
    max_num_batched_tokens: int | None,
) -> Limits:
    _positive(block_size=block_size, max_num_seqs=max_num_seqs)
    longest = min(config.max_positions, DEFAULT_MODEL_LEN) if max_model_len is None else max_model_len
    tokens = max(DEFAULT_BATCHED_TOKENS, max_num_seqs) if max_num_batched_tokens is None else max_num_batched_tokens
    if not 2 <= longest <= config.max_positions:  # noqa: PLR2004 - one prompt token and one generated
        hint = f"choose 2 to {config.max_positions}, the checkpoint's max_position_embeddings"
        raise RefeedError("engine", f"max_model_len is {longest}", hint)
    if tokens < max_num_seqs:
        hint = f"each of max_num_seqs = {max_num_seqs} requests needs one token of a step"
        raise RefeedError("engine", f"max_num_batched_tokens is {tokens}", hint)
    if num_blocks is None:
        per_sequence = -(-longest // block_size)
        affordable = DEFAULT_KV_BYTES // Pages.block_bytes(config, block_size, dtype)
        num_blocks = max(per_sequence, min(2 * max_num_seqs * per_sequence, affordable))
    _positive(num_blocks=num_blocks)
    return Limits(block_size, num_blocks, longest, max_num_seqs, tokens)


def _info(folder: Path, config: ModelConfig, tokenizer: Chat, limits: Limits, facts: dict[str, str]) -> EngineInfo:
    numbers = {
        "block_size": limits.block_size,
        "num_blocks": limits.num_blocks,
        "max_model_len": limits.max_model_len,
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
    }
    return EngineInfo(
        engine="embedded",
        model=str(folder),
        block_size=limits.block_size,
        num_blocks=limits.num_blocks,
        max_model_len=limits.max_model_len,
        max_num_seqs=limits.max_num_seqs,
        vocab_size=config.vocab_size,
        proof="ledger",
        special_ids=tokenizer.special_ids,
        stop_ids=tokenizer.stop_ids,
        numerics={**facts, **{name: str(value) for name, value in numbers.items()}, "sampler": SCHEME},
        machine=machine(),
    )
