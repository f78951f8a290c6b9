"""How far a stage has come, for a person to read."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from tqdm import tqdm
from typing_extensions import Self

from llmstack.runtime.logging import get_logger


class Progress:
    """A bar with a few metrics, speed and the time left; on anything but a terminal, a line now and then instead.

    Args:
        label: the stage's name.
        total: steps of the stage.
        done: steps finished already.
        every_seconds: least time between two lines where there is no terminal.
    """

    def __init__(self, label: str, total: int, done: int, *, every_seconds: float = 30.0) -> None:
        self.label, self.total = label, total
        self._every_seconds = every_seconds
        self._first_step, self._started, self._spoken = done, time.monotonic(), time.monotonic()
        self._bar: tqdm | None = None
        if sys.stderr.isatty():
            self._bar = tqdm(total=total, initial=done, desc=label, unit="step", dynamic_ncols=True, leave=True)

    def update(self, step: int, *, shown: Mapping[str, float | None], tokens_per_second: float) -> None:
        """Shows a finished step.

        Args:
            step: steps finished.
            shown: name -> recent value of the metrics to show, None where there is no finite one.
            tokens_per_second: recent speed.
        """
        metrics = "".join(f"{name} {'-' if value is None else f'{value:.4f}'}, " for name, value in shown.items())
        if self._bar is not None:
            self._bar.set_postfix_str(f"{metrics}{tokens_per_second:,.0f} tokens/s", refresh=False)
            self._bar.update(step - self._bar.n)
            return
        now = time.monotonic()
        if now - self._spoken < self._every_seconds and step < self.total:
            return
        self._spoken = now
        left = (now - self._started) / max(1, step - self._first_step) * (self.total - step)
        get_logger("engine").info(
            "%s %d/%d: %s%s tokens/s, %s left",
            self.label, step, self.total, metrics, f"{tokens_per_second:,.0f}", tqdm.format_interval(left),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
