"""An annotator on this machine: a model folder, asked through the generation path of ``llmstack generate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from tqdm import tqdm

from llmstack.annotation.annotator import AutomaticAnnotator
from llmstack.annotation.requests import Reply, Request
from llmstack.config.annotation import LocalModelConfig
from llmstack.data.tokenizer import Tokenizer
from llmstack.engine.fingerprint import hash_files
from llmstack.errors import DataError
from llmstack.runtime.seeds import rng

if TYPE_CHECKING:
    from llmstack.evaluation.answers import Writer

GROUPS_AT_ONCE = 4
"""Batches between two writes to the cache: what a killed run loses at most."""


class LocalModelAnnotator(AutomaticAnnotator[LocalModelConfig]):
    """Asks a language model of this machine; it is loaded when there is something to ask."""

    @cached_property
    def source(self) -> tuple[str, str]:  # type: ignore[override]
        """Hash of the folder's files: other weights, another tokenizer or another template are another annotator."""
        return f"sha256:{hash_files(Path(self.config.path))}", "folder"

    def body(self, request: Request) -> dict[str, Any]:
        """What the answer depends on.

        Args:
            request: the request.
        """
        return {
            "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages],
            "temperature": self.config.temperature,
            "max_tokens": self.config.max_tokens,
            "seed": self.setting.seed,
        }

    def ask(self, requests: Sequence[Request], keep: Callable[[int, Reply], Reply]) -> dict[int, Reply]:
        """Answers of the model.

        Args:
            requests: no two alike; one that leaves no room for an answer gets an answer with a problem.
            keep: called with each answer.

        Raises:
            UserError: no model folder, a model that does not write, or one without a chat template.
        """
        writer = self._writer
        room = writer.context - self.config.max_tokens
        prompts: list[list[int]] = []
        found: dict[int, Reply] = {}
        for index, request in enumerate(requests):
            ids, problem = encode(writer.tokenizer, request)
            if len(ids) > room:
                problem = f"a request of {len(ids)} tokens where {max(room, 0)} are left for it"
            if problem:
                found[index] = keep(index, Reply("", problem))
            prompts.append(ids)
        # by length, so that neighbours share a graph
        fitting = sorted(set(range(len(requests))) - found.keys(), key=lambda index: len(prompts[index]))
        size = self.config.batch_rows * GROUPS_AT_ONCE
        with tqdm(total=len(fitting), unit="request", desc=self.name, disable=None, leave=False) as bar:
            for sample in sorted({requests[index].sample for index in fitting}):
                of_sample = [index for index in fitting if requests[index].sample == sample]
                for start in range(0, len(of_sample), size):
                    chunk = of_sample[start : start + size]
                    found |= self._write(writer, sample, chunk, prompts, requests, keep)
                    bar.update(len(chunk))
        return found

    def _write(
        self,
        writer: Writer,
        sample: int,
        chunk: Sequence[int],
        prompts: Sequence[Sequence[int]],
        requests: Sequence[Request],
        keep: Callable[[int, Reply], Reply],
    ) -> dict[int, Reply]:
        # noise of its own for each sample and chunk, whatever else is asked for in this run
        seed = int(rng(self.setting.seed, self.name, sample, repr(prompts[chunk[0]])).integers(2**31))
        writer.options = replace(writer.options, seed=seed)
        wheres = [requests[index].where for index in chunk]
        written = writer.write([prompts[index] for index in chunk], wheres=wheres)
        replies = {}
        for index, (answer,) in zip(chunk, written, strict=True):
            problem = "" if answer.finished else "cut off at the limit of tokens"
            reply = Reply(answer.text, problem, len(prompts[index]), answer.num_tokens)
            replies[index] = keep(index, reply)
        return replies

    @cached_property
    def _writer(self) -> Writer:
        from llmstack.runtime.device import setup

        setup(cast(Literal["cpu", "ascend"], self.setting.device), self.setting.threads)
        from llmstack.evaluation.answers import AnswerOptions, Writer
        from llmstack.evaluation.loading import load_language_model

        options = AnswerOptions(
            max_new_tokens=self.config.max_tokens,
            temperature=self.config.temperature,
            batch_rows=self.config.batch_rows,
        )
        return Writer(load_language_model(self.config.path), options)


def encode(tokenizer: Tokenizer, request: Request) -> tuple[list[int], str]:
    """The ids of a request.

    Args:
        tokenizer: the model's.
        request: its conversation.

    Returns:
        The ids and an empty text; or none, and why this conversation cannot be put to the model.

    Raises:
        DataError: the tokenizer has no chat template.
    """
    _ = tokenizer.template
    try:
        return tokenizer.encode_prompt(request.messages, where=request.where), ""
    except DataError as error:  # of this conversation: a control token in it, or a turn the template does not take
        return [], str(error)
