"""A scorer behind a URL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llmstack.config.scorers import HttpRewardConfig
from llmstack.errors import StepUndone
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardBatch
from llmstack.runtime.http import EndpointError, JsonClient, Limits, read_key
from llmstack.runtime.logging import get_logger
from llmstack.runtime.parallel import in_parallel
from llmstack.runtime.stopping import REQUESTED

ABOUT_THE_ITEMS = frozenset({400, 413, 422})
"""Statuses by which a server says that it does not take these answers; waiting does not help."""
_HOPELESS = frozenset({401, 403, 404, 405})
"""Statuses that no patience helps with: the key or the URL is wrong."""

Chunk = tuple[int, int]
"""First answer of a request, and the one behind its last."""


class HttpReward(TextReward[HttpRewardConfig]):
    """Sends answers to a server, several requests at a time, and takes the scores it sends back.

    A request is repeated as :class:`llmstack.runtime.http.JsonClient` does. What then has no score is never 0: by
    ``on_failure`` its answers stay unscored and are counted, the run pauses until the server is back, or it stops with
    everything saved. When not one request of a batch succeeds, the run stops in the first case too, because an
    iteration without scores would only use up prompts.

    Args:
        config: the server and how it is asked.
        where: where it stands in the recipe.

    Raises:
        UserError: the environment variable that should hold the key does not.
    """

    def __init__(self, config: HttpRewardConfig, *, where: str) -> None:
        super().__init__(config, where=where)
        key = read_key(config.api_key_env, where=f"{where}.api_key_env")
        limits = Limits(config.timeout_seconds, config.retries, config.requests_per_minute, config.concurrency)
        self._client = JsonClient(config.url, limits=limits, key=key, where=where)
        self._num_failed = 0

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: prompts, answers and reference answers.

        Raises:
            StepUndone: the server is down, and the run is to stop then or was told to stop while it waited.
            EndpointError: it refuses the key or knows no such URL.
        """
        scores: list[float | None] = [None] * len(batch)
        size = self.config.batch_size
        open_: list[Chunk] = [(start, min(start + size, len(batch))) for start in range(0, len(batch), size)]
        while True:
            failures = self._ask(batch, open_, scores)
            down = {chunk: error for chunk, error in failures.items() if error.status not in ABOUT_THE_ITEMS}
            if not down:
                break
            error = next(iter(down.values()))
            if error.status in _HOPELESS:
                raise error
            if self.config.on_failure == "unscored":
                if len(failures) == len(open_):
                    raise StepUndone(f"{error} No answer could be scored. {_GO_ON}")
                break
            self._wait(error)
            open_ = list(down)
        self._num_failed = sum(score is None for score in scores)
        return scores

    def metrics(self) -> dict[str, float]:
        """How many answers of the last batch have no score."""
        return {"http_unscored": float(self._num_failed)}

    def body(self, batch: RewardBatch, chunk: Chunk) -> dict[str, Any]:
        """The object that is sent for some answers.

        Args:
            batch: all of them.
            chunk: which.
        """
        part = slice(*chunk)
        return {"prompts": batch.prompts[part], "responses": batch.responses[part], "answers": batch.answers[part]}

    def _wait(self, error: EndpointError) -> None:
        """Returns when it is time to try again."""
        if self.config.on_failure == "stop":
            raise StepUndone(f"{error} {_GO_ON}")
        pause = self.config.pause_seconds
        get_logger("rewards").warning("%s The run pauses; the next try is in %g seconds.", error, pause)
        if REQUESTED.wait(pause):
            raise StepUndone(f"{error} The run was told to stop while it waited. {_GO_ON}")

    def _ask(
        self, batch: RewardBatch, chunks: Sequence[Chunk], scores: list[float | None]
    ) -> dict[Chunk, EndpointError]:
        """Fills scores in; gives the requests that failed."""

        def work(chunk: Chunk) -> list[float | None] | EndpointError:
            def check(answer: Mapping[str, Any]) -> object:
                return scores_in(answer, chunk[1] - chunk[0])

            try:
                return scores_in(
                    self._client.post(self.config.path, self.body(batch, chunk), check=check), chunk[1] - chunk[0]
                )
            except EndpointError as error:
                return error

        failures = {}
        for index, found in in_parallel(work, chunks, workers=self.config.concurrency):
            if isinstance(found, EndpointError):
                failures[chunks[index]] = found
            else:
                scores[slice(*chunks[index])] = found
        return failures


_GO_ON = "The same command goes on when the server is back."


def scores_in(answer: Mapping[str, Any], count: int) -> list[float | None]:
    """The scores of a server's answer.

    Args:
        answer: the object it sent.
        count: how many answers were sent.

    Returns:
        A number or None for each.

    Raises:
        ValueError: it has no list ``scores`` of so many finite numbers and nulls.
    """
    found = answer.get("scores")
    if not isinstance(found, list) or len(found) != count:
        got = f"{len(found)} of them" if isinstance(found, list) else type(found).__name__
        raise ValueError(f"expected `scores`, a list of {count} numbers or nulls, got {got}")
    for item in found:
        if item is not None and (isinstance(item, bool) or not isinstance(item, int | float) or math.isinf(item)):
            raise ValueError(f"expected a finite number or null as a score, got {str(item)[:40]!r}")
    return [None if item is None or math.isnan(item) else float(item) for item in found]
