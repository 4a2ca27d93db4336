"""GGUF files: names, formats, shapes and offsets of tensors without torch.

Read without the package `gguf`, because users need to know what is wrong with a file; sizes are
checked against the file's length. The format is described in ggml's `docs/gguf.md`.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from engine.core.errors import NotGguf, WrongNumbers
from engine.files.formats.file_map import MappedWeights, WeightsEntry, damaged, truncated

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MAGIC = b"GGUF"
PREFIX = "model.diffusion_model."  # some tools prepend it to the names of a transformer
_SHAPES = "comfy.gguf.orig_shape."  # metadata: the shape of a tensor whose rows were split again
_VERSIONS = (2, 3)
_ALIGNMENT = 32  # bytes, unless the metadata has another
_MOST_AXES = 5  # ggml has 4; tools for ComfyUI add convolutions of video models as they are
_LONGEST_LIST = 64  # items that are kept; nothing that is needed is longer
_LARGEST_HEADER = 2**26  # bytes; those of transformers have 0.1 MB, with a vocabulary 10 MB
_MOST_READS = 2_000_000  # pieces of it: some seconds

_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_TEXT, _LIST = 8, 9

Value = int | float | str | tuple[int | float | str, ...]


@dataclass(frozen=True, slots=True)
class GgufFormat:
    """One storage format: `values` values take `bytes` bytes."""

    name: str
    values: int
    bytes: int


FORMATS = {
    0: GgufFormat("F32", 1, 4), 1: GgufFormat("F16", 1, 2), 30: GgufFormat("BF16", 1, 2),
    28: GgufFormat("F64", 1, 8), 24: GgufFormat("I8", 1, 1), 25: GgufFormat("I16", 1, 2),
    26: GgufFormat("I32", 1, 4), 27: GgufFormat("I64", 1, 8),
    2: GgufFormat("Q4_0", 32, 18), 3: GgufFormat("Q4_1", 32, 20),
    6: GgufFormat("Q5_0", 32, 22), 7: GgufFormat("Q5_1", 32, 24), 8: GgufFormat("Q8_0", 32, 34),
    11: GgufFormat("Q3_K", 256, 110), 12: GgufFormat("Q4_K", 256, 144),
    13: GgufFormat("Q5_K", 256, 176), 14: GgufFormat("Q6_K", 256, 210),
}  # fmt: skip
_OTHERS = {
    9: "Q8_1", 10: "Q2_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufEntry(WeightsEntry):
    """One tensor in a file; `shape` is that of the model's tensor."""

    format: GgufFormat
    row: int  # values of one stored row; may differ from the last side of `shape`


@dataclass(frozen=True, slots=True)
class _TensorInfo:
    """One tensor as listed in the header: sides innermost first, offset from the end of it."""

    name: str
    sides: tuple[int, ...]
    kind: int
    offset: int


