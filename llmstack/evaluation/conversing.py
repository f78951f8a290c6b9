"""A conversation with a language model, its answers in pieces as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from llmstack.data.files import is_text
from llmstack.data.records import Message
from llmstack.data.text_stream import TextStream
from llmstack.errors import UserError
from llmstack.evaluation.answers import AnswerOptions
from llmstack.evaluation.loading import Loaded
from llmstack.generation.pool import GeneratorPool
from llmstack.models.causal_lm import CausalLM

Ending = Literal["finished", "stopped", "too_long", "context_full"]


class Conversation:
    """Turns so far, and the model that takes the assistant's.

    Args:
        loaded: a language model with a chat template.
        options: how answers are sampled; the noise goes on from turn to turn.
        system: a system message; None: none.

    Attributes:
        system: the system message that the next answer is given under.
        turns: what was said, without the system message.
        ending: how the last answer ended: by an end token, by the caller, by ``max_new_tokens``, or by the context.
        num_tokens: tokens of the conversation at the last answer's end, out of ``context``.

    Raises:
        UserError: the model has no chat template.
    """

    def __init__(self, loaded: Loaded[CausalLM], options: AnswerOptions, *, system: str | None = None) -> None:
        self.tokenizer, self.options, self.context = loaded.tokenizer, options, loaded.context
        _ = self.tokenizer.template  # refuses a tokenizer without one
        self.system = system
        self.turns: list[Message] = []
        self.ending: Ending = "finished"
        self.num_tokens = 0
        self._pool = GeneratorPool(loaded.model, eos_ids=loaded.tokenizer.eos_ids, rules=options.rules)
        self._rng = np.random.default_rng(options.seed)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The turns with the system message in front."""
        return (*([] if self.system is None else [Message("system", self.system)]), *self.turns)

    def reset(self) -> None:
        """Forget the turns; the system message stays."""
        self.turns = []
        self.num_tokens = 0

    def ask(self, text: str, *, stopped: Callable[[], bool] = lambda: False) -> Iterator[str]:
        """Say something and hear the answer. Both become turns when the answer ends, however it does.

        Args:
            text: the user's turn.
            stopped: asked between pieces; true ends the answer there.

        Yields:
            Pieces of the answer, whole characters each.

        Raises:
            UserError: a text that is none, holds a control token or does not fit the template, or a conversation that
                fills the context. Nothing was said then.
        """
        if not is_text(text):
            raise UserError("input: expected UTF-8 text, got other bytes. Say it in UTF-8.")
        asked = Message("user", text)
        ids = self.tokenizer.encode_prompt((*self.messages, asked), where="input")
        room = min(self.options.max_new_tokens, self.context - len(ids))
        if room < 1:
            raise UserError(
                f"context is full: expected a conversation below {self.context} tokens, got {len(ids)} with this turn. "
                "/reset starts a new one."
            )
        stream = TextStream(self.tokenizer.decode)
        try:
            yield from self._pieces(ids, room, stream, stopped)
        finally:
            self.turns += [asked, Message("assistant", stream.text)]

    def _pieces(self, ids: list[int], room: int, stream: TextStream, stopped: Callable[[], bool]) -> Iterator[str]:
        self.ending = "stopped"
        streaming = self._pool.stream([ids], max_new_tokens=room, temperature=self.options.temperature, rng=self._rng)
        self.num_tokens = len(ids)
        for chunk in streaming:
            drawn = chunk.tokens[0].tolist()
            end = next((i for i, token in enumerate(drawn) if token in self.tokenizer.eos_ids), len(drawn))
            self.num_tokens += end
            yield stream.add(drawn[:end])
            if stopped():
                break
        else:
            by_length: Ending = "too_long" if room == self.options.max_new_tokens else "context_full"
            self.ending = "finished" if streaming.ended[0] else by_length
        yield stream.end()
