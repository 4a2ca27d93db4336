"""Scales of 8-bit weights under ComfyUI's names: fp8, mxfp8, int8 with rotated rows. No torch.

`LAYER.weight` comes with `LAYER.weight_scale` (older files: `scale_weight`), one value or one for
each row, that its values are multiplied by. The scale of the input (`input_scale`,
`scale_input`) is not used: products in fp8 measure their own. `LAYER.comfy_quant` is JSON in bytes;
for int8 it says whether groups of each row were multiplied by a Hadamard matrix before rounding.

In mxfp8 each 32 neighbours of a row have a power of two as their scale, whose exponent is one byte.
The bytes lie as tensor cores take them, in tiles of 128 rows and 4 blocks, filled up with zeros.

Source: ComfyUI, QUANTIZATION.md and `convert_old_quants`; comfy-kitchen, `TensorWiseINT8Layout`,
`TensorCoreMXFP8Layout`; NVIDIA, cuBLAS, "1D Block Scaling Factors Layout".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.errors import WrongNumbers
from engine.core.serialization import parse_json
from engine.files.formats.gguf_file import PREFIX
from engine.files.formats.open_weights import WeightsFile

# Tensors of such files that nothing is computed from, as regular expressions.
UNUSED = (r"\.(input_scale|scale_input)$", r"^scaled_fp8$", r"^(positive|negative)_conditioning$")

_FP8 = ("F8_E4M3", "F8_E5M2")
_EIGHT_BIT = (*_FP8, "I8")
FLOATS = ("F64", "F32", "F16", "BF16")
_SCALES = ("weight_scale", "scale_weight")
_MARKER = "comfy_quant"
_LAYERS = "_quantization_metadata"  # of the file: markers of all layers
_INT8, _MXFP8 = "int8_tensorwise", "mxfp8"
_EXPONENTS = ("U8", "F8_E8M0")
BLOCK = 32  # values of mxfp8 with one scale
_TILE = 128, 4  # rows and blocks
_NAMED = 4


@dataclass(frozen=True, slots=True)
class Scale:
    """Tensors that come with a weight, by name: its scale, and its marker ("" for none)."""

    name: str
    marker: str = ""


def scales_of(file: WeightsFile) -> dict[str, Scale]:
    """Scale of each 8-bit weight that has one, by the weight's name; reads the header only.

    Raises:
        WrongNumbers: Some 8-bit weights have no scale though others have, a scale is neither one
            value nor one for each row or each block of mxfp8, or weights are packed (NVFP4).
    """
    weights = [n for n, shape in file.shapes.items() if n.endswith(".weight") and len(shape) == 2]
    packed = [name for name in weights if file.dtypes[name] == "U8"]
    if packed:
        kind = "NVFP4" if f"{packed[0]}_scale_2" in file.shapes else "U8"
        raise _unreadable(file, kind)
    found = {name: scale for name in weights if (scale := _scale(file, name)) is not None}
    needed = _EIGHT_BIT if found or _is_marked(file) else ("I8",)
    missing = [name for name in weights if file.dtypes[name] in needed and name not in found]
    if missing:
        names, about = tuple(missing[:_NAMED]), {"name": file.path.name, "path": file.path}
        raise WrongNumbers("scale-missing", count=len(missing), names=names, **about)
    for name, scale in found.items():
        _check_shape(file, name, scale.name)
    return found


def rotated_group(file: WeightsFile, weight: str, scale: Scale) -> int:
    """Neighbouring values of a row that were rotated together; 0: none were.

    Raises:
        WrongNumbers: An int8 weight, or one with scales of blocks, does not say, or says something
            else than ComfyUI's layout.
    """
    if file.dtypes[weight] in _FP8 and not is_blocked(file, scale):
        return 0
    about = _marker(file, weight, scale)
    if is_blocked(file, scale) and about.get("format") == _MXFP8:
        return 0
    if about.get("format") != _INT8:
        raise _unreadable(file, str(about.get("format", "I8")))
    if not about.get("convrot"):
        return 0
    group = about.get("convrot_groupsize", 256)
    if group not in (4, 16, 64, 256, 1024) or file.shapes[weight][1] % group:
        raise _unreadable(file, f"{_INT8}, {group}")
    return int(group)


def is_blocked(file: WeightsFile, scale: Scale) -> bool:
    """True where a scale is a table of exponents, one for each `BLOCK` values."""
    return file.dtypes[scale.name] in _EXPONENTS


def companions(scales: Mapping[str, Scale]) -> set[str]:
    """Names of all scales and markers."""
    return {name for scale in scales.values() for name in (scale.name, scale.marker) if name}


def _scale(file: WeightsFile, weight: str) -> Scale | None:
    if file.dtypes[weight] not in _EIGHT_BIT:
        return None
    layer = weight.removesuffix("weight")
    name = next((layer + leaf for leaf in _SCALES if layer + leaf in file.shapes), "")
    marker = layer + _MARKER
    return Scale(name, marker if marker in file.shapes else "") if name else None


def _is_marked(file: WeightsFile) -> bool:
    """Whether a file says that its weights are scaled."""
    ends = ("scaled_fp8", f".{_MARKER}")
    return _LAYERS in file.metadata or any(name.endswith(ends) for name in file.shapes)


def _check_shape(file: WeightsFile, weight: str, scale: str) -> None:
    shape, kind, (rows, columns) = file.shapes[scale], file.dtypes[scale], file.shapes[weight]
    if kind in FLOATS and (math.prod(shape) == 1 or shape in ((rows,), (rows, 1))):
        return
    tiled = tuple(
        -(-side // tile) * tile for side, tile in zip((rows, columns // BLOCK), _TILE, strict=True)
    )
    is_mxfp8 = file.dtypes[weight] == "F8_E4M3" and columns % BLOCK == 0 and shape == tiled
    if kind in _EXPONENTS and is_mxfp8:
        return
    raise WrongNumbers(
        "scale-shape",
        name=file.path.name,
        path=file.path,
        tensor=weight,
        shape="x".join(map(str, shape)),
        dtype=kind,
        rows=rows,
    )


def _marker(file: WeightsFile, weight: str, scale: Scale) -> Mapping[str, object]:
    """Statement of a file about a layer; {} where it makes none that can be read."""
    layer = weight.removesuffix(".weight")
    try:
        if scale.marker:
            found = parse_json(bytes(file.raw(scale.marker).tolist()))
        else:
            layers = parse_json(file.metadata.get(_LAYERS, "{}")).get("layers", {})
            found = layers.get(layer, layers.get(layer.removeprefix(PREFIX)))
    except (ValueError, TypeError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def _unreadable(file: WeightsFile, dtype: str) -> WrongNumbers:
    return WrongNumbers("quantised", name=file.path.name, dtype=dtype, path=file.path)
