"""Model files in quantised formats: tiny ones, and full-size ones with random values."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.ops.kernels.block_formats import BLOCKS

Shape = tuple[int, ...]
Tensors = Mapping[str, Tensor | Shape]  # values, or the shape of random ones
Format = str | Callable[[str, Shape], str]  # of each tensor

_TORCH = {
    "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I8": torch.int8,
    "U8": torch.uint8,
}  # fmt: skip
_POOL = 1 << 22  # random numbers

# Spread of a block of random bits whose scale is one; its lowest over its scale, so that its mean
# is about zero; the byte of the scale.
_RANDOM_BLOCKS = {
    "Q3_K": (43.4, None, 108),
    "Q4_K": (258.0, 7.5, 0),
    "Q5_K": (527.0, 15.5, 0),
    "Q6_K": (1366.0, None, 208),
    "Q8_0": (73.9, None, 0),
}


def write_gguf(
    path: Path,
    tensors: Tensors,
    kind: Format = "Q4_K",
    *,
    prefix: str = "",
    cut_rows: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a GGUF file with the `gguf` package.

    Args:
        path: Of the file.
        tensors: Values count for Q8_0, F16, BF16 and F32. Blocks of K formats, which the package
            cannot quantise to, are always random, with finite scales.
        kind: Format of matrices; one function for mixed files. Vectors are F32, and matrices whose
            rows do not make whole blocks F16, as in published files.
        prefix: Put before every name.
        cut_rows: Cut such matrices into rows of 256 where possible, and record it in the metadata.
        metadata: More of it.
    """
    import gguf

    pool = _Pool()
    writer = gguf.GGUFWriter(path, "seedvr2")
    for name, text in (metadata or {}).items():
        writer.add_string(name, text)
    kinds: dict[str, tuple[str, Shape]] = {}
    for name, tensor in tensors.items():
        kinds[name] = _stored(name, _shape(tensor), kind, cut_rows)
        found, shape = kinds[name]
        if shape != _shape(tensor):
            writer.add_array(f"comfy.gguf.orig_shape.{prefix}{name}", list(_shape(tensor)))
        values, size = _sizes(found)
        rows = (*shape[:-1], shape[-1] // values * size)
        bytes_ = np.dtype(np.uint8)
        raw = gguf.GGMLQuantizationType[found]
        writer.add_tensor_info(prefix + name, rows, bytes_, math.prod(rows), raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, tensor in tensors.items():
        writer.write_tensor_data(_packed(name, tensor, kinds[name][0], pool))
    writer.close()


def write_safetensors(
    path: Path, tensors: Tensors, kind: Format = "F16", *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file: `kind` is the format of all tensors, or gives it for each."""
    pool = _Pool()
    head: dict[str, Any] = {"__metadata__": dict(metadata or {})}
    kinds, place = {}, 0
    for name, tensor in tensors.items():
        shape = _shape(tensor)
        kinds[name] = kind if isinstance(kind, str) else kind(name, shape)
        end = place + math.prod(shape) * _TORCH[kinds[name]].itemsize
        head[name] = {"dtype": kinds[name], "shape": shape, "data_offsets": (place, end)}
        place = end
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, tensor in tensors.items():
            file.write(_bytes(_values(name, tensor, pool).to(_TORCH[kinds[name]])))


def write_fp8(
    path: Path,
    tensors: Tensors,
    mixed: Callable[[str], bool] = lambda _: False,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file of plain e4m3 casts; names for which `mixed` is true are kept in fp16."""
    write_safetensors(
        path, tensors, lambda name, _: "F16" if mixed(name) else "F8_E4M3", metadata=metadata
    )


def q4_k_m(name: str, _: Shape) -> str:
    """A mixture as files of that name have it: Q6_K where it counts most, Q4_K else."""
    return "Q6_K" if ".mlp." in name and ".proj_out." in name else "Q4_K"


def dynamic(name: str, shape: Shape) -> str:
    """Formats as in "dynamic" files: another one for each kind of tensor and block."""
    if name.startswith("blocks.0.") or ".ada." in name or not name.startswith("blocks."):
        return "F16" if "mlp" in name else "F32"
    if ".mlp." in name:
        return "Q6_K" if ".proj_out." in name else "Q4_K"
    return "Q8_0" if ".proj_out." in name else "Q5_K"


SCALED = ("fp8", "fp8 rows", "mxfp8", "int8", "int8 rotated")


def scaled(tensors: Mapping[str, Tensor], kind: str, *, group: int = 256) -> dict[str, Tensor]:
    """Matrices of blocks in 8 bits with scales, as ComfyUI's programs write them, others in fp16.

    Args:
        tensors: Under the published names.
        kind: Out of SCALED; "fp8" has the older names and one scale for all.
        group: Neighbours in a row that are rotated together.
    """
    found: dict[str, Tensor] = {"scaled_fp8": torch.zeros(2).to(torch.float8_e4m3fn)}
    found = found if kind == "fp8" else {"positive_conditioning": torch.zeros(5, 24).bfloat16()}
    for name, value in tensors.items():
        layer = name.removesuffix(".weight")
        is_matrix = layer != name and value.ndim > 1 and name.startswith("blocks.")
        if not is_matrix or (kind == "mxfp8" and value.shape[1] % 32):
            found[name] = value.half()
            continue
        wide = value.double()
        if kind == "mxfp8":
            blocks = wide.view(len(wide), -1, 32)
            exponents = (blocks.abs().amax(2) / 448).log2().ceil().clamp(-127, 127)
            codes = blocks / 2.0 ** exponents[..., None]
            found[name] = codes.view(wide.shape).to(torch.float8_e4m3fn)
            found[f"{layer}.weight_scale"] = tiled((exponents + 127).to(torch.uint8))
            found[f"{layer}.comfy_quant"] = marker(kind)
            continue
        if "rotated" in kind:
            wide = (wide.view(-1, group) @ hadamard(group)).view(wide.shape)
        axes = (0, 1) if kind == "fp8" else 1
        dtype, most = (torch.int8, 127) if "int8" in kind else (torch.float8_e4m3fn, 448)
        scale = wide.abs().amax(axes, keepdim=True) / most
        whole = (wide / scale).round() if dtype == torch.int8 else wide / scale
        found[name] = whole.to(dtype)
        found[f"{layer}.{'scale_weight' if kind == 'fp8' else 'weight_scale'}"] = (
            scale.view(()) if kind == "fp8" else scale
        ).float()
        if kind == "fp8":
            found[f"{layer}.scale_input"] = torch.tensor(0.5)
        else:
            found[f"{layer}.comfy_quant"] = marker(kind, group)
    return found


def tiled(exponents: Tensor) -> Tensor:
    """Bytes [rows, blocks] of mxfp8 where tensor cores look for each, one after the other."""
    rows, blocks = exponents.shape
    down, across = -(-rows // 128), -(-blocks // 4)
    found = torch.zeros(down * across * 512, dtype=torch.uint8)
    for row in range(rows):
        for block in range(blocks):
            tile = row // 128 * across + block // 4
            inside = row % 32 * 16 + row % 128 // 32 * 4 + block % 4
            found[tile * 512 + inside] = exponents[row, block]
    return found.view(down * 128, across * 4)


def marker(kind: str, group: int = 256) -> Tensor:
    """JSON in bytes, that ComfyUI reads of a layer."""
    name = {"fp8": "float8_e4m3fn", "mxfp8": "mxfp8"}.get(kind.split()[0], "int8_tensorwise")
    about: dict[str, object] = {"format": name}
    if "rotated" in kind:
        about |= {"convrot": True, "convrot_groupsize": group}
    return torch.tensor(list(json.dumps(about).encode()), dtype=torch.uint8)


def hadamard(size: int) -> Tensor:
    """The regular one, [size, size] float64, over its norm."""
    rows = [[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]
    four = torch.tensor(rows, dtype=torch.float64) / 2
    return four if size == 4 else torch.kron(hadamard(size // 4), four)


def safetensors_hole(
    path: Path, kinds: Mapping[str, tuple[str, Shape]], values: Mapping[str, Tensor] | None = None
) -> None:
    """A header of tensors, dtype and shape of each, and a hole where only `values` are written."""
    head: dict[str, object] = {}
    place = 0
    for name, (kind, shape) in kinds.items():
        end = place + _TORCH[kind].itemsize * math.prod(shape)
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": (place, end)}
        place = end
    text = json.dumps(head).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + place)
        for name, value in (values or {}).items():
            about: Any = head[name]
            file.seek(8 + len(text) + about["data_offsets"][0])
            file.write(_bytes(value.to(_TORCH[about["dtype"]])))


def gguf_hole(path: Path, tensors: Mapping[str, Shape], kind: Callable[[str, Shape], str]) -> None:
    """The header of a GGUF file, and a hole."""
    import gguf

    writer = gguf.GGUFWriter(path, "seedvr2")
    size = 0
    for name, shape in tensors.items():
        found, shape = _stored(name, shape, kind, cut_rows=False)
        values, nbytes = _sizes(found)
        rows = (*shape[:-1], shape[-1] // values * nbytes)
        raw = gguf.GGMLQuantizationType[found]
        writer.add_tensor_info(name, rows, np.dtype(np.uint8), math.prod(rows), raw)
        size += -(-math.prod(rows) // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    begin = -(-path.stat().st_size // 32) * 32
    with path.open("r+b") as file:
        file.truncate(begin + size)


class _Pool:
    """Random numbers and bits, from a place that is another each time."""

    def __init__(self) -> None:
        self._numbers, self._bits = _random_pool()
        self._places = np.random.default_rng(1)

    def some(self, count: int, *, bits: bool = False) -> Tensor:
        pool = self._bits if bits else self._numbers
        begin = int(self._places.integers(0, _POOL))
        if begin + count <= _POOL:
            return pool[begin : begin + count].clone()
        times = -(-(begin + count) // _POOL)
        return torch.cat([pool[begin:], *[pool] * (times - 1)])[:count].clone()


@cache
def _random_pool() -> tuple[Tensor, Tensor]:
    """Numbers in float32 and bytes, which must not be changed."""
    generator = np.random.default_rng(20261120)
    numbers = torch.from_numpy(generator.standard_normal(_POOL, np.float32))
    return numbers, torch.from_numpy(generator.integers(0, 256, _POOL, np.uint8))


def _sizes(kind: str) -> tuple[int, int]:
    """Values and bytes of a block; the package is needed for GGUF files only."""
    import gguf

    found: tuple[int, int] = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return found


def _shape(tensor: Tensor | Shape) -> Shape:
    return tuple(tensor.shape) if isinstance(tensor, Tensor) else tensor


def _stored(name: str, shape: Shape, kind: Format, cut_rows: bool) -> tuple[str, Shape]:
    """Format and shape in a GGUF file."""
    found = kind if isinstance(kind, str) else kind(name, shape)
    values = _sizes(found)[0]
    if len(shape) < 2:
        return "F32", shape or (1,)
    if shape[-1] % values == 0:
        return found, shape
    if cut_rows and math.prod(shape) % 256 == 0:
        return found, (math.prod(shape) // 256, 256)
    return "F16", shape


def _values(name: str, tensor: Tensor | Shape, pool: _Pool) -> Tensor:
    """Values of a tensor; random ones keep the variance of activations."""
    if isinstance(tensor, Tensor):
        return tensor
    noise = pool.some(math.prod(tensor)).view(tensor)
    if len(tensor) > 1:
        return noise.mul_(tensor[-1] ** -0.5)
    return noise.mul_(0.3).add_(1.0 if "norm" in name or name.endswith("scale") else 0.0)


def _packed(name: str, tensor: Tensor | Shape, kind: str, pool: _Pool) -> np.ndarray[Any, Any]:
    if kind in _RANDOM_BLOCKS and not (kind == "Q8_0" and isinstance(tensor, Tensor)):
        return _random_blocks(_shape(tensor), kind, pool)
    import gguf

    values = _values(name, tensor, pool)
    if kind in _TORCH:
        return np.frombuffer(_bytes(values.to(_TORCH[kind])), np.uint8)
    flat = values.float().reshape(-1, _sizes(kind)[0])
    known = gguf.GGMLQuantizationType[kind]
    parts = [gguf.quantize(part.numpy(), known) for part in flat.split(2**16)]
    return np.concatenate(parts)


def _random_blocks(shape: Shape, kind: str, pool: _Pool) -> np.ndarray[Any, Any]:
    values, size = _sizes(kind)
    spread, lowest, place = _RANDOM_BLOCKS[kind]
    count = math.prod(shape) // values
    raw = pool.some(count * size, bits=True).view(count, size)
    scale = shape[-1] ** -0.5 / spread
    factors = [scale] if lowest is None else [scale, scale * lowest]
    written = torch.tensor(factors, dtype=torch.float16).view(torch.uint8)
    raw[:, place : place + len(written)] = written
    return raw.numpy()


def _bytes(tensor: Tensor) -> memoryview:
    return memoryview(tensor.contiguous().flatten().view(torch.uint8).numpy())


# Offsets of float16 scales; of other formats they are 0 and 2.
SCALES = {"Q3_K": (108,), "Q6_K": (208,), "Q8_0": (0,), "Q4_0": (0,), "Q5_0": (0,)}


def random_blocks(kind: str, count: int, seed: int = 1) -> Tensor:
    """Any bits at all, with finite scales of either sign."""
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 256, (count, BLOCKS[kind].bytes), generator=generator)
    raw = raw.to(torch.uint8)
    for place in SCALES.get(kind, (0, 2)):
        scales = torch.randn(count, 1, generator=generator).half()
        raw[:, place : place + 2] = scales.view(torch.uint8)
    return raw
