"""How well a language model predicts texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llmstack.data.field_map import FieldMap
from llmstack.data.files import is_jsonl, resolve_files
from llmstack.data.jsonl import json_rows
from llmstack.data.records import ResponseRecord, TextRecord
from llmstack.data.sources import blocks, whole_text
from llmstack.errors import DataError, UserError
from llmstack.evaluation.choice import continuation
from llmstack.evaluation.likelihood import LikelihoodScorer, Target
from llmstack.evaluation.loading import Loaded
from llmstack.evaluation.questions import ON_THE_COMMAND_LINE
from llmstack.evaluation.report import Report
from llmstack.models.causal_lm import CausalLM


@dataclass(frozen=True)
class PerplexityOptions:
    """What counts as a document's tokens, and what they are predicted from.

    Attributes:
        window: most tokens the model sees at once; None: its context.
        stride: tokens by which the window moves over a longer document; None: half of it.
        count_end: the end-of-text token after a document counts too, as it does in training.
    """

    window: int | None = None
    stride: int | None = None
    count_end: bool = False


def read_texts(pattern: str, fields: Mapping[str, str], *, by_blank_line: bool) -> list[TextRecord]:
    """Documents from text files, one a file or one a block between blank lines, or from .jsonl files with ``text``.

    Args:
        pattern: a file or a glob.
        fields: our name of a field -> the .jsonl file's.
        by_blank_line: whether a blank line ends a document of a text file.

    Raises:
        DataError: a file that does not exist, is not UTF-8 or holds no text, or a row that is not as above.
    """
    if is_jsonl(pattern):
        rows = json_rows(pattern, FieldMap(fields, mapping=ON_THE_COMMAND_LINE))
        found = [TextRecord(row.text("text"), where=row.where) for row in rows]
    else:
        found = [
            TextRecord(text, where=f"{path}:{line}")
            for path in resolve_files(pattern)
            for line, text in (blocks(path) if by_blank_line else whole_text(path))
        ]
    found = [record for record in found if record.text.strip()]
    if not found:
        raise DataError(f"{pattern}: expected text, got only empty documents. Name another file.")
    return found


def windows(num_tokens: int, window: int, stride: int) -> list[tuple[int, int, int]]:
    """How a document is cut so that every token but the first is scored once, with as much before it as fits.

    The first window scores all it holds but its first token; each later one begins ``stride`` tokens further on and
    scores only what no window has scored: every token of theirs has at least ``window - stride`` tokens before it.

    Args:
        num_tokens: tokens of the document, at least 2.
        window: tokens the model sees at once, at least 2.
        stride: from 1 to ``window - 1``.

    Returns:
        ``(begin, first scored, end)`` of each window, ``end`` exclusive.
    """
    cut = [(0, 1, min(window, num_tokens))]
    while cut[-1][2] < num_tokens:
        begin, _, end = cut[-1]
        cut.append((begin + stride, end, min(begin + stride + window, num_tokens)))
    return cut


def perplexity(loaded: Loaded[CausalLM], texts: Sequence[TextRecord], options: PerplexityOptions) -> Report:
    """exp of the mean negative log-likelihood of a token, all documents' tokens alike (Jelinek et al. 1977).

    Each document is on its own. Its first token is predicted when the tokenizer puts one in front of it (a BOS), else
    it is only read.

    Args:
        loaded: the language model.
        texts: the documents.
        options: windows and what counts.

    Returns:
        ``documents, tokens`` (scored ones), ``nll`` (mean, nats a token) and ``perplexity``; a row a document.

    Raises:
        UserError: a window the model has no room for, a stride that leaves gaps, or no token to score.
    """
    window, stride = _sizes(options, loaded.context)
    tokenizer = loaded.tokenizer
    end = [tokenizer.eos_id] if options.count_end else []
    documents = [[*tokenizer.prefix_ids, *ids, *end] for ids in tokenizer.encode_batch([t.text for t in texts])]
    targets, owners = [], []
    for index, ids in enumerate(documents):
        for begin, first, stop in windows(len(ids), window, stride) if len(ids) > 1 else ():
            targets.append(Target(ids[begin:stop], first - begin))
            owners.append(index)
    if not targets:
        raise UserError("data: expected a document of at least two tokens, got none. Name another file.")
    nll, count = np.zeros(len(texts)), np.zeros(len(texts), np.int64)
    for owner, likelihood in zip(owners, LikelihoodScorer(loaded.model).score(targets), strict=True):
        nll[owner] -= likelihood.logp.astype(np.float64).sum()
        count[owner] += len(likelihood.logp)
    mean = float(nll.sum() / count.sum())
    numbers = {"documents": len(texts), "tokens": int(count.sum()), "nll": mean, "perplexity": _exp(mean)}
    rows = [
        {"where": text.where, "tokens": int(n), "nll": float(total / n) if n else None}
        for text, n, total in zip(texts, count, nll, strict=True)
    ]
    return Report("perplexity", numbers, rows)


def answer_rows(loaded: Loaded[CausalLM], samples: Sequence[ResponseRecord]) -> list[dict[str, Any]]:
    """How well answers alone are predicted, each given its prompt; :func:`mean_of_rows` makes a perplexity of them.

    Prompt and answer are turns of the chat template, and the token that ends the answer counts; without a template the
    answer follows the prompt on a line of its own. Where both are longer than the context, the beginning of the prompt
    goes. An answer that then leaves no room for a token of it is left out, and so is one with a control token in it or
    in its prompt.

    Args:
        loaded: the language model.
        samples: prompts and answers.

    Returns:
        A row a sample: ``where, tokens`` (0: left out) and ``nll``, the mean over them in nats.
    """
    targets = _answer_targets(loaded, samples)
    kept = [target for target in targets if target is not None]
    likelihoods = iter(LikelihoodScorer(loaded.model).score(kept) if kept else ())
    rows: list[dict[str, Any]] = []
    for sample, target in zip(samples, targets, strict=True):
        logp = np.zeros(0) if target is None else next(likelihoods).logp.astype(np.float64)
        rows.append({"where": sample.where, "tokens": len(logp), "nll": -float(logp.mean()) if len(logp) else None})
    return rows


def mean_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Perplexity over some rows of a report, each token alike.

    Args:
        rows: with ``tokens`` and ``nll``, the mean over them (None without tokens).

    Returns:
        ``tokens, nll, perplexity``; the last two None without a token.
    """
    tokens = sum(row["tokens"] for row in rows)
    total = sum(row["nll"] * row["tokens"] for row in rows if row["tokens"])
    if not tokens:
        return {"tokens": 0, "nll": None, "perplexity": None}
    return {"tokens": tokens, "nll": total / tokens, "perplexity": _exp(total / tokens)}


