"""The head of a safetensors file: names, formats, shapes and places of its tensors. No torch.

We read it ourselves because the user is to hear what is wrong with a file: cut off, of another
kind, or damaged.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine.core.errors import NotSafetensors, WeightsDamaged
from engine.model_files.formats.file_map import AGAIN, truncated

_PREFIX = 8  # bytes of the head's length
_LARGEST_HEAD = 100 * 1000 * 1000  # bytes, of the format's own definition

ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip

_OTHER_KINDS = (
    (b"GGUF", "a GGUF file"),
    (b"PK\x03\x04", "a zip archive or a PyTorch pickle (.pt, .pth)"),
    (b"\x80", "a pickle (.pt, .pth, .ckpt)"),
    (b"<", "a web page"),
    (b"version https://git-lfs", "a pointer of Git LFS"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One tensor in a file: `begin` and `end` are bytes from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a file says about itself."""

    entries: dict[str, Entry]
    metadata: dict[str, str]


def read_head(file: BinaryIO, path: Path) -> Head:
    """Read and check the head of an open file; `path` is for messages only.

    Raises:
        NotSafetensors: The file is empty or of another kind.
        WeightsTruncated: The file ends before its head or its last tensor does.
        WeightsDamaged: The head is no JSON, or tensors overlap, leave holes or have impossible
            sizes.
    """
    size = file.seek(0, 2)
    file.seek(0)
    length = _head_length(file.read(_PREFIX + 1), path)
    file.seek(_PREFIX)
    text = file.read(length)
    if len(text) < length:
        raise truncated(path, size, _PREFIX + length)
    try:
        head = _parse(json.loads(text), _PREFIX + length)
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise _damaged(path) from err
    _check_places(head, _PREFIX + length, size, path)
    return head


def _head_length(start: bytes, path: Path) -> int:
    if not start:
        raise NotSafetensors(f"{path.name} is empty.", hint=AGAIN, path=str(path))
    length = struct.unpack("<Q", start[:_PREFIX])[0] if len(start) > _PREFIX else 0
    if 2 <= length <= _LARGEST_HEAD and start[_PREFIX:] == b"{":
        return int(length)
    what = next((kind for magic, kind in _OTHER_KINDS if start.startswith(magic[:9])), "")
    raise NotSafetensors(
        f"{path.name} is {what}, not a safetensors file."
        if what
        else f"{path.name} is not a safetensors file.",
        hint="Choose the .safetensors file of the model, or download it again.",
        path=str(path),
        kind=what,
    )


def _parse(found: dict[str, Any], data: int) -> Head:
    metadata = {str(name): str(value) for name, value in found.pop("__metadata__", {}).items()}
    entries = {name: _entry(about, data) for name, about in found.items()}
    return Head(entries=entries, metadata=metadata)


def _entry(about: dict[str, Any], data: int) -> Entry:
    begin, end = about["data_offsets"]
    shape = tuple(about["shape"])
    if not all(type(side) is int and side >= 0 for side in (*shape, begin, end)):
        raise ValueError("no whole numbers")
    return Entry(dtype=str(about["dtype"]), shape=shape, begin=data + begin, end=data + end)


def _check_places(head: Head, data: int, size: int, path: Path) -> None:
    """Tensors must follow one another without holes and fill the file to its end."""
    place = data
    for entry in sorted(head.entries.values(), key=lambda entry: (entry.begin, entry.end)):
        item = ITEM_BYTES.get(entry.dtype)
        length = entry.end - entry.begin
        if entry.begin != place or length < 0:
            raise _damaged(path)
        if item is not None and length != item * math.prod(entry.shape):
            raise _damaged(path)
        place = entry.end
    if size < place:
        raise truncated(path, size, place)
    if size > place:
        raise _damaged(path)


def _damaged(path: Path) -> WeightsDamaged:
    return WeightsDamaged(
        f"{path.name} is damaged: its list of tensors does not fit what follows.",
        hint=AGAIN,
        path=str(path),
    )
