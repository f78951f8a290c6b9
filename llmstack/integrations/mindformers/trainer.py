"""What a run exported to MindFormers' own trainer needs of llmstack, entered in MindFormers' registry.

The trainer finds these classes by name in the exported ``run.yaml``: the network over packed rows with its loss, the
data set of exactly the batches our stage would have trained on, the learning rates of our schedules, and its training
step without the overflow checks that a CPU does not have.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.dataset import GeneratorDataset
from mindspore.nn.learning_rate_schedule import LearningRateSchedule

from llmstack.config.model import ModelConfig
from llmstack.integrations.mindformers.library import (
    MFTrainOneStepCell,
    MindFormerConfig,
    MindFormerModuleType,
    MindFormerRegister,
    PretrainedConfig,
    PreTrainedModel,
    Trainer,
    TrainModelMixin,
    build_context,
    log_to,
)
from llmstack.integrations.mindformers.models import rotary_angles
from llmstack.integrations.mindformers.network import Head, Trunk, build_gpt
from llmstack.integrations.mindformers.run_files import COLUMNS, ROWS_FILE
from llmstack.integrations.mindformers.twin import stored_shapes
from llmstack.models.checkpoint_io import build_causal
from llmstack.runtime import device


@MindFormerRegister.register(MindFormerModuleType.CONFIG, legacy=False, search_names="llmstack")
class LlmstackConfig(PretrainedConfig):
    """Our model configuration as MindFormers carries it: ``sizes`` holds the fields of :class:`ModelConfig`."""

    model_type = "llmstack"

    def __init__(self, sizes: dict[str, Any] | None = None, **others: Any) -> None:
        self.sizes = dict(sizes or {})
        super().__init__(**others)


@MindFormerRegister.register(MindFormerModuleType.MODELS, legacy=False)
class LlmstackForCausalLM(TrainModelMixin, PreTrainedModel):
    """MindFormers' network over packed rows, with what its trainer wants back.

    Args:
        config: with the model's sizes.
    """

    config_class = LlmstackConfig
    base_model_prefix = "llmstack"

    def __init__(self, config: LlmstackConfig) -> None:
        super().__init__(config, auto_prefix=False)
        sizes = ModelConfig.model_validate(config.sizes)
        # one layer of a model of ours says what all have, and where its heads turn
        sample = build_causal(sizes.model_copy(update={"num_hidden_layers": 1, "vocab_size": 1}), seed=None)
        self.model = build_gpt(sizes, list(stored_shapes(sample)))
        self.transformer_config = self.model.config
        self.trunk = Trunk(self.model, rotary_angles(sample), sizes.sliding_window)
        self.head = Head(self.model)
        self.hidden_size = sizes.hidden_size
        self.no_extra_loss = Tensor(np.zeros(1, np.float32))

    def construct(
        self, tokens_BT: Tensor, positions_BT: Tensor, segments_BT: Tensor, labels_BT: Tensor, loss_mask_BT: Tensor
    ) -> tuple[Tensor, ...]:
        """The loss as MindFormers' step takes it with ``calculate_per_token_loss``.

        Args:
            tokens_BT: (B, T) int32.
            positions_BT: (B, T) int32.
            segments_BT: (B, T) int32, 0 for padding.
            labels_BT: (B, T) int32, the token after each position.
            loss_mask_BT: (B, T) float32, weight of each position.

        Returns:
            Six (1,) float32: sum and count of the next-token loss, the same of further tokens (0 and 1), and two losses
            that this network does not have.
        """
        hidden_BTD = self.trunk(tokens_BT, positions_BT, segments_BT)
        logits_NV = self.head(ops.reshape(hidden_BTD, (-1, self.hidden_size)))
        labels_N, mask_N = ops.reshape(labels_BT, (-1,)), ops.reshape(loss_mask_BT, (-1,))
        total, count = self.model.loss(logits_NV, labels_N, mask_N)
        none = self.no_extra_loss
        return total, count, none, none + 1.0, none, none


@MindFormerRegister.register(MindFormerModuleType.DATASET)
class LlmstackPackedRows:
    """The batches of an exported run, in order."""

    def __new__(cls, dataset_config: Any, **others: Any) -> GeneratorDataset:
        """Makes the data set in place of an object of this class, as MindFormers' own do.

        Args:
            dataset_config: ``folder`` holds the rows.
            others: what the trainer gives to every data set.

        Returns:
            (B, T) columns in the order of ``COLUMNS``.
        """
        return GeneratorDataset(Batches(Path(dataset_config.folder)), column_names=list(COLUMNS), shuffle=False)


class Batches:
    """Rows of each optimizer step, read by number.

    Args:
        folder: of an exported run.
    """

    def __init__(self, folder: Path) -> None:
        with np.load(folder / ROWS_FILE) as stored:
            self._columns = [stored[name] for name in COLUMNS]
            self._steps = stored["steps"]

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, step: int) -> tuple[np.ndarray, ...]:
        """The arrays of one step.

        Args:
            step: from 0.
        """
        return tuple(column[self._steps[step]] for column in self._columns)


@MindFormerRegister.register(MindFormerModuleType.LR)
class LlmstackRates(LearningRateSchedule):
    """The learning rate of each step from a table.

    Args:
        learning_rate: the peak.
        folder: of the exported run, whose rows file holds each step's share of the peak.
        others: what the trainer gives to every schedule.
    """

    def __init__(self, learning_rate: float, folder: str, **others: Any) -> None:
        super().__init__()
        with np.load(Path(folder) / ROWS_FILE) as stored:
            shares = stored["shares"]
        self.table = Tensor((learning_rate * shares).astype(np.float32))
        self.last = len(shares) - 1
        self.warmup_lr_init = float(learning_rate * shares[0])

    def construct(self, global_step: Tensor) -> Tensor:
        """Look up.

        Args:
            global_step: int32, steps taken so far.

        Returns:
            float32 of its shape.
        """
        return ops.gather(self.table, ops.minimum(ops.cast(global_step, ms.int32), self.last), 0)


@MindFormerRegister.register(MindFormerModuleType.WRAPPER)
class LlmstackCpuTrainOneStepCell(MFTrainOneStepCell):
    """MindFormers' training step for float32 on a CPU: it has no overflow status to read, and no loss is scaled."""

    def start_overflow_check(self, pre_cond: Tensor, compute_input: Tensor) -> tuple[Tensor, Tensor]:
        """Starts nothing.

        Args:
            pre_cond: the loss.
            compute_input: the scale.
        """
        return pre_cond, compute_input

    def get_overflow_status(self, status: Tensor, compute_output: tuple[Tensor, ...]) -> bool:
        """Says that nothing overflowed.

        Args:
            status: from :meth:`start_overflow_check`.
            compute_output: the gradients.
        """
        return False


def train(run_file: str | Path) -> None:
    """Runs MindFormers' trainer on an exported run, in its folder.

    Args:
        run_file: the exported ``run.yaml``.
    """
    path = Path(run_file).absolute()
    os.chdir(path.parent)
    device.quiet_environment()
    log_to(sys.stdout)
    config = MindFormerConfig(str(path))
    build_context(config)
    Trainer(config).train()
