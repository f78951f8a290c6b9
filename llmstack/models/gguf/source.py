"""A GGUF file as a model to be rewritten."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

from llmstack.models.gguf.config import config_json
from llmstack.models.gguf.reader import open_gguf
from llmstack.models.gguf.tokenizer import ImportedTokenizer, import_tokenizer
from llmstack.models.gguf.weights import hugging_face_tensors
from llmstack.models.model_source import ModelSource, checked_source


def gguf_source(path: Path) -> tuple[ModelSource, ImportedTokenizer]:
    """The model and the tokenizer of a GGUF file.

    Args:
        path: the file.

    Raises:
        UserError: it cannot be read, holds something that is not implemented, or is not complete.
    """
    file = open_gguf(path)
    values = config_json(file)
    tokenizer = import_tokenizer(file)
    tensors = hugging_face_tensors(file, values)
    formats: Counter[str] = Counter()
    for tensor in tensors.values():
        formats[tensor.source.type_name] += math.prod(tensor.shape)
    source = checked_source(values | tokenizer.ids, tensors, formats, config_path=path, where=str(path))
    return replace(source, generation=dict(tokenizer.ids)), tokenizer
