from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from mindspore import Tensor
from mindspore import dtype as mstype

from llmstack.integrations.mindformers.library import MindFormerRegister, mcore_mode
from llmstack.integrations.mindformers.run_files import COLUMNS, START, write_run
from llmstack.integrations.mindformers.trainer import (
    Batches,
    LlmstackConfig,
    LlmstackCpuTrainOneStepCell,
    LlmstackForCausalLM,
    LlmstackPackedRows,
    LlmstackRates,
)
from llmstack.integrations.mindformers.twin import stored_arrays
from llmstack.integrations.mindformers.weights import to_mindformers
from llmstack.models.checkpoint_io import build_causal, save_model
from llmstack.models.weights import import_arrays
from tests.helpers.cells import run
from tests.reference.cross_entropy import cross_entropy
from tests.tolerances import F32_RTOL, OTHER_NETWORK_ATOL
from tests.unit.integrations.mindformers.test_run_files import SIZES, handed_over


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run")
    save_model(build_causal(SIZES, seed=1), path / START)
    write_run(handed_over(), path)
    return path


def test_batches_are_the_rows_of_each_step(folder):
    batches, given = Batches(folder), handed_over()
    assert len(batches) == 3
    for step, ids in enumerate(given.steps):
        for name, array in zip(COLUMNS, batches[step], strict=True):
            np.testing.assert_array_equal(array, given.columns[name][ids])


def test_the_data_set_serves_them_in_order(folder):
    served = list(LlmstackPackedRows(dataset_config=SimpleNamespace(folder=str(folder))).create_tuple_iterator())
    assert len(served) == 3
    for step, columns in enumerate(served):
        for column, array in zip(columns, Batches(folder)[step], strict=True):
            np.testing.assert_array_equal(column.asnumpy(), array)


def test_each_step_has_its_rate_and_the_last_stays(folder):
    rates = LlmstackRates(learning_rate=0.2, folder=str(folder), total_steps=3)
    for step, share in enumerate((0.5, 1.0, 0.25, 0.25)):
        assert float(rates(Tensor(step, mstype.int32)).asnumpy()) == pytest.approx(0.2 * share, rel=F32_RTOL)


def test_the_trainer_finds_everything_by_name():
    with mcore_mode():
        for module_type, name in (
            ("config", "llmstack"),
            ("models", "LlmstackForCausalLM"),
            ("dataset", "LlmstackPackedRows"),
            ("lr", "LlmstackRates"),
            ("wrapper", "LlmstackCpuTrainOneStepCell"),
        ):
            assert MindFormerRegister.is_exist(module_type, name), name


def test_the_loss_is_the_sum_and_the_count_apart():
    ours = build_causal(SIZES, seed=1)
    with mcore_mode():
        theirs = LlmstackForCausalLM(LlmstackConfig(sizes=SIZES.model_dump(mode="json")))
    import_arrays(
        theirs, {f"model.{n}": a for n, a in to_mindformers(stored_arrays(ours), SIZES).items()}, source="test"
    )
    assert all(not parameter.name.startswith("model.") for parameter in theirs.trainable_params())
    columns = [handed_over().columns[name] for name in COLUMNS]
    total, count, *others = run(theirs, *columns)
    logits = run(ours, *columns[:3]).reshape(-1, SIZES.vocab_size)
    wanted, number = cross_entropy(logits, columns[3].reshape(-1), columns[4].reshape(-1))
    np.testing.assert_allclose(total / count, wanted / number, atol=OTHER_NETWORK_ATOL)
    np.testing.assert_allclose(count, number)
    np.testing.assert_array_equal(np.concatenate(others), [0.0, 1.0, 0.0, 0.0])
    assert theirs.get_gpt_transformer_config().calculate_per_token_loss


def test_a_cpu_has_no_overflow_to_read():
    step = LlmstackCpuTrainOneStepCell
    assert step.start_overflow_check(None, "loss", "scale") == ("loss", "scale")
    assert step.get_overflow_status(None, "status", "gradients") is False
