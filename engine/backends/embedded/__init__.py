"""A compact paged-KV engine in torch: the transparent instrument, and what runs where vLLM cannot."""

import os

# Before torch loads libgomp: threads that spin while they wait make the engine some hundred times slower as soon as
# another program wants a core, and cost little to put to sleep where none does (benchmarks/results/embedded_wait.json).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