def _answer_targets(loaded: Loaded[CausalLM], samples: Sequence[ResponseRecord]) -> list[Target | None]:
    tokenizer = loaded.tokenizer
    control = tokenizer.control_tokens
    usable = [s for s in samples if not any(token in text for token in control for text in (s.prompt, s.response))]
    if tokenizer.has_template:
        encoded = tokenizer.encode_chats([s.messages for s in usable], wheres=[s.where for s in usable])
        whole = [Target(ids[: len(mask) - mask[::-1].index(1)], mask.index(1)) for ids, mask in encoded if 1 in mask]
        usable = [sample for sample, (_, mask) in zip(usable, encoded, strict=True) if 1 in mask]
    else:
        whole = [continuation(tokenizer, f"{s.prompt}\n", s.response) for s in usable]
    found: dict[int, Target] = {}
    for sample, target in zip(usable, whole, strict=True):
        cut = max(0, len(target.ids) - loaded.context)
        if target.start > cut:
            found[id(sample)] = Target(target.ids[cut:], target.start - cut)
    return [found.get(id(sample)) for sample in samples]


def _sizes(options: PerplexityOptions, context: int) -> tuple[int, int]:
    window = context if options.window is None else options.window
    if not 2 <= window <= context:
        raise UserError(f"--window: expected 2 to the model's context of {context} tokens, got {window}. Change it.")
    stride = max(1, window // 2) if options.stride is None else options.stride
    if not 1 <= stride < window:
        raise UserError(f"--stride: expected 1 to {window - 1}, less than the window, got {stride}. Change it.")
    return window, stride


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))
