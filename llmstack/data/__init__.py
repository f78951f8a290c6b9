"""Numpy batches for training: sources, tokenizer, chat templates, packing and the loader. Never imports MindSpore."""
