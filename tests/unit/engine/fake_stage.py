"""A stage in numpy with all the state a real one has: weights, momentum, a data cursor and a random stream."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from llmstack.engine.fingerprint import StageIdentity
from llmstack.engine.loop import Intervals, fit
from llmstack.engine.protocol import StageState, StepReport
from llmstack.engine.stage_folder import StageFolder

INTERVALS = Intervals(log=3, evaluate=5, save=4, keep_checkpoints=2, max_skipped_steps=2)


class FakeStage:
    """Least squares by gradient descent with momentum; steps in ``bad_steps`` have a gradient that is not finite."""

    def __init__(self, *, total_steps: int = 20, bad_steps: tuple[int, ...] = (), pause: float = 0.0, on_step=None):
        self.total_steps = total_steps
        self.weights, self.momentum = np.zeros(4, np.float32), np.zeros(4, np.float32)
        self.cursor = 0
        self.random = np.random.Generator(np.random.PCG64(7))
        self.bad_steps, self.pause, self.on_step = bad_steps, pause, on_step
        self.indices: list[int] = []

    def step(self, index):
        assert index == self.cursor + 1
        time.sleep(self.pause)
        if self.on_step:
            self.on_step(index)
        self.indices.append(index)
        self.cursor += 1
        inputs = self.random.normal(size=(8, 4)).astype(np.float32)
        error = inputs @ self.weights - inputs.sum(1)
        rows = {"data": [8 * index + place for place in range(2)]}
        if index in self.bad_steps:
            return StepReport({"train/loss": float("nan")}, 8, gauges={"train/lr": 0.05}, skipped=True, rows=rows)
        self.momentum = 0.5 * self.momentum + inputs.T @ error / 8
        self.weights = self.weights - 0.05 * self.momentum
        return StepReport({"train/loss": float((error**2).mean())}, 8, gauges={"train/lr": 0.05}, rows=rows)

    def undo_step(self):
        raise AssertionError("no step of this stage gives up")

    def evaluate(self):
        return {"eval/loss": float(((self.weights - 1) ** 2).sum())}

    def samples(self):
        return [{"text": f"at {self.cursor}"}]

    def state(self):
        return StageState(
            {"weights": self.weights},
            {"momentum": self.momentum},
            {"cursor": self.cursor, "random": self.random.bit_generator.state},
        )

    def restore(self, state):
        self.weights, self.momentum = state.params["weights"], state.optimizer["momentum"]
        self.cursor = state.trainer["cursor"]
        self.random.bit_generator.state = state.trainer["random"]

    def save_final(self, folder):
        np.save(folder / "weights.npy", self.weights)


def stage_folder(path: Path) -> StageFolder:
    return StageFolder(path, "fake", kind="fake", identity=StageIdentity({"seed": 7}, {}, {}))


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    fit(FakeStage(total_steps=int(sys.argv[2]), pause=float(sys.argv[3])), stage_folder(directory), INTERVALS)
