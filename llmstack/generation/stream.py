"""Answers that are seen while they are written, and can be ended from outside the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from mindspore import Tensor

from llmstack.errors import UserError
from llmstack.generation import kernels
from llmstack.generation.decoder import CachedDecoder
from llmstack.generation.generator import check_ends
from llmstack.generation.loop import Continuation, Opening
from llmstack.generation.noise import divisor, uniforms
from llmstack.generation.rules import ALL_TOKENS, SamplingRules
from llmstack.models.causal_lm import CausalLM


@dataclass(frozen=True)
class Chunk:
    """The next tokens of every row; those of a row that has ended mean nothing.

    Attributes:
        tokens: (B, N) int32.
        logp: (B, N) float32, log softmax(z / temperature) of each over the whole vocabulary.
    """

    tokens: np.ndarray
    logp: np.ndarray


class Streamer:
    """Samples what :class:`~llmstack.generation.generator.Generator` samples, a few tokens at a time.

    Two graphs share one cache: one reads the prompts and draws the first tokens, compiled once for each prompt length
    P; one draws up to ``chunk_tokens`` more and is called again and again, compiled once. Between two calls the caller
    sees the tokens and may end rows.

    Args:
        model: the language model.
        batch_rows: rows B.
        context_len: slots T for prompt and answer together.
        eos_ids: every token that ends an answer; empty: none does.
        rules: which tokens may be drawn.
        chunk_tokens: tokens N drawn between two looks.

    Raises:
        UserError: an end token outside the vocabulary.
    """

    def __init__(
        self,
        model: CausalLM,
        *,
        batch_rows: int,
        context_len: int,
        eos_ids: Sequence[int],
        rules: SamplingRules = ALL_TOKENS,
        chunk_tokens: int = 8,
    ) -> None:
        self.model, self.batch_rows, self.context_len = model, batch_rows, context_len
        self.eos_ids, self.chunk_tokens = tuple(eos_ids), chunk_tokens
        check_ends(self.eos_ids, model.vocab_size)
        self._sampler = kernels.sampler(rules, batch_rows=batch_rows, vocab_size=model.vocab_size)
        self._openings: dict[int, Opening] = {}
        self._continuation: Continuation | None = None

    def opening(self, prompt_len: int) -> Opening:
        """The graph that reads prompts of a padded length, always the same one.

        Args:
            prompt_len: P.
        """
        if prompt_len not in self._openings:
            other = next(iter(self._openings.values()), None)
            decoder = CachedDecoder(
                self.model,
                batch_rows=self.batch_rows,
                prompt_len=prompt_len,
                context_len=self.context_len,
                caches=None if other is None else other.decoder.caches,
            )
            self._openings[prompt_len] = Opening(decoder, self._sampler, room=1, eos_ids=self.eos_ids)
        return self._openings[prompt_len]

    def continuation(self) -> Continuation:
        """The graph that goes on; there is an opening before it."""
        if self._continuation is None:
            decoder = next(iter(self._openings.values())).decoder
            self._continuation = Continuation(decoder, self._sampler, room=self.chunk_tokens, eos_ids=self.eos_ids)
        return self._continuation

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        prompt_len: int,
        max_new_tokens: int,
        temperature: float,
        rng: np.random.Generator,
    ) -> Streaming:
        """Begin an answer to every prompt. Only one stream of a streamer can be under way: they share the cache.

        Args:
            prompts: token ids of each of the B rows, from 1 to P.
            prompt_len: length P they are padded to.
            max_new_tokens: longest answer R; P + R is at most T.
            temperature: 0 takes the best tokens.
            rng: gives R*B uniform numbers at once, those a generator of this shape takes.

        Raises:
            UserError: sizes or temperature are not as above.
        """
        lengths = np.array([len(ids) for ids in prompts], np.int32)
        if len(lengths) != self.batch_rows or lengths.min() < 1 or lengths.max() > prompt_len:
            raise UserError(
                f"prompts: expected {self.batch_rows} of 1 to {prompt_len} tokens, got {lengths.tolist()} tokens. "
                "Fill them up, leave empty ones out and cut long ones."
            )
        if max_new_tokens < 1 or prompt_len + max_new_tokens > self.context_len:
            raise UserError(
                f"max_new_tokens: expected 1 to {self.context_len - prompt_len} ({self.context_len} slots less "
                f"{prompt_len} of the prompt), got {max_new_tokens}. Ask for fewer tokens."
            )
        tokens = np.zeros((self.batch_rows, prompt_len), np.int32)
        for row, ids in enumerate(prompts):
            tokens[row, prompt_len - len(ids) :] = ids
        noise = uniforms((max_new_tokens, self.batch_rows), temperature, rng)
        return Streaming(self, tokens, lengths, noise, divisor(temperature))


class Streaming:
    """One answer a row, under way: iterate over it to get the next tokens.

    The first chunk has one token. It is over when every row has ended or has R tokens.

    Attributes:
        ended: (B,) bool, rows that drew an end token or were ended by :meth:`end`.
    """

    def __init__(
        self, streamer: Streamer, tokens: np.ndarray, lengths: np.ndarray, noise: np.ndarray, divisor_1: np.ndarray
    ) -> None:
        self._streamer, self._tokens, self._lengths, self._noise = streamer, tokens, lengths, noise
        self._divisor = Tensor(divisor_1)
        self.ended = np.zeros(len(lengths), bool)

    def end(self, row: int) -> None:
        """End a row's answer: when all have ended nothing more is drawn.

        Args:
            row: its index.
        """
        self.ended[row] = True

    def __iter__(self) -> Iterator[Chunk]:
        """Draw, look, draw."""
        chunk = self._first()
        yield chunk
        num_new, done = len(self._noise), 1
        while done < num_new and not self.ended.all():
            chunk = self._next(chunk.tokens[:, -1], done)
            done += chunk.tokens.shape[1]
            yield chunk

    def _first(self) -> Chunk:
        opening = self._streamer.opening(self._tokens.shape[1])
        drawn = opening(Tensor(self._tokens), Tensor(self._lengths), self._divisor, Tensor(self._noise[:1]))
        return self._chunk(*drawn, steps=1)

    def _next(self, last_B: np.ndarray, done: int) -> Chunk:
        size, prompt_len = self._streamer.chunk_tokens, self._tokens.shape[1]
        noise = self._noise[done : done + size]
        filled = np.concatenate([noise, np.full((size - len(noise), noise.shape[1]), 0.5, np.float32)])
        tokens, logp, steps = self._streamer.continuation()(
            Tensor(np.ascontiguousarray(last_B)),
            Tensor(self.ended),
            Tensor((prompt_len - self._lengths).astype(np.int32)),
            Tensor(np.array([prompt_len + done - 1], np.int32)),
            self._divisor,
            Tensor(filled),
            Tensor(np.array(len(noise), np.int32)),
        )
        return self._chunk(tokens, logp, steps=int(steps.asnumpy()))

    def _chunk(self, tokens_RB: Tensor, logp_RB: Tensor, *, steps: int) -> Chunk:
        # what the graph returns is its Parameters themselves: the next call writes into them
        tokens, logp = (drawn.asnumpy()[:steps].T.copy() for drawn in (tokens_RB, logp_RB))
        self.ended |= np.isin(tokens, self._streamer.eos_ids).any(axis=1)
        return Chunk(tokens, logp)
