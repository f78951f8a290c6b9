"""Answers to a batch of prompts, sampled in one compiled graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mindspore import Tensor

from llmstack.errors import UserError
from llmstack.generation import kernels
from llmstack.generation.decoder import CachedDecoder
from llmstack.generation.loop import DecodingLoop
from llmstack.generation.noise import divisor, uniforms
from llmstack.generation.rules import ALL_TOKENS, SamplingRules
from llmstack.models.causal_lm import CausalLM


@dataclass(frozen=True)
class Generated:
    """One answer a row; R = ``max_new_tokens``.

    Attributes:
        tokens: (B, R) int32, the end token included, 0 after the answer (``lengths`` says where that is, 0 does not).
        lengths: (B,) int32, tokens of the answer, its end token included.
        logp: (B, R) float32, log softmax(z / temperature) of each token over the whole vocabulary, 0 after the answer.
            At temperature 0 that is the limit: 0, or -log n among n tokens that are equally good.
        finished: (B,) bool, False for an answer cut off by the length limit.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    logp: np.ndarray
    finished: np.ndarray


class Generator:
    """Samples answers of one shape: B prompts of at most P tokens, R new tokens each.

    The first call compiles one graph; prompts, lengths, temperature, noise and the model's weights are its inputs, so
    no later call compiles again. The weights are the model's own Parameters.

    Args:
        model: the language model.
        batch_rows: rows B.
        prompt_len: length P that prompts are padded to.
        max_new_tokens: longest answer R.
        eos_ids: every token that ends an answer; empty: none does.
        rules: which tokens may be drawn.

    Raises:
        UserError: a size that is not positive, prompt and answer longer than the model's context, or an end token
            outside the vocabulary.
    """

    def __init__(
        self,
        model: CausalLM,
        *,
        batch_rows: int,
        prompt_len: int,
        max_new_tokens: int,
        eos_ids: Sequence[int],
        rules: SamplingRules = ALL_TOKENS,
    ) -> None:
        self.batch_rows, self.prompt_len, self.max_new_tokens = batch_rows, prompt_len, max_new_tokens
        self.eos_ids = tuple(eos_ids)
        self._check(model)
        decoder = CachedDecoder(
            model, batch_rows=batch_rows, prompt_len=prompt_len, context_len=prompt_len + max_new_tokens
        )
        sampler = kernels.sampler(rules, batch_rows=batch_rows, vocab_size=model.vocab_size)
        self.graph = DecodingLoop(decoder, sampler, room=max_new_tokens, eos_ids=self.eos_ids)

    def generate(
        self, tokens: np.ndarray, lengths: np.ndarray, *, temperature: float, rng: np.random.Generator
    ) -> Generated:
        """Answer every prompt.

        Args:
            tokens: (B, P) int32, prompts padded on the left; what the padding is does not matter.
            lengths: (B,) int32, tokens of each prompt, from 1 to P.
            temperature: logits are divided by it before softmax; 0 takes the best token and draws nothing from ``rng``.
            rng: gives B*R uniform numbers, whatever the answers' lengths.

        Returns:
            The answers.

        Raises:
            UserError: shapes, lengths or temperature are not as above.
        """
        shape = (self.batch_rows, self.prompt_len)
        if tokens.shape != shape or lengths.shape != shape[:1]:
            raise UserError(
                f"prompts: expected tokens {shape} and lengths {shape[:1]}, got {tokens.shape} and {lengths.shape}. "
                "Pad them to the generator's sizes."
            )
        if lengths.min() < 1 or lengths.max() > self.prompt_len:
            raise UserError(
                f"prompts: expected lengths from 1 to {self.prompt_len}, got {lengths.min()} to {lengths.max()}. "
                "Leave empty prompts out and cut long ones."
            )
        divisor_1 = divisor(temperature)
        uniforms_RB = uniforms((self.max_new_tokens, self.batch_rows), temperature, rng)
        tokens_RB, logp_RB, steps = self.graph(
            Tensor(np.ascontiguousarray(tokens, np.int32)),
            Tensor(np.ascontiguousarray(lengths, np.int32)),
            Tensor(divisor_1),
            Tensor(uniforms_RB),
        )
        return self._answers(tokens_RB.asnumpy().T, logp_RB.asnumpy().T, int(steps.asnumpy()))

    def _answers(self, tokens_BR: np.ndarray, logp_BR: np.ndarray, steps: int) -> Generated:
        """Cut each row after its first end token; the loop stops after ``steps`` tokens when every row has one."""
        place_R = np.arange(self.max_new_tokens)
        ends_BR = np.isin(tokens_BR, self.eos_ids) & (place_R < steps)
        finished_B = ends_BR.any(axis=1)
        lengths_B = np.where(finished_B, ends_BR.argmax(axis=1) + 1, self.max_new_tokens).astype(np.int32)
        real_BR = place_R < lengths_B[:, None]
        return Generated(
            tokens=np.where(real_BR, tokens_BR, 0).astype(np.int32),
            lengths=lengths_B,
            logp=np.where(real_BR, logp_BR, 0.0).astype(np.float32),
            finished=finished_B,
        )

    def _check(self, model: CausalLM) -> None:
        for name in ("batch_rows", "prompt_len", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}: expected at least 1, got {getattr(self, name)}. Raise it.")
        context = model.config.max_position_embeddings
        if self.prompt_len + self.max_new_tokens > context:
            raise UserError(
                f"max_new_tokens: expected prompt and answer within the model's context of {context} tokens, got "
                f"{self.prompt_len} + {self.max_new_tokens}. Shorten the prompt or the answer."
            )
        check_ends(self.eos_ids, model.vocab_size)


def check_ends(eos_ids: Sequence[int], vocab_size: int) -> None:
    """Refuse end tokens that no model of this size can draw.

    Args:
        eos_ids: every token that ends an answer.
        vocab_size: V.

    Raises:
        UserError: one is outside the vocabulary.
    """
    outside = [i for i in eos_ids if not 0 <= i < vocab_size]
    if outside:
        raise UserError(
            f"eos_ids: expected ids below the vocabulary's size of {vocab_size}, got {outside}. "
            "Use the model's own tokenizer."
        )
