"""One engine step's load: what ran, what waits, how many tokens came, who was preempted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from engine.backends.vllm.compat import wait_for_output

if TYPE_CHECKING:
    from engine.backends.vllm.ledger import Ledger


class Steps:
    """Reads the engine core's raw output as it passes, since finished requests alone would tell it too late.

    Attributes:
        tokens: generated since `begin`.
        preempted: preemptions by internal request id since `begin`, of a core in its own process.
    """

    def __init__(self, engine: Any, core: Any, ledger: Ledger | None) -> None:
        """Watch `engine`; `core` and `ledger` are None when the core runs in its own process."""
        self.tokens = 0
        self.preempted: Counter[str] = Counter()
        self._core = core
        self._ledger = ledger
        self._stats: Any = None
        client = engine.engine_core
        original = client.get_output

        def get_output() -> Any:
            if core is None:
                wait_for_output(client)
            outputs = original()
            self._read(outputs)
            return outputs

        client.get_output = get_output

    def begin(self) -> None:
        """Start counting a new batch."""
        self.tokens = 0
        self.preempted.clear()
        if self._ledger is not None:
            self._ledger.forget_requests()

    def load(self) -> tuple[int, int, float]:
        """Running requests, waiting requests, and the share of KV blocks in use."""
        if self._core is not None:
            scheduler = self._core.scheduler
            waiting = len(scheduler.waiting) + len(getattr(scheduler, "skipped_waiting", ()))
            return len(scheduler.running), waiting, float(scheduler.kv_cache_manager.usage)
        if self._stats is None:
            return 0, 0, 0.0
        return self._stats.num_running_reqs, self._stats.num_waiting_reqs, float(self._stats.kv_cache_usage)

    def preemptions(self, request: str) -> int:
        """How often a request was preempted in this batch, by internal id."""
        return self._counter()[request]

    def all_preemptions(self) -> int:
        """Preemptions in this batch."""
        return self._counter().total()

    def _counter(self) -> Counter[str]:
        return self.preempted if self._ledger is None else self._ledger.preemptions

    def _read(self, outputs: Any) -> None:
        self.tokens += sum(len(output.new_token_ids) for output in outputs.outputs)
        if self._core is None:
            self._read_remote(outputs)

    def _read_remote(self, outputs: Any) -> None:
        from vllm.v1.engine import EngineCoreEventType  # noqa: PLC0415 - vLLM only where it is used

        if outputs.scheduler_stats is not None:
            self._stats = outputs.scheduler_stats
        for output in outputs.outputs:
            for event in output.events or ():
                if event.type == EngineCoreEventType.PREEMPTED:
                    self.preempted[output.request_id] += 1
