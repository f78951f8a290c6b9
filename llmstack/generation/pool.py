"""Answers to prompts of any number and length, from few compiled graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmstack.errors import UserError
from llmstack.generation.generator import Generator
from llmstack.generation.rules import ALL_TOKENS, SamplingRules
from llmstack.generation.stops import StopTexts
from llmstack.generation.stream import Streamer, Streaming
from llmstack.models.causal_lm import CausalLM

_SHORTEST_BUCKET = 16
_SHORTEST_STREAM_BUCKET = 128
"""A stream reads its prompt in a graph of its own, so that short prompts should share one."""


@dataclass(frozen=True)
class Answer:
    """One sampled answer.

    Attributes:
        tokens: its ids, the end token included.
        logp: log-probability of each.
        finished: False when it was cut off by the length limit.
    """

    tokens: tuple[int, ...]
    logp: tuple[float, ...]
    finished: bool


def bucket_of(length: int, longest: int) -> int:
    """The padded length of a prompt: the next power of two, from 16 up, unless that is too long.

    Args:
        length: tokens of the prompt, at most ``longest``.
        longest: padded length there is room for.
    """
    return min(max(_SHORTEST_BUCKET, 1 << (length - 1).bit_length()), longest)


class GeneratorPool:
    """The generators of one model: a graph is compiled for a shape when it is first needed, and used again after.

    Args:
        model: the language model, of any provider.
        eos_ids: every token that ends an answer.
        rules: which tokens may be drawn.
    """

    def __init__(self, model: CausalLM, *, eos_ids: Sequence[int], rules: SamplingRules = ALL_TOKENS) -> None:
        self.model, self.eos_ids, self.rules = model, tuple(eos_ids), rules
        self._generators: dict[tuple[int, int, int], Generator] = {}
        self._streamers: dict[tuple[int, int], Streamer] = {}

    def generator(self, *, batch_rows: int, prompt_len: int, max_new_tokens: int) -> Generator:
        """The generator of a shape, always the same one, with the model's weights of now.

        Args:
            batch_rows: rows B.
            prompt_len: padded prompt length P.
            max_new_tokens: longest answer R.
        """
        model = self.model.native()
        shape = (batch_rows, prompt_len, max_new_tokens)
        if shape not in self._generators:
            self._generators[shape] = Generator(
                model,
                batch_rows=batch_rows,
                prompt_len=prompt_len,
                max_new_tokens=max_new_tokens,
                eos_ids=self.eos_ids,
                rules=self.rules,
            )
        return self._generators[shape]

    def stream(
        self, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, temperature: float, rng: np.random.Generator
    ) -> Streaming:
        """Begin an answer to each prompt, to be seen as it is written; it replaces the one before.

        Args:
            prompts: token ids of each, none empty.
            max_new_tokens: longest answer R.
            temperature: 0 takes the best tokens.
            rng: the sampling noise.

        Raises:
            UserError: no prompt, an empty one, or one too long for the model's context.
        """
        room = self._room(prompts, max_new_tokens)
        # a slot is not a position: a padded prompt may reach beyond the context that its tokens keep within
        prompt_len = max(_SHORTEST_STREAM_BUCKET, bucket_of(max(map(len, prompts)), 2 * room))
        slots = 1 << (prompt_len + max_new_tokens - 1).bit_length()
        shape = (len(prompts), slots)
        model = self.model.native()
        if shape not in self._streamers:
            self._streamers[shape] = Streamer(
                model, batch_rows=len(prompts), context_len=slots, eos_ids=self.eos_ids, rules=self.rules
            )
        return self._streamers[shape].stream(
            prompts, prompt_len=prompt_len, max_new_tokens=max_new_tokens, temperature=temperature, rng=rng
        )

    def answer(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        temperature: float,
        rng: np.random.Generator,
        num_samples: int = 1,
        max_rows: int = 32,
        stops: StopTexts | None = None,
    ) -> list[list[Answer]]:
        """Sample answers to each prompt.

        Args:
            prompts: token ids of each, none empty.
            max_new_tokens: longest answer R.
            temperature: 0 takes the best tokens.
            rng: the sampling noise.
            num_samples: answers to each prompt.
            max_rows: rows of one batch; more answers take several.
            stops: texts that end an answer too; the token that completes one is the answer's last.

        Returns:
            For each prompt its answers.

        Raises:
            UserError: no prompt, an empty one, or one too long for the model's context.
        """
        wanted = [list(ids) for ids in prompts for _ in range(num_samples)]
        room = self._room(wanted, max_new_tokens)
        num_batches = -(-len(wanted) // max_rows)
        rows = -(-len(wanted) // num_batches)
        answers: list[Answer] = []
        for start in range(0, len(wanted), rows):
            batch = wanted[start : start + rows]
            # rows without a prompt of their own repeat the last one
            filled = batch + batch[-1:] * (rows - len(batch))
            if stops:
                streaming = self.stream(filled, max_new_tokens=max_new_tokens, temperature=temperature, rng=rng)
                found = _until(streaming, stops, num_real=len(batch), eos_ids=self.eos_ids)
            else:
                prompt_len = bucket_of(max(map(len, wanted)), room)
                generator = self.generator(batch_rows=rows, prompt_len=prompt_len, max_new_tokens=max_new_tokens)
                found = _sample(generator, filled, temperature, rng)
            answers += found[: len(batch)]
        return [answers[i : i + num_samples] for i in range(0, len(answers), num_samples)]

    def _room(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> int:
        """The longest prompt there is room for, which no prompt exceeds."""
        shortest, longest = min(map(len, prompts), default=0), max(map(len, prompts), default=0)
        if shortest == 0:
            raise UserError("prompt: expected at least one token, got none. Write a prompt.")
        context = self.model.config.max_position_embeddings
        room = context - max_new_tokens
        if longest > room:
            raise UserError(
                f"prompt: expected at most {max(room, 0)} tokens (the model's context of {context} less "
                f"{max_new_tokens} new ones), got {longest}. Shorten the prompt or ask for fewer new tokens."
            )
        return room


def _sample(
    generator: Generator, prompts: Sequence[Sequence[int]], temperature: float, rng: np.random.Generator
) -> list[Answer]:
    """One answer a row."""
    tokens = np.zeros((generator.batch_rows, generator.prompt_len), np.int32)
    for row, ids in enumerate(prompts):
        tokens[row, generator.prompt_len - len(ids) :] = ids
    lengths = np.array([len(ids) for ids in prompts], np.int32)
    drawn = generator.generate(tokens, lengths, temperature=temperature, rng=rng)
    return [
        Answer(tuple(ids[:length].tolist()), tuple(logp[:length].tolist()), bool(finished))
        for ids, logp, length, finished in zip(drawn.tokens, drawn.logp, drawn.lengths, drawn.finished, strict=True)
    ]


class _Growing:
    """An answer that has not ended yet, or has."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.logp: list[float] = []
        self.finished = False

    def take(self, tokens: Sequence[int], logp: Sequence[float], stops: StopTexts, eos_ids: Sequence[int]) -> None:
        """Add new tokens, up to the one that ends the answer."""
        known = len(self.tokens)
        end = next((i + 1 for i, token in enumerate(tokens) if token in eos_ids), None)
        self.tokens += tokens[:end]
        stop = stops.end_of(self.tokens, known)
        self.finished = end is not None or stop is not None
        self.tokens = self.tokens[:stop]
        self.logp = [*self.logp, *logp][: len(self.tokens)]


def _until(streaming: Streaming, stops: StopTexts, *, num_real: int, eos_ids: Sequence[int]) -> list[Answer]:
    """One answer a row, ended by an end token, a stop text or the length limit; rows after ``num_real`` only fill."""
    rows = [_Growing() for _ in range(num_real)]
    for filler in range(num_real, len(streaming.ended)):
        streaming.end(filler)
    for chunk in streaming:
        for index, row in enumerate(rows):
            if not row.finished:
                row.take(chunk.tokens[index].tolist(), chunk.logp[index].tolist(), stops, eos_ids)
                if row.finished:
                    streaming.end(index)
    return [Answer(tuple(row.tokens), tuple(row.logp), row.finished) for row in rows]
