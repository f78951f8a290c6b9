"""Options of the rewards that are other programs: a server, a verifier."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from llmstack.config.base import reject
from llmstack.config.endpoint import EndpointOptions
from llmstack.config.rewards import RewardSourceConfig


class HttpRewardConfig(EndpointOptions, RewardSourceConfig):
    """A scorer behind a URL: it is sent lists of prompts, responses and answers, and sends back a list of scores."""

    path: Annotated[str, Field(pattern=r"^/[^\s?#]*$")] = "/score"
    """Put behind the URL."""
    batch_size: int = Field(default=32, gt=0)
    """Answers of one request."""
    on_failure: Literal["unscored", "pause", "stop"] = "stop"
    """When a request has failed for good. unscored: its answers take no part and are counted; pause: try again until
    the server is back; stop: end the run with everything saved."""
    pause_seconds: float = Field(default=30.0, gt=0)
    """pause: between two tries."""


class VerifierConfig(RewardSourceConfig):
    """A program that runs in a process of its own, under limits, and says whether an answer is right."""

    check: Literal["python", "maths", "command"]
    """python: the answer's code, then the reference answer as its tests; maths: the number or expression of the answer
    equals the reference answer; command: a program of yours."""
    command: tuple[str, ...] | None = None
    """command: program and arguments. It reads a JSON object with ``prompt``, ``response`` and ``answer`` from its
    input, writes the score on its last line and ends with status 0."""
    wall_seconds: float = Field(default=10.0, gt=0)
    """For one answer, by the clock."""
    cpu_seconds: int = Field(default=10, gt=0)
    """For one process, of a processor."""
    memory_mb: int = Field(default=1024, ge=64)
    """Address space of one process."""
    file_mb: int = Field(default=16, gt=0)
    """Longest file a process may write, its output included."""
    concurrency: int = Field(default=2, gt=0, le=256)
    """Answers checked at the same time."""
    timeout_score: float | None = None
    """Score of an answer that ran into a time limit; null: it is not scored, and counted."""

    @model_validator(mode="after")
    def _check_command(self) -> Self:
        problems = {}
        if self.check == "command" and not self.command:
            problems["command"] = (
                "expected a program because `check` is command, got nothing. Write [program, argument]."
            )
        if self.check != "command" and self.command is not None:
            problems["command"] = (
                f"expected nothing because `check` is {self.check}, got a program. Remove it, or set `check: command`."
            )
        reject(self, problems)
        return self
