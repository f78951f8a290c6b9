from __future__ import annotations

import pytest

from llmstack.config.load import load_recipe
from llmstack.parallel.plan.flops import flops_per_token
from llmstack.parallel.plan.utilisation import Utilisation, utilisation_of
from llmstack.parallel.plan.work import work_of
from tests.helpers.plans import published
from tests.tolerances import F64_RTOL


def test_pretraining_is_measured_by_what_a_token_costs():
    model = published("Llama-2-7b")
    stage = load_recipe("cluster_7b_8").config.stages["base"]
    meter = Utilisation(work_of("base", stage, lambda source: model), num_devices=8, peak_flops=313e12)
    cost = flops_per_token(model, 4096)
    found = meter(20000.0)
    assert found["mfu"] == pytest.approx(20000.0 * cost.total / 8 / 313e12, rel=F64_RTOL)
    assert found["mfu_without_attention"] == pytest.approx(20000.0 * cost.matmul / 8 / 313e12, rel=F64_RTOL)
    assert meter(0.0) == {"mfu": 0.0, "mfu_without_attention": 0.0}


def test_a_plan_and_a_run_at_its_speed_agree():
    from llmstack.parallel.plan.plan import make_plan

    config = load_recipe("cluster_7b_8").config
    plan = make_plan(config, ["r"], None, config.hardware, only="policy")
    (stage,) = plan.stages
    meter = utilisation_of(config, "policy")
    assert meter is not None
    assert meter(stage.work.tokens / stage.time.total)["mfu"] == pytest.approx(stage.time.mfu, rel=F64_RTOL)


def test_nothing_is_measured_where_nobody_knows_the_peak():
    assert utilisation_of(load_recipe("quickstart").config, "base") is None
    on_cpu = load_recipe("cluster_0_5b_1", ["parallel.device=cpu", "parallel.compute_dtype=float32"]).config
    assert on_cpu.hardware is not None and utilisation_of(on_cpu, "base") is None
