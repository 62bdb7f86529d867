"""A compact paged-KV engine in torch: the transparent instrument, and what runs where vLLM cannot."""
