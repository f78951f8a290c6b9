"""The loop's demands are met by the stage the other tests use."""

from __future__ import annotations

import inspect

from llmstack.engine.protocol import StepReport, Trainable
from tests.unit.engine.fake_stage import FakeStage


def test_fake_stage_has_every_member_with_the_same_parameters():
    for name, member in vars(Trainable).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            assert (
                inspect.signature(getattr(FakeStage, name)).parameters.keys()
                == inspect.signature(member).parameters.keys()
            )
    assert isinstance(FakeStage().total_steps, int)


def test_report_defaults():
    report = StepReport({"train/loss": 1.0}, tokens=3)
    assert report.gauges == {} and report.skipped is False
