"""Who stored which KV block, read where vLLM decides it: the block pool and the scheduler of this process.

vLLM's cached-token counts say how much a request hit, not whose blocks these were, nor whether decode or prefill wrote
them (known-faults 4 to 6). The ledger watches four calls and changes none of their results.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from engine.backend import BlockOrigin
from engine.backends.vllm.compat import hit_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Ledger:
    """Provenance of every cached block of one engine core.

    A token's KV was decoded when its index is at or past what was prefilled: the prompt, or after a preemption
    everything that the request had until then.

    Attributes:
        names: internal request id -> the id that the caller gave; the caller keeps it.
        preemptions: by internal request id.
        split_prompts: internal ids of requests whose uncached prompt took more than one step.
    """

    def __init__(self, core: Any, names: dict[str, str]) -> None:
        """Start watching `core`."""
        self.names = names
        self.preemptions: Counter[str] = Counter()
        self.split_prompts: set[str] = set()
        self._origins: dict[int, BlockOrigin] = {}
        self._hits: dict[str, tuple[BlockOrigin, ...] | None] = {}
        self._recomputed: dict[str, int] = {}
        scheduler = core.scheduler
        manager = scheduler.kv_cache_manager
        pool = manager.block_pool
        pool.cache_full_blocks = self._watch_stores(pool.cache_full_blocks)
        pool._maybe_evict_cached_block = self._watch_evictions(pool._maybe_evict_cached_block)  # noqa: SLF001 - the one place where vLLM drops a hash
        manager.get_computed_blocks = self._watch_lookups(manager.get_computed_blocks)
        scheduler._preempt_request = self._watch_preemptions(scheduler._preempt_request)  # noqa: SLF001 - no public hook says who is preempted
        scheduler.schedule = self._watch_schedule(scheduler.schedule)

    def take_hit(self, request: str) -> tuple[BlockOrigin, ...] | None:
        """Origins of the blocks that a request hit when it was admitted; None when one is not known."""
        return self._hits.pop(request, None)

    def origins(self, blocks: Iterable[Any]) -> tuple[BlockOrigin, ...] | None:
        """Origins of blocks; None when one is not known."""
        found = [self._origins.get(block.block_id) for block in blocks]
        known = tuple(origin for origin in found if origin is not None)
        return known if len(known) == len(found) else None

    def forget_blocks(self) -> None:
        """Forget all blocks, after a reset that succeeded."""
        self._origins.clear()

    def forget_requests(self) -> None:
        """Forget what is kept per request, once none of them is running."""
        self._hits.clear()
        self._recomputed.clear()
        self.preemptions.clear()
        self.split_prompts.clear()

    def _watch_stores(self, original: Callable[..., None]) -> Callable[..., None]:
        def cache_full_blocks(
            request: Any,
            blocks: Any,
            num_cached_blocks: int,
            num_full_blocks: int,
            block_size: int,
            *rest: Any,
            **more: Any,
        ) -> None:
            original(request, blocks, num_cached_blocks, num_full_blocks, block_size, *rest, **more)
            internal = request.request_id
            prefilled = max(request.num_prompt_tokens, self._recomputed.get(internal, 0))
            owner = self.names.get(internal, internal)
            for number in range(num_cached_blocks, num_full_blocks):
                start = number * block_size
                decoded = min(max(start + block_size - prefilled, 0), block_size)
                if blocks[number].block_hash is not None:
                    self._origins[blocks[number].block_id] = BlockOrigin(owner, start, decoded)

        return cache_full_blocks

    def _watch_evictions(self, original: Callable[..., bool]) -> Callable[..., bool]:
        def maybe_evict_cached_block(block: Any, *rest: Any, **more: Any) -> bool:
            evicted = original(block, *rest, **more)
            if evicted:
                self._origins.pop(block.block_id, None)
            return evicted

        return maybe_evict_cached_block

    def _watch_lookups(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_computed_blocks(request: Any, *rest: Any, **more: Any) -> Any:
            computed = original(request, *rest, **more)
            # A preempted request looks its own blocks up again: that is no longer what it was admitted with.
            if request.num_preemptions == 0:
                self._hits[request.request_id] = self.origins(hit_blocks(computed))
            return computed

        return get_computed_blocks

    def _watch_preemptions(self, original: Callable[..., None]) -> Callable[..., None]:
        def preempt_request(request: Any, *rest: Any, **more: Any) -> None:
            self.preemptions[request.request_id] += 1
            self._recomputed[request.request_id] = request.num_tokens
            original(request, *rest, **more)

        return preempt_request

    def _watch_schedule(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def schedule(*rest: Any, **more: Any) -> Any:
            output = original(*rest, **more)
            for new in output.scheduled_new_reqs:
                planned = new.num_computed_tokens + output.num_scheduled_tokens[new.req_id]
                if new.prompt_token_ids is not None and planned < len(new.prompt_token_ids):
                    self.split_prompts.add(new.req_id)
            return output

        return schedule
