"""Answers checked by a program: their own code with tests, maths, or whatever a program of the user's looks at."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import threading
from collections.abc import Sequence

from llmstack.config.scorers import VerifierConfig
from llmstack.errors import UserError
from llmstack.rewards import maths
from llmstack.rewards.child import NO_MEMORY
from llmstack.rewards.sandbox import Bounds, Ended, Sandbox
from llmstack.rewards.text_reward import TextReward
from llmstack.rl.rewards_api import RewardBatch
from llmstack.runtime.parallel import in_parallel

_FENCED = re.compile(r"```[ \t]*(?:python|py|python3)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_MB = 1 << 20


class Verifier(TextReward[VerifierConfig]):
    """1 for an answer its check finds right, 0 for a wrong one; nothing where the check itself came to no end.

    A check that hangs, crashes or runs out of memory says nothing about the answer: it leaves it unscored and is
    counted, unless ``timeout_score`` says what a hang is worth.

    Args:
        config: the check and its limits.
        where: where it stands in the recipe.

    Raises:
        UserError: the program is not there.
    """

    def __init__(self, config: VerifierConfig, *, where: str) -> None:
        super().__init__(config, where=where)
        self._bounds = Bounds(config.wall_seconds, config.cpu_seconds, config.memory_mb * _MB, config.file_mb * _MB)
        self._command = _found(config.command, where) if config.command is not None else []
        self._lock = threading.Lock()
        self._timeouts = self._crashes = 0

    def __call__(self, batch: RewardBatch) -> list[float | None]:
        """Score answers.

        Args:
            batch: answers; for ``python`` and ``maths`` those without a reference answer are not scored.
        """
        self._timeouts = self._crashes = 0
        scores: list[float | None] = [None] * len(batch)
        rows = [row for row in range(len(batch)) if self._command or batch.answers[row] is not None]
        sandbox = Sandbox(self._bounds)
        parts = self._parts(rows)

        def work(part: Sequence[int]) -> list[float | None]:
            return self._check(sandbox, batch, part)

        for index, found in in_parallel(work, parts, workers=self.config.concurrency, on_failure=sandbox.stop):
            for row, score in zip(parts[index], found, strict=True):
                scores[row] = score
        return scores

    def metrics(self) -> dict[str, float]:
        """How many checks of the last batch ran out of time, and how many ended in another way than with a verdict."""
        return {"verifier_timeouts": float(self._timeouts), "verifier_crashes": float(self._crashes)}

    def _parts(self, rows: list[int]) -> list[list[int]]:
        """Which answers one process checks: one, but for maths, where starting it would take the most time."""
        if self.config.check != "maths":
            return [[row] for row in rows]
        workers = self.config.concurrency
        return [part for part in (rows[first::workers] for first in range(workers)) if part]

    def _check(self, sandbox: Sandbox, batch: RewardBatch, rows: Sequence[int]) -> list[float | None]:
        if self.config.check == "maths":
            return self._maths(sandbox, [(batch.responses[row], batch.answers[row]) for row in rows])
        (row,) = rows
        if self.config.check == "python":
            return [self._python(sandbox.run_python(code_in(batch.responses[row]), batch.answers[row] or ""))]
        item = {"prompt": batch.prompts[row], "response": batch.responses[row], "answer": batch.answers[row]}
        return [self._program(sandbox.run_program(self._command, json.dumps(item)))]

    def _python(self, ended: Ended) -> float | None:
        if ended.out_of_time or ended.status < 0 or ended.status == NO_MEMORY:
            return self._failed(ended)
        return float(ended.passed)

    def _program(self, ended: Ended) -> float | None:
        """The number on the last line; a checker that fails must not look like one that finds everything wrong."""
        lines = [line.strip() for line in ended.output.split("\n") if line.strip()]
        try:
            score = float(lines[-1]) if lines and ended.status == 0 else math.nan
        except ValueError:
            score = math.nan
        return score if math.isfinite(score) else self._failed(ended)

    def _maths(self, sandbox: Sandbox, items: list[tuple[str, str | None]]) -> list[float | None]:
        """One process for all of them; when it ends early, the item it was at has no score and the rest get another."""
        scores: list[float | None] = []
        while len(scores) < len(items):
            ended = sandbox.run_program(maths.command(), json.dumps(items[len(scores) :]))
            # a last line without its end was cut off
            scores += [json.loads(line) for line in ended.output.split("\n")[:-1]]
            if len(scores) < len(items):
                scores.append(self._failed(ended))
        return scores

    def _failed(self, ended: Ended) -> float | None:
        with self._lock:
            self._timeouts += ended.out_of_time
            self._crashes += not ended.out_of_time
        return self.config.timeout_score if ended.out_of_time else None


def code_in(response: str) -> str:
    """The code of an answer: its last fenced block, else all of it.

    Args:
        response: an answer.
    """
    blocks = _FENCED.findall(response)
    return str(blocks[-1]) if blocks else response


def _found(command: Sequence[str], where: str) -> list[str]:
    """The command with absolute paths, because it runs in another folder."""
    program = shutil.which(command[0])
    if program is None:
        raise UserError(
            f"{where}.command: expected a program that can be run, got {command[0]!r}. Check its path and that it is "
            "executable."
        )
    return [
        os.path.abspath(program),
        *(os.path.abspath(item) if os.path.isfile(item) else item for item in command[1:]),
    ]
