"""Safetensors files: header without torch, tensors one at a time by memory map."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from engine.core.errors import NotSafetensors, WrongNumbers
from engine.core.messages import message
from engine.core.serialization import parse_json
from engine.files.formats.file_map import MappedWeights, WeightsEntry, damaged, truncated

if TYPE_CHECKING:
    from torch import Tensor

_PREFIX = 8  # bytes of the header's length
_LARGEST_HEADER = 2**24  # bytes; the format allows 100 MB, models have 0.3
_MOST_AXES = 64  # torch's own limit

TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
_OTHER_KINDS = (
    (b"GGUF", "gguf"),
    (b"PK\x03\x04", "zip"),
    (b"\x80", "pickle"),
    (b"<", "web-page"),
    (b"version https://git-lfs", "git-lfs"),
)


class SafetensorsFile(MappedWeights[WeightsEntry]):
    """Tensors of a safetensors file by name; `metadata` is free text that is stored with them."""

    def __init__(self, path: Path) -> None:
        """Open and check a file.

        Raises:
            WeightsMissing, WeightsUnreadable: See `FileMap`.
            NotSafetensors: It is empty or of another kind.
            WeightsTruncated: It ends before its header or its last tensor does.
            WeightsDamaged: The header is no JSON, or tensors overlap, leave holes or have
                impossible sizes.
        """
        super().__init__(path, _read_header)

    def _view(self, found: Tensor, entry: WeightsEntry) -> Tensor:
        import torch

        kind = getattr(torch, TORCH_NAMES.get(entry.dtype, ""), None)
        if not isinstance(kind, torch.dtype):
            about = {"name": self.path.name, "path": self.path}
            raise WrongNumbers("safetensors", dtype=entry.dtype, **about)
        return found.view(kind).reshape(entry.shape)


Header = tuple[dict[str, WeightsEntry], dict[str, str]]  # tensors, metadata


def _read_header(file: BinaryIO, path: Path) -> Header:
    size = file.seek(0, 2)
    file.seek(0)
    length = _header_length(file.read(_PREFIX + 1), path)
    file.seek(_PREFIX)
    text = file.read(length)
    if len(text) < length:
        raise truncated(path, size, _PREFIX + length)
    try:
        header = parse_json(text)
        stated = header.pop("__metadata__", {})
        metadata = {str(name): str(value) for name, value in stated.items()}
        entries = {name: _entry(about, _PREFIX + length) for name, about in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise damaged(path) from err
    _check_offsets(entries, _PREFIX + length, size, path)
    return entries, metadata


def _header_length(start: bytes, path: Path) -> int:
    if not start:
        raise NotSafetensors("empty", name=path.name, path=path)
    length = struct.unpack("<Q", start[:_PREFIX])[0] if len(start) > _PREFIX else 0
    if 2 <= length <= _LARGEST_HEADER and start[_PREFIX:] == b"{":
        return int(length)
    what = next((kind for magic, kind in _OTHER_KINDS if start.startswith(magic[:9])), "")
    if not what:
        raise NotSafetensors("other", name=path.name, path=path)
    raise NotSafetensors("kind", name=path.name, kind=message(f"file-kind.{what}"), path=path)


def _entry(about: dict[str, Any], data: int) -> WeightsEntry:
    begin, end = about["data_offsets"]
    shape = tuple(about["shape"])
    if len(shape) > _MOST_AXES:
        raise ValueError("too many axes")
    if not all(type(side) is int and side >= 0 for side in (*shape, begin, end)):
        raise ValueError("sizes and offsets must be whole numbers")
    dtype = str(about["dtype"])
    return WeightsEntry(dtype=dtype, shape=shape, begin=data + begin, end=data + end)


def _check_offsets(entries: dict[str, WeightsEntry], data: int, size: int, path: Path) -> None:
    """Tensors must follow one another without holes and fill the file to its end."""
    place = data
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
        item = ITEM_BYTES.get(entry.dtype)
        length = entry.end - entry.begin
        if entry.begin != place or length < 0:
            raise damaged(path)
        if item is not None and length != item * math.prod(entry.shape):
            raise damaged(path)
        place = entry.end
    if size < place:
        raise truncated(path, size, place)
    if size > place:
        raise damaged(path)
