"""Random weights of a SeedVR2 transformer in place of its file: for the benchmark."""

from __future__ import annotations

import json
import zlib
from math import prod
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from engine.files.formats.safetensors_file import TORCH_NAMES
from engine.models.load import shapes_alone, shapes_of
from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear.formats import product_kinds, quantized_of

_SEED = 20261120
_INT8, _INT8_SPREAD = "I8", 30.0  # standard deviation of the integers
_SCALE = ".weight_scale"  # after the name of a layer
_LARGEST_BYTE = 0x2F  # scales of blocks are float16: of such bytes they are at most 0.12


class RandomFile:
    """A `WeightsFile` whose tensors are drawn when they are read, the same each time.

    Values keep the variance of what goes through the layers.

    Args:
        config: Configuration of the transformer.
        dtype: Type of the tensors: "bfloat16".
        stored: Format of the matrices in the blocks, as a file names it: "Q4_K"; "" for `dtype`.
        device: Draws the values, wherever they are needed: a GPU does in seconds what takes a
            CPU minutes.
    """

    path = Path("random.safetensors")

    def __init__(
        self, config: DitConfig, dtype: str = "float32", stored: str = "", device: str = "cpu"
    ) -> None:
        with shapes_alone():
            dit = SeedVr2Dit(config)
        kinds = product_kinds(dit, stored) if stored else {}
        wide = next(name for name, of_torch in TORCH_NAMES.items() if of_torch == dtype)
        self.shapes = shapes_of(dit)
        self.dtypes = {name: kinds.get(name.removesuffix(".weight"), wide) for name in self.shapes}
        self.metadata = {
            "config": json.dumps({"norm_eps": config.norm_eps, "window": list(config.window)})
        }
        if stored == _INT8:
            self._add_scales(tuple(kinds))
        self._device = device
        self._blocks = {
            f"{path}.weight": _shape_of_blocks(dit.get_submodule(path), kind)
            for path, kind in kinds.items()
            if kind in BLOCKS
        }
        self.nbytes = {
            name: prod(self._blocks.get(name, shape)) * self._kind(name).itemsize
            for name, shape in self.shapes.items()
        }

    def _add_scales(self, layers: tuple[str, ...]) -> None:
        """Tensor names of ComfyUI; int8 without scales is refused."""
        about = {path: {"format": "int8_tensorwise"} for path in layers}
        self.metadata["_quantization_metadata"] = json.dumps({"layers": about})
        self.shapes |= {path + _SCALE: (1,) for path in layers}
        self.dtypes |= {path + _SCALE: "F32" for path in layers}

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """One tensor on a device; blocks of GGUF formats are uint8."""
        where = torch.device(self._device)
        generator = torch.Generator(where).manual_seed(_SEED + zlib.crc32(name.encode()))
        if name in self._blocks:
            drawn = torch.empty(self._blocks[name], dtype=torch.uint8, device=where)
            return drawn.random_(_LARGEST_BYTE + 1, generator=generator).to(device)
        shape, kind = self.shapes[name], self._kind(name)
        drawn = torch.randn(shape, generator=generator, device=where)
        if name.endswith(_SCALE):
            drawn.fill_(_spread(self.shapes[name.removesuffix("_scale")]) / _INT8_SPREAD)
        elif kind == torch.int8:
            drawn.mul_(_INT8_SPREAD).round_().clamp_(-127, 127)
        else:
            drawn.mul_(_spread(shape)).add_(_middle(name, shape))
        return drawn.to(kind).to(device, dtype or kind)

    def raw(self, name: str) -> Tensor:
        """Copy in RAM, where it stays."""
        return self.tensor(name)

    def _kind(self, name: str) -> torch.dtype:
        """Type in which a tensor is read."""
        found: torch.dtype = getattr(torch, TORCH_NAMES.get(self.dtypes[name], "uint8"))
        return found

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _shape_of_blocks(linear: nn.Module, kind: str) -> torch.Size:
    assert isinstance(linear, nn.Linear)
    return quantized_of(linear, kind).weight.shape


def _spread(shape: tuple[int, ...]) -> float:
    return float(shape[-1] ** -0.5) if len(shape) > 1 else 0.3


def _middle(name: str, shape: tuple[int, ...]) -> float:
    is_scale = len(shape) == 1 and ("norm" in name or name.endswith("scale"))
    return 1.0 if is_scale else 0.0
