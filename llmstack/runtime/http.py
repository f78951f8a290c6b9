"""JSON over HTTP to a server that may be slow, busy or away: patient where waiting helps, at once where it does not."""

from __future__ import annotations

import contextlib
import email.utils
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from typing_extensions import Self

from llmstack.config.endpoint import is_loopback, key_problem, url_problem
from llmstack.errors import UserError
from llmstack.runtime.parallel import in_parallel

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""Pauses before a repetition: drawn up to the first, doubled each time, never above the longest."""
LONGEST_HOLD_SECONDS = 300.0
"""A server that asks to be left alone for longer than this is taken as away."""
LARGEST_ANSWER_BYTES = 64 << 20
WORTH_REPEATING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that say nothing against the request itself; all from 500 up are repeated too."""
_SHOWN_CHARS = 300

for _name in ("httpx", "httpcore"):  # at lower levels they log what a server sends, before a key is cut out of it
    logging.getLogger(_name).setLevel(logging.WARNING)


class EndpointError(UserError):
    """A server did not give the answer that was needed.

    Attributes:
        status: the HTTP status that ended it; None: it was not reached, or what it sent was no JSON object.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True)
class Limits:
    """How much is asked of a server, and how long.

    Attributes:
        timeout_seconds: for one attempt, from its first byte sent to the last one received.
        retries: attempts after the first.
        requests_per_minute: attempts a minute, evenly spaced; None: no limit.
        concurrency: attempts at the same time.
    """

    timeout_seconds: float = 60.0
    retries: int = 5
    requests_per_minute: float | None = None
    concurrency: int = 4


@dataclass(frozen=True)
class Timing:
    """Where time comes from; tests bring their own.

    Attributes:
        clock: seconds that only grow.
        wall: seconds since 1970.
        sleep: waits so many seconds; None: a wait that :meth:`JsonClient.stop` ends.
    """

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], object] | None = None


class JsonClient:
    """Sends JSON objects to one server and gets JSON objects back. Threads may share it.

    An attempt is repeated when the server could not be reached, took too long, broke off, sent no JSON object, or
    answered 408, 409, 425, 429 or 5xx. The pause before it is drawn evenly from 0 to a bound that doubles from attempt
    to attempt ("full jitter", Brooker 2015); a ``Retry-After`` of the server holds back all threads for that long.
    Everything else ends at once, redirects too: what was meant for one server is not sent to another.

    The key goes into one header and nowhere else: it is cut out of whatever the server sends back.

    Args:
        url: ``http`` or ``https``, without user, query and fragment; paths are put behind it.
        limits: how much is asked of the server.
        key: sent as a bearer token; None: none is sent.
        where: what messages call the server.
        timing: clock and sleep.
        seed: of the pauses.

    Raises:
        UserError: a URL or a key that cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        limits: Limits | None = None,
        key: str | None = None,
        where: str = "endpoint",
        timing: Timing | None = None,
        seed: int = 0,
    ) -> None:
        problem = url_problem(url, has_key=key is not None) or key_problem(key)
        if problem:
            raise UserError(f"{where}: {problem}")
        try:
            httpx.URL(url)
        except httpx.InvalidURL as error:
            raise UserError(
                f"{where}: expected a URL such as https://host/v1, got {url!r} ({error}). Correct it."
            ) from error
        self.url, self.where, self.limits = url.rstrip("/"), where, limits or Limits()
        self._key, self._timing = key, timing or Timing()
        self._rng, self._lock, self._stopped = random.Random(seed), threading.Lock(), threading.Event()
        self._next_start = 0.0
        size = self.limits.concurrency
        self._http = httpx.Client(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=self.limits.timeout_seconds,
            limits=httpx.Limits(max_connections=size, max_keepalive_connections=size),
            # a proxy for the world outside has no business between two programs of one machine
            trust_env=not is_loopback(urlsplit(url).hostname or ""),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def stop(self) -> None:
        """Lets no further attempt begin; waits end, and whoever waited gets an :class:`EndpointError`."""
        self._stopped.set()

    def post(
        self, path: str, body: Mapping[str, Any], *, check: Callable[[dict[str, Any]], object] | None = None
    ) -> dict[str, Any]:
        """Send an object and wait for the answer, over as many attempts as allowed.

        Args:
            path: put behind the URL, e.g. ``/chat/completions``.
            body: the object.
            check: raises ValueError when an answer is not what was asked for; the attempt then counts as failed.

        Returns:
            The answer.

        Raises:
            EndpointError: the server refused the request, or every attempt failed.
        """
        url = f"{self.url}/{path.lstrip('/')}"
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        for attempt in range(self.limits.retries + 1):
            try:
                return self._checked(self._attempt(url, content), check)
            except _Failed as error:
                failure = error
            if failure.final or attempt == self.limits.retries:
                raise self._error(url, failure, attempt + 1)
            self._pause(attempt, failure)
        raise AssertionError("unreachable")  # pragma: no cover - the last attempt returns or raises

    def post_all(
        self, path: str, bodies: Sequence[Mapping[str, Any]], *, check: Callable[[dict[str, Any]], object] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Send many objects, several at a time.

        Args:
            path: as in :meth:`post`.
            bodies: the objects.
            check: as in :meth:`post`.

        Yields:
            Index and answer of each, in the order in which answers come.

        Raises:
            EndpointError: one of them got none; answers that were under way have been yielded before.
        """
        return in_parallel(
            lambda body: self.post(path, body, check=check),
            bodies,
            workers=self.limits.concurrency,
            on_failure=self.stop,
        )

    @staticmethod
    def _checked(answer: dict[str, Any], check: Callable[[dict[str, Any]], object] | None) -> dict[str, Any]:
        try:
            if check is not None:
                check(answer)
        except ValueError as error:
            raise _Failed(f"an answer that is not what was asked for ({error})") from error
        return answer

    def _attempt(self, url: str, content: bytes) -> dict[str, Any]:
        self._wait_for_turn()
        deadline = self._timing.clock() + self.limits.timeout_seconds
        headers = {"Content-Type": "application/json"}
        received = bytearray()
        try:
            with self._http.stream("POST", url, content=content, headers=headers) as response:
                # a limit on each read alone would let a server drip for hours
                for chunk in response.iter_bytes():
                    received += chunk
                    if len(received) > LARGEST_ANSWER_BYTES:
                        raise _Failed(f"an answer of more than {LARGEST_ANSWER_BYTES >> 20} MB", final=True)
                    if self._timing.clock() > deadline:
                        raise _Failed(f"no whole answer within {self.limits.timeout_seconds:g} s")
        except httpx.TimeoutException as error:
            raise _Failed(f"no answer within {self.limits.timeout_seconds:g} s") from error
        except httpx.RequestError as error:
            raise _Failed(str(error) or type(error).__name__) from error
        if not response.is_success:
            raise self._refusal(response, bytes(received))
        try:
            answer = json.loads(received)
        except (ValueError, RecursionError) as error:
            raise _Failed(f"malformed JSON ({self._shown(bytes(received))})") from error
        if not isinstance(answer, dict):
            raise _Failed(f"JSON that is no object ({self._shown(bytes(received))})")
        cleaned: dict[str, Any] = self._without_key(answer)
        return cleaned

    def _refusal(self, response: httpx.Response, received: bytes) -> _Failed:
        status = response.status_code
        text = f"status {status} {response.reason_phrase}".strip()
        if response.has_redirect_location:
            text += f" to {self._shown(response.headers['location'].encode())}"
        elif received.strip():
            text += f" ({self._shown(_message_in(received))})"
        final = status < 500 and status not in WORTH_REPEATING
        hold = None if final else _retry_after(response.headers.get("retry-after"), self._timing.wall())
        if hold is not None and hold > LONGEST_HOLD_SECONDS:
            return _Failed(f"{text}, and a request to wait {hold:.0f} s", final=True, status=status)
        return _Failed(text, final=final, status=status, hold=hold)

    def _wait_for_turn(self) -> None:
        """Returns when an attempt may begin: not sooner than its place in the minute, nor in a hold of the server."""
        spacing = 60.0 / self.limits.requests_per_minute if self.limits.requests_per_minute else 0.0
        while True:
            if self._stopped.is_set():
                raise _Failed("a stop, because another request failed", final=True)
            with self._lock:
                now = self._timing.clock()
                missing = self._next_start - now
                if missing <= 0:
                    self._next_start = now + spacing
                    return
            self._sleep(missing)

    def _pause(self, attempt: int, failure: _Failed) -> None:
        with self._lock:
            seconds = self._rng.uniform(0.0, min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**attempt))
            if failure.hold is not None:
                self._next_start = max(self._next_start, self._timing.clock() + failure.hold)
                return  # the next attempt waits for its turn anyway
        self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        (self._timing.sleep or self._stopped.wait)(seconds)

    def _error(self, url: str, failure: _Failed, attempts: int) -> EndpointError:
        times = f" after {attempts} attempts" if attempts > 1 else ""
        fix = _fix(failure.status)
        return EndpointError(
            f"{self.where}: expected an answer from {url}, got {self._without_key(str(failure))}{times}. {fix}",
            status=failure.status,
        )

    def _shown(self, raw: bytes) -> str:
        text = " ".join(self._without_key(raw.decode("utf-8", "replace")).split())
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
        return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."

    def _without_key(self, value: Any) -> Any:
        if self._key is None:
            return value
        if isinstance(value, str):
            return value.replace(self._key, "[key]")
        if isinstance(value, list):
            return [self._without_key(item) for item in value]
        if isinstance(value, dict):
            return {self._without_key(name): self._without_key(item) for name, item in value.items()}
        return value


def read_key(variable: str | None, *, where: str) -> str | None:
    """The key in an environment variable.

    Args:
        variable: its name; None: no key is wanted.
        where: the option that names it, for messages.

    Returns:
        The key; None: no key is wanted.

    Raises:
        UserError: the variable is not set, or holds what cannot be a key. The message has nothing of its content.
    """
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UserError(
            f"{where}: expected a key in the environment variable {variable}, got none. "
            f"Set it (`export {variable}=...`), or write null if the server wants no key."
        )
    problem = key_problem(key)
    if problem:
        raise UserError(f"{where} ({variable}): {problem}")
    return key


class _Failed(Exception):
    """One attempt that gave no answer.

    Args:
        text: what came instead of an answer.
        final: trying again would not help.
        status: the HTTP status, when there was one.
        hold: seconds the server asks for.
    """

    def __init__(self, text: str, *, final: bool = False, status: int | None = None, hold: float | None = None) -> None:
        self.final, self.status, self.hold = final, status, hold
        super().__init__(text)


def _retry_after(value: str | None, now: float) -> float | None:
    """Seconds of a ``Retry-After``, a number or a date (RFC 9110, section 10.2.3); None: not there or odd."""
    if value is None:
        return None
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _message_in(received: bytes) -> bytes:
    """What an error's body says: ``error.message`` where servers commonly put it, else all of it."""
    with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError, AttributeError):
        error = json.loads(received)["error"]
        return str(error if isinstance(error, str) else error["message"]).encode("utf-8", "replace")
    return received


def _fix(status: int | None) -> str:
    if status in (401, 403):
        return "Check the key and what it is allowed to do."
    if status == 404:
        return "Check the URL and the model's name."
    if status is not None and 300 <= status < 400:
        return "Write the URL it redirects to, if you trust it."
    if status is not None and status < 500 and status not in WORTH_REPEATING:
        return "Correct the request."
    return "Check that the server is there and well, then go on."
