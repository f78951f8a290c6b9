"""Options of a server that is asked over HTTP, and what is wrong with its URL or key."""

from __future__ import annotations

import contextlib
import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import Strict, reject

SHORTEST_KEY = 8
"""Characters. A shorter key could not be told from ordinary text, and so not be cut out of what is written."""


class EndpointOptions(Strict):
    """Where a server is, and how much may be asked of it."""

    url: str
    """Base URL, e.g. http://127.0.0.1:8000/v1; https when a key is sent to another machine."""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Environment variable that holds the key; null: the server wants none."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Attempts a minute, evenly spaced; null: no limit."""
    concurrency: int = Field(default=4, gt=0, le=256)
    """Requests at the same time."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """For one attempt."""
    retries: int = Field(default=5, ge=0)
    """Attempts after the first, when waiting may help."""

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        problem = url_problem(self.url, has_key=self.api_key_env is not None)
        reject(self, {"url": problem} if problem else {})
        return self


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself.

    Args:
        host: a name or an address.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def url_problem(url: str, *, has_key: bool) -> str:
    """What is wrong with a server's URL.

    Args:
        url: as the user wrote it.
        has_key: whether a key is sent to it.

    Returns:
        ``expected ..., got .... <fix>.``; empty when nothing is.
    """
    if any(letter in url for letter in "@?#"):
        # not shown: that part may be the secret itself
        return (
            "expected a URL without user, query and fragment, got one with them. "
            "Put a key into an environment variable, and name that."
        )
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"expected a URL such as https://host/v1, got {url!r} ({error}). Correct it."
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"expected a URL such as https://host/v1, got {url!r}. Write it with http:// or https://."
    labels = parts.hostname.removesuffix(".").split(".")
    if " " in url or not url.isprintable() or not all(0 < len(label) < 64 for label in labels):
        return f"expected a URL such as https://host/v1, got {url!r}, one no server can have. Correct it."
    if has_key and parts.scheme == "http" and not is_loopback(parts.hostname):
        return f"expected https because a key is sent, got {url!r}: anyone on the way could read it. Write https://."
    return ""


def key_problem(key: str | None) -> str:
    """What is wrong with a key, without a word of it.

    Args:
        key: None: there is none.

    Returns:
        ``expected ..., got .... <fix>.``; empty when nothing is.
    """
    if key is None:
        return ""
    if not key.isascii() or not key.isprintable() or key != key.strip():
        what = "one with blanks around it, or with characters a header cannot hold"
    elif len(key) < SHORTEST_KEY:
        what = f"one of {len(key)}"
    else:
        return ""
    return (
        f"expected a key of {SHORTEST_KEY} or more printable ASCII characters, got {what}. Correct the environment "
        "variable, or name none if the server wants no key."
    )
