"""A compact paged-KV engine in torch: the transparent instrument, and what runs where vLLM cannot."""

import os

# Before torch loads libgomp: threads that spin while they wait make the engine ten times slower as soon as another
# program wants a core (benchmarks/results/embedded_threads.json).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
