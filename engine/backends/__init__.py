"""Inference engines behind the `engine.backend.Backend` protocol; the only home of torch and vllm."""
