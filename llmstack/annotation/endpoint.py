"""An annotator behind OpenAI's chat completions: a server of the user's or a paid one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from llmstack.annotation.annotator import AutomaticAnnotator, Setting
from llmstack.annotation.requests import Reply, Request
from llmstack.config.annotation import EndpointConfig
from llmstack.runtime.http import EndpointError, JsonClient, Limits, read_key
from llmstack.runtime.parallel import in_parallel

PATH = "/chat/completions"
ABOUT_THE_ITEM = frozenset({400, 413, 422})
"""Statuses by which a server says that it does not take this one request, e.g. because it is too long for the model."""
TOLERATED = 2
"""So many of them may come before the first answer; after that the fault must be in every request."""


class EndpointAnnotator(AutomaticAnnotator[EndpointConfig]):
    """Asks a server, several requests at a time.

    A request that the server refuses for its own sake becomes an answer with a problem, which is not kept; one that it
    refuses before it has answered anything, or that no patience helps with, ends the run.

    Args:
        config: the server and how it is asked.
        setting: what else it is given.

    Raises:
        UserError: the environment variable that should hold the key does not.
    """

    def __init__(self, config: EndpointConfig, setting: Setting) -> None:
        super().__init__(config, setting)
        self._key = read_key(config.api_key_env, where=f"{self.where}.api_key_env")
        self._lock = threading.Lock()
        self._refused, self._answered = 0, False

    @property
    def source(self) -> tuple[str, str]:
        """URL and model."""
        return self.config.url.rstrip("/"), self.config.model

    def body(self, request: Request) -> dict[str, Any]:
        """The object that is sent.

        Args:
            request: the request.
        """
        options = {
            "temperature": self.config.temperature,
            "max_tokens": self.config.max_tokens,
            "seed": self.setting.seed + request.sample if self.config.send_seed else None,
        }
        return {
            "model": self.config.model,
            "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages],
            **{name: value for name, value in options.items() if value is not None},
            **self.config.extra,
        }

    def ask(self, requests: Sequence[Request], keep: Callable[[int, Reply], Reply]) -> dict[int, Reply]:
        """Answers of the server.

        Args:
            requests: no two alike.
            keep: called with each answer.

        Raises:
            EndpointError: the server is away, or refuses every request.
        """
        limits = Limits(
            self.config.timeout_seconds, self.config.retries, self.config.requests_per_minute, self.config.concurrency
        )
        found: dict[int, Reply] = {}
        with (
            JsonClient(
                self.config.url,
                limits=limits,
                key=self._key,
                where=self.where,
                timing=self.setting.timing,
                seed=self.setting.seed,
            ) as client,
            tqdm(total=len(requests), unit="request", desc=self.name, disable=None, leave=False) as bar,
        ):

            def work(index: int) -> Reply:
                return self._answer(client, index, requests[index], keep)

            replies = in_parallel(work, range(len(requests)), workers=limits.concurrency, on_failure=client.stop)
            for index, reply in replies:
                found[index] = reply
                bar.update()
        return found

    def _answer(self, client: JsonClient, index: int, request: Request, keep: Callable[[int, Reply], Reply]) -> Reply:
        try:
            answer = client.post(PATH, self.body(request), check=reply_in)
        except EndpointError as error:
            if error.status not in ABOUT_THE_ITEM or self._is_hopeless():
                raise
            return Reply("", problem=f"refused: {error}")
        with self._lock:
            self._answered = True
        return keep(index, reply_in(answer))

    def _is_hopeless(self) -> bool:
        with self._lock:
            self._refused += 1
            return self._refused > TOLERATED and not (self._answered or self.usage.kept)


def reply_in(answer: Mapping[str, Any]) -> Reply:
    """The reply in a chat completion.

    Args:
        answer: the object a server sent.

    Returns:
        Its first choice, with the tokens it took when the server tells.

    Raises:
        ValueError: it is no chat completion.
    """
    try:
        choice = answer["choices"][0]
        text, reason = choice["message"].get("content"), choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        error = answer.get("error")
        raise ValueError(f"expected choices[0].message, got {error or ', '.join(answer) or 'nothing'}") from None
    if text is not None and not isinstance(text, str):
        raise ValueError(f"expected a text in choices[0].message.content, got a {type(text).__name__}")
    problem = ""
    if reason == "length":
        problem = "cut off at the limit of tokens"
    elif reason == "content_filter":
        problem = "held back by the server's content filter"
    elif text is None:
        problem = f"no text (finish_reason {reason})"
    usage = answer.get("usage")
    counts = [
        usage.get(name) if isinstance(usage, Mapping) else None for name in ("prompt_tokens", "completion_tokens")
    ]
    tokens = [count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
              for count in counts]  # fmt: skip
    return Reply(_whole(text or ""), problem, *tokens)


def _whole(text: str) -> str:
    """The text with U+FFFD for halves of characters, which an answer cut off inside an emoji may end with."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
