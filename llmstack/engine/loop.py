"""The one training loop. It knows steps, intervals and files; what a step does is the stage's business."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from typing_extensions import Self

from llmstack.config.stages import StageConfig
from llmstack.engine.advice_log import AdviceLog
from llmstack.engine.checkpoint import load_newest, retain, save_checkpoint
from llmstack.engine.metrics import JsonLines, MetricsLog
from llmstack.engine.progress import Progress
from llmstack.engine.protocol import StageState, StepReport, Trainable
from llmstack.engine.record import Record, StageResult
from llmstack.engine.stage_folder import StageFolder
from llmstack.engine.stop import StopRequest
from llmstack.errors import Interrupted, RunHalted, StepUndone
from llmstack.runtime import compile_count
from llmstack.runtime.logging import get_logger

T = TypeVar("T")

Utilisation: TypeAlias = Callable[[float], Mapping[str, float]]
"""Tokens a second -> metrics of how well the devices are used."""


@dataclass(frozen=True)
class Intervals:
    """How often the loop does what, in steps.

    Attributes:
        log: a metrics line; the first and the last step have one too.
        evaluate: an evaluation; before the first and after the last step there is one too.
        save: a checkpoint; after the last step there is one too.
        keep_checkpoints: whole checkpoints that stay.
        max_skipped_steps: skipped steps in a row that are put up with.
        rows: whether to write down which rows of the data each step read.
    """

    log: int
    evaluate: int
    save: int
    keep_checkpoints: int = 2
    max_skipped_steps: int = 10
    rows: bool = True

    @classmethod
    def of(cls, config: StageConfig) -> Self:
        """Reads them from a stage's config."""
        return cls(
            log=int(config.log_every.amount),
            evaluate=int(config.eval_every.amount),
            save=int(config.save_every.amount),
            keep_checkpoints=config.keep_checkpoints,
            max_skipped_steps=config.max_skipped_steps,
            rows=config.log_rows,
        )


def fit(
    stage: Trainable,
    folder: StageFolder,
    intervals: Intervals,
    *,
    since: Clock | None = None,
    utilisation: Utilisation | None = None,
) -> StageResult:
    """Runs a stage to its end, or on from its newest whole checkpoint.

    Args:
        stage: built and ready.
        folder: where its files go.
        intervals: how often to log, evaluate and save.
        since: a clock started before the stage was built, so that the time and compiles of building count; None starts
            one here.
        utilisation: makes metrics of the tokens a second of a metrics line; None: there are none.

    Returns:
        The stage in numbers; ``final/`` is written.

    Raises:
        Interrupted: SIGTERM or SIGINT came; the state is saved.
        RunHalted: too many steps in a row had a gradient that was not finite.
        StepUndone: a step gave up before it changed anything; the state before it is saved.
    """
    clock = since or Clock()
    record, after = _restore(stage, folder)
    with (
        MetricsLog(folder.metrics, folder.tensorboard, after=after) as log,
        AdviceLog(folder.advice, folder.metrics, stage=folder.name, after=after) as advice,
        Progress(folder.name, stage.total_steps, record.step) as progress,
        JsonLines(folder.samples, after=after) as samples,
        JsonLines(folder.rows, after=after) if intervals.rows else nullcontext() as rows,
        StopRequest() as stop,
    ):
        run = _Run(stage, folder, record, clock, _Logs(log, advice, samples, rows), utilisation)
        if after < 0:
            run.write(run.evaluate())
        while record.step < stage.total_steps and stop.signum is None:
            try:
                report, seconds = clock.timed(lambda: stage.step(record.step + 1))
            except StepUndone:
                run.save_before_step(intervals.keep_checkpoints)
                if stop.signum is not None:
                    break
                raise
            record.add_step(report, seconds)
            run.note_rows(report)
            _halt_if_stuck(record, intervals.max_skipped_steps)
            run.measure(intervals)
            shown = {name.removeprefix("train/"): record.recent(name) for name in report.shown}
            progress.update(record.step, shown=shown, tokens_per_second=record.recent_speed)
            if run.due(intervals.save) or stop.signum is not None:
                run.save(intervals.keep_checkpoints)
        if stop.signum is not None:
            raise Interrupted(stop.signum)
    folder.write_final(stage.save_final)
    clock.read_into(record)
    return record.result()