def _read_header(file: BinaryIO, path: Path) -> tuple[dict[str, GgufEntry], dict[str, str]]:
    """Tensors by name, and metadata, of an open file; `path` is for messages only.

    Raises:
        NotGguf: The file is of another kind, version or byte order.
        WeightsTruncated: The file ends before its header or its last tensor does.
        WeightsDamaged: The header contradicts itself, or tensors overlap.
        WrongNumbers: A tensor has a format that we cannot read.
    """
    reader = _Reader(file, path)
    _check_version(reader.take(4), reader.take(4), path)
    try:
        tensors, count = reader.number("Q"), reader.number("Q")
        metadata = dict(reader.pair() for _ in range(count))
        listed = [reader.tensor() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError("no alignment")
        data = -(-file.tell() // alignment) * alignment
        entries = _entries(listed, metadata, data, path)
    except (ValueError, KeyError, TypeError, struct.error, OverflowError) as err:
        raise damaged(path) from err
    _check_offsets(entries, reader.size, path)
    return entries, {key: str(value) for key, value in metadata.items()}


class _Reader:
    """Reads one value after the other and refuses a file that ends too early."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._reads = 0
        self.size = file.seek(0, 2)
        file.seek(0)

    def take(self, count: int) -> bytes:
        self._need(count)
        return self._file.read(count)

    def _skip(self, count: int) -> None:
        self._need(count)
        self._file.seek(count, 1)

    def _need(self, count: int) -> None:
        self._check(count, pieces=1)
        self._reads += 1

    def _check(self, count: int, *, pieces: int) -> None:
        """Refuse a part of `count` bytes or more before it is read, if it cannot be whole."""
        place = self._file.tell()
        if count > self.size - place:
            raise truncated(self._path, self.size, place + count)
        if place + count > _LARGEST_HEADER or self._reads + pieces > _MOST_READS:
            raise ValueError("a header beyond what it can need")

    def number(self, code: str) -> int:
        return int(struct.unpack("<" + code, self.take(struct.calcsize(code)))[0])

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8")

    def pair(self) -> tuple[str, Value]:
        name = self.text()
        return name, self._value(self.number("I"))

    def _value(self, kind: int) -> Value:
        if kind == _TEXT:
            return self.text()
        if kind == _LIST:
            return self._list()
        code = "<" + _SCALARS[kind]
        found: int | float = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return found

    def _list(self) -> Value:
        kind, count = self.number("I"), self.number("Q")
        kept = min(count, _LONGEST_LIST)
        if kind == _TEXT:
            self._check(8 * count, pieces=2 * count)  # the length of each, and each
            texts = tuple(self.text() for _ in range(kept))
            for _ in range(count - kept):
                self._skip(self.number("Q"))
            return texts
        size = struct.calcsize(_SCALARS[kind])  # lists of lists do not occur: a KeyError
        values = struct.unpack(f"<{kept}{_SCALARS[kind]}", self.take(kept * size))
        self._skip((count - kept) * size)
        return values

    def tensor(self) -> _TensorInfo:
        name, axes = self.text(), self.number("I")
        if not name or axes > _MOST_AXES:
            raise ValueError("no tensor")
        sides = tuple(self.number("Q") for _ in range(axes))
        return _TensorInfo(name, sides, self.number("I"), self.number("Q"))


def _check_version(magic: bytes, found: bytes, path: Path) -> None:
    little, big = int.from_bytes(found, "little"), int.from_bytes(found, "big")
    if magic != MAGIC:
        raise NotGguf("magic", name=path.name, path=path)
    if big in _VERSIONS:
        raise NotGguf("byte-order", name=path.name, path=path)
    if little not in _VERSIONS:
        raise NotGguf("version", name=path.name, version=little, path=path)


def _entries(
    listed: list[_TensorInfo], metadata: dict[str, Value], data: int, path: Path
) -> dict[str, GgufEntry]:
    unknown = [one for one in listed if one.kind not in FORMATS]
    if unknown:
        raise _unknown(unknown, path)
    result: dict[str, GgufEntry] = {}
    for one in listed:
        name = one.name.removeprefix(PREFIX)
        if name in result:
            raise ValueError("a name occurs twice")
        cut = metadata.get(_SHAPES + one.name, metadata.get(_SHAPES + name))
        result[name] = _entry(one, cut, data)
    return result


def _entry(one: _TensorInfo, cut: Value | None, data: int) -> GgufEntry:
    kind = FORMATS[one.kind]
    row = one.sides[0] if one.sides else 1
    count = math.prod(one.sides)
    shape = one.sides[::-1] if cut is None else _shape(cut)
    if row % kind.values or math.prod(shape) != count or not count:
        raise ValueError("an impossible shape")
    begin = data + one.offset
    end = begin + count // kind.values * kind.bytes
    return GgufEntry(dtype=kind.name, format=kind, shape=shape, row=row, begin=begin, end=end)


def _shape(cut: Value) -> tuple[int, ...]:
    if not isinstance(cut, tuple) or not all(type(side) is int and side >= 0 for side in cut):
        raise ValueError("no shape")
    return tuple(int(side) for side in cut)


def _check_offsets(entries: dict[str, GgufEntry], size: int, path: Path) -> None:
    """Tensors must not overlap and must end in the file; there may be gaps between them."""
    place = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin < place:
            raise damaged(path)
        place = entry.end
    if size < place:
        raise truncated(path, size, place)


def _unknown(unknown: list[_TensorInfo], path: Path) -> WrongNumbers:
    kind = unknown[0].kind
    found = _OTHERS.get(kind, f"number {kind}")
    formats = tuple(one.name for one in FORMATS.values())
    return WrongNumbers("gguf", name=path.name, dtype=found, formats=formats, path=path)


_TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
}  # fmt: skip


class GgufFile(MappedWeights[GgufEntry]):
    """Tensors of a GGUF file by name, without `PREFIX`; `nbytes` are those of their blocks.

    Quantised blocks are returned as they are stored, uint8 [rows, bytes of a row], and take no
    dtype: `engine.ops.linear.gguf` dequantises them.
    """

    def __init__(self, path: Path) -> None:
        """Open and check a file.

        Raises:
            WeightsMissing, WeightsUnreadable: See `FileMap`.
            NotGguf, WeightsTruncated, WeightsDamaged, WrongNumbers: See `_read_header`.
        """
        super().__init__(path, _read_header)

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """A contiguous copy; raises ValueError, an internal error, for a `dtype` of blocks."""
        if dtype is not None and self.dtypes[name] not in _TORCH_NAMES:
            raise ValueError(f"{name} is in blocks of {self.dtypes[name]}, not in {dtype}")
        return super().tensor(name, device=device, dtype=dtype)

    def _view(self, found: Tensor, entry: GgufEntry) -> Tensor:
        import torch

        kind = _TORCH_NAMES.get(entry.dtype)
        if kind is None:
            return found.reshape(-1, entry.row // entry.format.values * entry.format.bytes)
        return found.view(getattr(torch, kind)).reshape(entry.shape)
