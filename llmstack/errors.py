"""The exceptions a user can meet, and the one form their messages take."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass


class LlmstackError(Exception):
    """Base of every error llmstack raises on purpose."""


class UserError(LlmstackError, ValueError):
    """The input is wrong and the user can put it right: exit status 2, no traceback."""


class DataError(UserError):
    """A data file, a record or a tokenizer does not fit what the stage needs."""


class RunFolderError(UserError):
    """The run folder cannot be used: not writable, in use by another run, or damaged."""


class RunHalted(LlmstackError):
    """A training run stopped itself on purpose (a limit of the recipe was passed): exit status 1."""


class StepUndone(LlmstackError):
    """A step gave up before it changed anything: the state before it is saved, and the same command goes on there."""


class Interrupted(LlmstackError):
    """A signal ended the run after its state was saved.

    Attributes:
        signum: the signal's number: 2 for SIGINT, 15 for SIGTERM.
        exit_status: 128 + signum, as a shell counts: 130 or 143.
    """

    def __init__(self, signum: int) -> None:
        self.signum = int(signum)
        self.exit_status = 128 + self.signum
        super().__init__(f"interrupted by {signal.Signals(signum).name}; the same command goes on from here")


class Terminated(KeyboardInterrupt):
    """SIGTERM came where nothing had to be saved: what KeyboardInterrupt is to SIGINT.

    Attributes:
        exit_status: 143.
    """

    exit_status = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a recipe.

    Attributes:
        path: dotted path of the key, e.g. ``stages.policy.kl.beta``.
        message: what was expected, what was found and what to change.
        where: ``file:line`` of the value, or the words ``command line``; empty when unknown.
    """

    path: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        """One line: ``path: message (where)``."""
        return f"{self.path}: {self.message}" + (f" ({self.where})" if self.where else "")


class ConfigError(UserError):
    """A recipe that cannot be run; carries every problem found, not just the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
