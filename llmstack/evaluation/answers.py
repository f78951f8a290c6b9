"""Answers of a language model to many prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from llmstack.data.tokenizer import Tokenizer
from llmstack.errors import UserError
from llmstack.evaluation.loading import Loaded
from llmstack.generation.pool import Answer, GeneratorPool, bucket_of
from llmstack.generation.rules import ALL_TOKENS, SamplingRules
from llmstack.generation.stops import StopTexts
from llmstack.models.causal_lm import CausalLM


@dataclass(frozen=True)
class AnswerOptions:
    """How answers are sampled.

    Attributes:
        max_new_tokens: longest answer R.
        temperature: 0 takes the best tokens.
        num_samples: answers to each prompt.
        seed: of the sampling noise.
        rules: which tokens may be drawn.
        stops: texts before which an answer ends.
        batch_rows: answers written at the same time.
    """

    max_new_tokens: int = 64
    temperature: float = 1.0
    num_samples: int = 1
    seed: int = 0
    rules: SamplingRules = ALL_TOKENS
    stops: tuple[str, ...] = ()
    batch_rows: int = 32


@dataclass(frozen=True)
class Written:
    """One answer.

    Attributes:
        text: what was written, without control tokens and from no stop text on.
        num_tokens: tokens drawn: the end token counts, and so do those of a stop text.
        finished: False when it was cut off by the length limit.
        mean_logp: mean log-probability of these tokens at the sampling temperature, in nats.
    """

    text: str
    num_tokens: int
    finished: bool
    mean_logp: float


class Writer:
    """Answers prompts with one model; prompts of similar length share a graph.

    Args:
        loaded: the language model.
        options: how answers are sampled.

    Raises:
        UserError: a stop text that is empty or holds a control token and more.
    """

    def __init__(self, loaded: Loaded[CausalLM], options: AnswerOptions) -> None:
        self.tokenizer, self.options, self.context = loaded.tokenizer, options, loaded.context
        eos_ids, self.stops = split_stops(options.stops, loaded.tokenizer)
        self.pool = GeneratorPool(loaded.model, eos_ids=(*loaded.tokenizer.eos_ids, *eos_ids), rules=options.rules)

    def write(self, prompts: Sequence[Sequence[int]], *, wheres: Sequence[str]) -> list[list[Written]]:
        """Answer each prompt.

        Args:
            prompts: token ids of each.
            wheres: where each comes from, for messages.

        Returns:
            For each prompt its answers.

        Raises:
            UserError: a prompt that is empty or too long for the model's context.
        """
        for ids, where in zip(prompts, wheres, strict=True):
            self._check(ids, where)
        room = self.context - self.options.max_new_tokens
        buckets: dict[int, list[int]] = {}
        for index, ids in enumerate(prompts):
            buckets.setdefault(bucket_of(len(ids), room), []).append(index)
        rng = np.random.default_rng(self.options.seed)
        answers: dict[int, list[Written]] = {}
        with tqdm(total=len(prompts), unit="prompt", disable=None, leave=False) as bar:
            for _, indices in sorted(buckets.items()):
                for group in self._groups(indices):
                    found = self._sample([prompts[index] for index in group], rng)
                    answers |= zip(group, found, strict=True)
                    bar.update(len(set(group)))
        return [answers[index] for index in range(len(prompts))]

    def _groups(self, indices: Sequence[int]) -> list[Sequence[int]]:
        """Prompts answered by one call: always as many, so that they share a graph; the last one fills up."""
        size = min(max(1, self.options.batch_rows // self.options.num_samples), len(indices))
        filled = [*indices, *[indices[-1]] * (-len(indices) % size)]
        return [filled[start : start + size] for start in range(0, len(filled), size)]

    def _sample(self, prompts: Sequence[Sequence[int]], rng: np.random.Generator) -> list[list[Written]]:
        options = self.options
        answers = self.pool.answer(
            prompts,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            rng=rng,
            num_samples=options.num_samples,
            max_rows=options.batch_rows,
            stops=self.stops,
        )
        return [[self._written(answer) for answer in of_prompt] for of_prompt in answers]

    def _written(self, answer: Answer) -> Written:
        text = self.stops.cut(self.tokenizer.decode(answer.tokens))
        return Written(text, len(answer.tokens), answer.finished, float(np.mean(answer.logp)))

    def _check(self, ids: Sequence[int], where: str) -> None:
        if not ids:
            raise UserError(f"{where}: expected some text, got none. Write what the model should go on from.")
        room = self.context - self.options.max_new_tokens
        if len(ids) > room:
            raise UserError(
                f"{where}: expected at most {max(room, 0)} tokens (the model's context of {self.context} less "
                f"{self.options.max_new_tokens} new ones), got {len(ids)}. "
                "Shorten the prompt or ask for fewer new tokens."
            )


def split_stops(stops: Sequence[str], tokenizer: Tokenizer) -> tuple[tuple[int, ...], StopTexts]:
    """Stop texts that are a control token end an answer as its end token does; the others are looked for in its text.

    Args:
        stops: texts before which an answer ends.
        tokenizer: the model's.

    Returns:
        Ids of the control tokens, and the other texts.

    Raises:
        UserError: a text that is empty, or holds a control token and more: decoded text has none.
    """
    control = tokenizer.control_tokens
    plain = [stop for stop in stops if stop not in control]
    for stop in plain:
        inside = next((token for token in control if token in stop), None)
        if inside is not None:
            raise UserError(
                f"stop: expected a text, or the control token {inside!r} alone, got {stop!r}. Give them one by one."
            )
    return tuple(control[stop] for stop in stops if stop in control), StopTexts(plain, tokenizer.decode)