class Clock:
    """Wall time and compiles since it was made."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._read_at = self._started
        self._compiles = compile_count.snapshot()
        self._compiles_read = self._compiles

    def timed(self, action: Callable[[], T]) -> tuple[T, float]:
        """Runs something.

        Returns:
            What it gave and the seconds it took, compiling not counted.
        """
        started, compiles = time.perf_counter(), compile_count.snapshot()
        result = action()
        compiling = (compile_count.snapshot() - compiles).seconds
        return result, max(0.0, time.perf_counter() - started - compiling)

    def read_into(self, record: Record) -> None:
        """Adds what has passed since the last reading to a record, and the graphs of this launch."""
        now, compiles = time.perf_counter(), compile_count.snapshot()
        record.wall_seconds += now - self._read_at
        record.compile_seconds += (compiles - self._compiles_read).seconds
        record.graphs = (compiles - self._compiles).graphs or record.graphs
        self._read_at, self._compiles_read = now, compiles


@dataclass(frozen=True)
class _Logs:
    """What is written line by line."""

    metrics: MetricsLog
    advice: AdviceLog
    samples: JsonLines
    rows: JsonLines | None

    def sync(self) -> None:
        for log in (self.metrics, self.advice, self.samples, self.rows):
            if log is not None:
                log.sync()


class _Run:
    """What the loop does besides stepping."""

    def __init__(
        self,
        stage: Trainable,
        folder: StageFolder,
        record: Record,
        clock: Clock,
        logs: _Logs,
        utilisation: Utilisation | None,
    ) -> None:
        self.stage, self.folder, self.record, self.clock, self.logs = stage, folder, record, clock, logs
        self.utilisation = utilisation

    def due(self, every: int) -> bool:
        return self.record.step % every == 0 or self.record.step == self.stage.total_steps

    def measure(self, intervals: Intervals) -> None:
        line: dict[str, float | None] = {}
        if self.due(intervals.log) or self.record.step == 1:
            line.update(self.record.take_window())
            if self.utilisation is not None:
                line.update(self.utilisation(line["tokens_per_second"] or 0.0))
        if self.due(intervals.evaluate):
            line.update(self.evaluate())
        if line:
            self.write(line)

    def write(self, line: Mapping[str, float | None]) -> None:
        self.logs.metrics.write(self.record.step, self.record.tokens, line)
        self.logs.advice.read(self.record.step, line)

    def note_rows(self, report: StepReport) -> None:
        if self.logs.rows is not None and report.rows:
            self.logs.rows.append({"step": self.record.step, "rows": dict(report.rows)})

    def evaluate(self) -> dict[str, float | None]:
        values = self.record.add_evaluation(self.stage.evaluate())
        for sample in self.stage.samples():
            self.logs.samples.append({"step": self.record.step, **sample})
        return values

    def save_before_step(self, keep: int) -> None:
        self.stage.undo_step()
        if self.record.step:
            self.save(keep)

    def save(self, keep: int) -> None:
        # the logs reach the disk before the checkpoint that stands for them
        self.logs.sync()
        self.clock.read_into(self.record)
        state = self.stage.state()
        trainer = {"loop": self.record.to_json(), "stage": state.trainer}
        save_checkpoint(self.folder.checkpoints, self.record.step, StageState(state.params, state.optimizer, trainer))
        retain(self.folder.checkpoints, keep)
        self.folder.note(self.record.result())


def _restore(stage: Trainable, folder: StageFolder) -> tuple[Record, int]:
    """Gives the record to go on with and the step whose log lines stay, -1 for a fresh start."""
    restored = load_newest(folder.checkpoints)
    if restored is None:
        return Record(), -1
    record = Record.from_json(restored.state.trainer["loop"])
    state = restored.state
    stage.restore(StageState(state.params, state.optimizer, state.trainer["stage"]))
    get_logger("engine").info("%s goes on after step %d of %d", folder.name, record.step, stage.total_steps)
    return record, record.step


def _halt_if_stuck(record: Record, limit: int) -> None:
    if record.skipped_in_row > limit:
        raise RunHalted(
            f"step {record.step}: {record.skipped_in_row} steps in a row had a gradient that is not finite, more than "
            f"max_skipped_steps = {limit}. Lower optim.lr, or look at the data of these steps."
        )
