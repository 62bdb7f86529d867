"""Stock vLLM behind the `engine.backend.Backend` protocol."""
