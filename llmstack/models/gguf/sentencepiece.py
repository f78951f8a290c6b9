"""SentencePiece BPE vocabularies (``tokenizer.ggml.model`` llama): scores instead of a list of merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tokenizers  # type: ignore[import-untyped]
from tokenizers import decoders, models, normalizers

from llmstack.errors import UserError
from llmstack.models.gguf.reader import GgufFile

SPACE = "\u2581"
_NORMAL = 1


def build(file: GgufFile, vocab: dict[str, int], types: Sequence[int], unknown: int | None) -> tokenizers.Tokenizer:
    """A byte-fallback BPE that merges as SentencePiece does.

    Args:
        file: the GGUF file.
        vocab: token -> id.
        types: ``tokenizer.ggml.token_type`` of each id.
        unknown: id of the unknown token.

    Raises:
        UserError: no scores or not one a token, a unigram vocabulary, or a normaliser that is not implemented.
    """
    scores = file.get("tokenizer.ggml.scores", list)
    if len(scores) < len(types):
        raise UserError(
            f"{file.path}: expected {len(types)} tokenizer.ggml.scores, got {len(scores)}. Convert it again."
        )
    for key in ("tokenizer.ggml.precompiled_charsmap", "tokenizer.ggml.remove_extra_whitespaces"):
        if file.metadata.get(key):
            raise UserError(f"{file.path}: {key}: expected none, got one: not implemented. Use another model.")
    merges = merges_of({t: float(scores[i]) for t, i in vocab.items() if types[i] == _NORMAL}, vocab)
    name = next((token for token, index in vocab.items() if index == unknown), None)
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token=name, fuse_unk=True, byte_fallback=True)
    )
    spaces = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    steps = [normalizers.Replace(" ", SPACE)]
    if file.get("tokenizer.ggml.add_space_prefix", bool, True):
        steps.insert(0, normalizers.Prepend(SPACE))
        spaces.append(decoders.Strip(content=" ", left=1, right=0))
    backend.normalizer = normalizers.Sequence(steps)
    backend.decoder = decoders.Sequence(spaces)
    return backend


def merges_of(scores: Mapping[str, float], vocab: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges behind a scored vocabulary, best first.

    SentencePiece joins the neighbours whose joined piece scores best, whichever way the piece is cut; so each cut of
    each piece into two pieces is a merge, ranked by the piece's score.

    Args:
        scores: score of each piece that may be made by a merge.
        vocab: id of every piece; breaks ties.

    Returns:
        (left, right) pairs.
    """
    ranked = []
    for piece, score in scores.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in scores and right in scores:
                ranked.append((-score, vocab[piece], vocab[left], vocab[right], left, right))
    return [(left, right) for *_, left, right in sorted(ranked)]
