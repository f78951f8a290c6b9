from __future__ import annotations

import pytest

from llmstack.config.hardware import read_hardware
from llmstack.config.paths import configs_folder
from llmstack.errors import UserError
from tests.helpers.plans import card
from tests.tolerances import F64_RTOL

SHIPPED = sorted(path.stem for path in (configs_folder() / "hardware").glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_device_has_sensible_figures(name, tmp_path):
    hardware = read_hardware(name, tmp_path)
    assert hardware.peak_flops("bfloat16") == hardware.peak_flops("float16") > hardware.peak_flops("float32")
    assert 0 < hardware.usable_bytes < hardware.memory_gb * 1e9
    assert hardware.fast_gbps > hardware.network_gbps
    assert hardware.fast_devices % hardware.host_devices == 0


def test_figures_have_the_units_of_their_names():
    hardware = card(half_tflops=2.0, memory_gb=64.0, reserved_gb=6.0)
    assert hardware.peak_flops("bfloat16") == pytest.approx(2e12, rel=F64_RTOL)
    assert hardware.usable_bytes == pytest.approx(58e9, rel=F64_RTOL)


def test_a_device_beside_the_recipe_is_found_first(tmp_path):
    (tmp_path / "hardware").mkdir()
    shipped = (configs_folder() / "hardware" / "ascend_910b.yaml").read_text(encoding="utf-8")
    for name in ("mine", "ascend_910b"):
        (tmp_path / "hardware" / f"{name}.yaml").write_text(shipped.replace("name: Ascend 910B", f"name: my {name}"))
        assert read_hardware(name, tmp_path).name == f"my {name}"


def test_an_unknown_device_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UserError, match=r"--hardware: expected one of ascend_910b, ascend_910c, got 'ascend_910'"):
        read_hardware("ascend_910", tmp_path)
    with pytest.raises(UserError, match=r"Choose one, or write .*hardware/gpu.yaml"):
        read_hardware("gpu", tmp_path)


def test_a_file_that_is_wrong_is_refused_with_its_keys(tmp_path):
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "mine.yaml").write_text("name: mine\nhalf_tflops: -1.0\n")
    with pytest.raises(UserError, match=r"mine.yaml: expected the figures of a device, got half_tflops: .*memory_gb"):
        read_hardware("mine", tmp_path)
