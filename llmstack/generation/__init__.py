"""Sampling from a language model: prefill and decoding loop with a KV cache in one compiled graph."""
