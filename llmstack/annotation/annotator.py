"""What automatic annotators share: answers that are there already are not asked for again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llmstack.annotation.cache import AnswerCache, key_of
from llmstack.annotation.requests import Reply, Request
from llmstack.config.annotation import SamplingConfig
from llmstack.errors import UserError
from llmstack.runtime.http import Timing

C = TypeVar("C", bound=SamplingConfig)


@dataclass(frozen=True)
class Setting:
    """What an annotator is given besides its own options.

    Attributes:
        name: what the configuration calls it.
        cache: where answers are kept.
        seed: of sampled answers.
        device: where models of this machine run.
        threads: CPU threads of such models; None: every core.
        timing: clock and sleep of requests; None: the system's.
    """

    name: str
    cache: AnswerCache
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    timing: Timing | None = None


@dataclass
class Usage:
    """What an annotator was asked and what it took.

    Attributes:
        new: requests that were sent in this run.
        kept: requests whose answers were there already.
        input_tokens: of all requests.
        output_tokens: of all answers.
        new_input_tokens: of the requests of this run.
        new_output_tokens: of the answers of this run.
        untold: answers that came without their number of tokens.
    """

    new: int = 0
    kept: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    new_input_tokens: int = 0
    new_output_tokens: int = 0
    untold: int = 0

    def add(self, reply: Reply, *, is_new: bool) -> None:
        """Count an answer.

        Args:
            reply: the answer.
            is_new: whether it was asked for in this run.
        """
        spent = (reply.input_tokens or 0, reply.output_tokens or 0)
        self.untold += None in (reply.input_tokens, reply.output_tokens)
        self.input_tokens += spent[0]
        self.output_tokens += spent[1]
        self.new, self.kept = self.new + is_new, self.kept + (not is_new)
        if is_new:
            self.new_input_tokens += spent[0]
            self.new_output_tokens += spent[1]


class AutomaticAnnotator(ABC, Generic[C]):
    """Somebody who can be asked at any time.

    Args:
        config: its options.
        setting: what else it is given.

    Attributes:
        usage: what it took so far.
    """

    def __init__(self, config: C, setting: Setting) -> None:
        self.config, self.setting = config, setting
        self.name, self.where = setting.name, f"annotators.{setting.name}"
        self.usage = Usage()

    @property
    @abstractmethod
    def source(self) -> tuple[str, str]:
        """Who answers (a URL, or the hash of a folder) and the model's name there."""

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """Everything the answer to a request depends on, but for who answers.

        Args:
            request: the request.
        """

    @abstractmethod
    def ask(self, requests: Sequence[Request], keep: Callable[[int, Reply], Reply]) -> dict[int, Reply]:
        """Get answers.

        Args:
            requests: no two alike.
            keep: called with index and answer as soon as it is there; gives the answer to go on with. An answer that
                should be asked for again next time is not kept.

        Returns:
            The answer to each, by index.

        Raises:
            UserError: it cannot go on; what was kept stays.
        """

    def answers(self, requests: Sequence[Request], *, kept_only: bool = False) -> list[Reply | None]:
        """Answers from the cache, and for what is not there from the annotator.

        Args:
            requests: the requests.
            kept_only: ask for nothing; what is not in the cache is None.

        Returns:
            An answer for each request.

        Raises:
            UserError: the annotator cannot go on; says how much is there already.
        """
        bodies = [self.body(request) for request in requests]
        keys = [key_of(*self.source, body, request.sample) for body, request in zip(bodies, requests, strict=True)]
        found = self.setting.cache.find(keys)
        missing = {key: index for index, key in reversed(list(enumerate(keys))) if key not in found}
        for reply in found.values():
            self.usage.add(reply, is_new=False)
        fresh = {} if kept_only or not missing else self._ask(requests, bodies, keys, sorted(missing.values()))
        for reply in fresh.values():
            self.usage.add(reply, is_new=True)
        found |= fresh
        return [found.get(key) for key in keys]

    def _ask(
        self, requests: Sequence[Request], bodies: Sequence[dict[str, Any]], keys: Sequence[str], missing: Sequence[int]
    ) -> dict[str, Reply]:
        new: list[int] = []
        cache, source = self.setting.cache, " ".join(self.source)

        def keep(index: int, reply: Reply) -> Reply:
            place = missing[index]
            kept = cache.keep(keys[place], reply, source=source, request=bodies[place])
            new.append(place)  # from several threads: no count could be added to safely
            return kept

        try:
            fresh = self.ask([requests[index] for index in missing], keep)
        except UserError as error:
            done = len(requests) - len(missing) + len(new)
            raise UserError(
                f"{error} {done} of {len(requests)} answers of {self.name} are in {cache.path}; "
                "the same command goes on from there."
            ) from error
        return {keys[missing[index]]: reply for index, reply in fresh.items()}
