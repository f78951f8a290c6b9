"""What a plan has to know of a device and of the wires between devices."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from llmstack.config.base import Strict
from llmstack.config.paths import configs_folder
from llmstack.errors import UserError
from llmstack.registry import did_you_mean

_GROUP = "hardware"


class HardwareConfig(Strict):
    """One kind of device; a device is what has a rank of its own."""

    name: str
    """What it is called in plans."""
    half_tflops: float = Field(gt=0)
    """Peak of a bfloat16 or float16 matmul, in 10^12 FLOP/s."""
    float_tflops: float = Field(gt=0)
    """Peak of a float32 matmul, in 10^12 FLOP/s."""
    efficiency: float = Field(gt=0, le=1)
    """Share of the peak that the matmuls of a layer reach."""
    memory_gb: float = Field(gt=0)
    """Memory, in 10^9 bytes."""
    reserved_gb: float = Field(ge=0)
    """Of it, what driver, compiled graphs and buffers of collectives take, in 10^9 bytes."""
    memory_gbps: float = Field(gt=0)
    """Bandwidth of the memory, in 10^9 bytes a second."""
    host_devices: int = Field(gt=0)
    """Devices of one host: what one msrun starts."""
    fast_devices: int = Field(gt=0)
    """Devices that are joined by the fast link; 1: there is none."""
    fast_gbps: float = Field(gt=0)
    """What a device can send over the fast link, in 10^9 bytes a second."""
    network_gbps: float = Field(gt=0)
    """What a device can send beyond it, in 10^9 bytes a second."""

    @property
    def usable_bytes(self) -> float:
        """Memory that a run may fill."""
        return (self.memory_gb - self.reserved_gb) * 1e9

    def peak_flops(self, dtype: str) -> float:
        """FLOP/s of a matmul at best.

        Args:
            dtype: what it computes in.
        """
        return (self.float_tflops if dtype == "float32" else self.half_tflops) * 1e12


def read_hardware(name: str, folder: Path) -> HardwareConfig:
    """Reads an option of the group ``hardware``.

    Args:
        name: the option.
        folder: where the user's own group may be, i.e. the recipe's folder; it goes before the shipped one.

    Raises:
        UserError: there is no such option, or it is not well-formed.
    """
    roots = [folder / _GROUP, configs_folder() / _GROUP]
    known = sorted({path.stem for root in roots for path in root.glob("*.yaml")})
    path = next((root / f"{name}.yaml" for root in roots if name in known and (root / f"{name}.yaml").is_file()), None)
    if path is None:
        fix = (
            did_you_mean(name, known) or f"Choose one, or write {roots[0] / name}.yaml like those in configs/hardware."
        )
        raise UserError(f"--hardware: expected one of {', '.join(known)}, got {name!r}. {fix}")
    try:
        return HardwareConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        found = error.errors() if isinstance(error, ValidationError) else []
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found) or str(error)
        raise UserError(f"{path}: expected the figures of a device, got {wrong}. Correct the file.") from error
