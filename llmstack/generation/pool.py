"""Answers to prompts of any number and length, from few compiled graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmstack.errors import UserError
from llmstack.generation.generator import Generator, check_support
from llmstack.models.causal_lm import CausalLM

_SHORTEST_BUCKET = 16


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
        top_k: draw among the best ``top_k`` tokens; 0 draws among all.
        top_p: of those, draw among the fewest best whose probability reaches ``top_p``; 1 draws among all.

    Raises:
        UserError: ``top_k`` or ``top_p`` out of range.
    """

    def __init__(self, model: CausalLM, *, eos_ids: Sequence[int], top_k: int = 0, top_p: float = 1.0) -> None:
        check_support(top_k, top_p)
        self.model, self.eos_ids, self.top_k, self.top_p = model, tuple(eos_ids), top_k, top_p
        self._generators: dict[tuple[int, int, int], Generator] = {}

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
                top_k=self.top_k,
                top_p=self.top_p,
            )
        return self._generators[shape]

    def answer(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        temperature: float,
        rng: np.random.Generator,
        num_samples: int = 1,
        max_rows: int = 32,
    ) -> list[list[Answer]]:
        """Sample answers to each prompt.

        Args:
            prompts: token ids of each, none empty.
            max_new_tokens: longest answer R.
            temperature: 0 takes the best tokens.
            rng: the sampling noise.
            num_samples: answers to each prompt.
            max_rows: rows of one batch; more answers take several.

        Returns:
            For each prompt its answers.

        Raises:
            UserError: no prompt, an empty one, or one too long for the model's context.
        """
        wanted = [list(ids) for ids in prompts for _ in range(num_samples)]
        prompt_len = self._prompt_len(wanted, max_new_tokens)
        num_batches = -(-len(wanted) // max_rows)
        rows = -(-len(wanted) // num_batches)
        generator = self.generator(batch_rows=rows, prompt_len=prompt_len, max_new_tokens=max_new_tokens)
        answers: list[Answer] = []
        for start in range(0, len(wanted), rows):
            batch = wanted[start : start + rows]
            answers += _sample(generator, batch, temperature, rng)[: len(batch)]
        return [answers[i : i + num_samples] for i in range(0, len(answers), num_samples)]

    def _prompt_len(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> int:
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
        return bucket_of(longest, room)


def _sample(
    generator: Generator, prompts: Sequence[Sequence[int]], temperature: float, rng: np.random.Generator
) -> list[Answer]:
    """One answer a row; rows without a prompt of their own repeat the last one."""
    filled = [*prompts, *[prompts[-1]] * (generator.batch_rows - len(prompts))]
    tokens = np.zeros((generator.batch_rows, generator.prompt_len), np.int32)
    for row, ids in enumerate(filled):
        tokens[row, generator.prompt_len - len(ids) :] = ids
    lengths = np.array([len(ids) for ids in filled], np.int32)
    drawn = generator.generate(tokens, lengths, temperature=temperature, rng=rng)
    return [
        Answer(tuple(ids[:length].tolist()), tuple(logp[:length].tolist()), bool(finished))
        for ids, logp, length, finished in zip(drawn.tokens, drawn.logp, drawn.lengths, drawn.finished, strict=True)
    ]
