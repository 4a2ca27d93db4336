"""Conversion of the published transformer to 16 bits: once, tensor by tensor, resumable.

The published file has 20 GB in float32, of which 13 % only serve to compute constants. The
converted one has what the fast variant keeps, under the names of its tensors: 8.1 GB where the
prompt has two rows that differ, 9.1 GB where all 512 do. It is complete when it has its name;
before, its part file begins with the same list of tensors, so that an interrupted conversion
continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from engine.core import atomic_file
from engine.core.errors import WeightsBusy
from engine.files.artifacts import ArtifactFolder, ArtifactKind
from engine.files.formats.keymap import KeyMap
from engine.files.formats.safetensors_file import ITEM_BYTES
from engine.files.transfer import Listener
from engine.models.load import FileWeights, shapes_alone
from engine.models.swiftvr.dit.config import SwiftDitConfig
from engine.models.swiftvr.dit.fast import FastSwiftDit
from engine.models.swiftvr.dit.fold import distinct_rows, folded
from engine.models.swiftvr.load import opened_for_folding
from engine.ops.precision import exact_arithmetic, no_gradients

CONVERSIONS = ArtifactKind(
    reserve_bytes=64 * 10**6,
    busy=lambda name: WeightsBusy(file=name),
    disk_full="conversion",
    unwritable="models",
    filled="while-converting",
)
_DTYPES = {torch.bfloat16: "BF16", torch.float16: "F16"}
_EXACT = "F32"  # of buffers, which stay as they were computed
_ALIGNED = 8  # bytes that the list of tensors is filled up to

Make = Callable[[], Tensor]


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor of the result: its name, type and shape, and its bytes in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def convert(
    source: Path,
    prompt: Path,
    folder: Path,
    name: str,
    listener: Listener | None = None,
    *,
    config: Path | None = None,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> Path:
    """Write a converted file, or finish one that was begun; an existing one is kept.

    Args:
        source: Published file of the transformer.
        prompt: File of its prompt.
        folder: Folder of the result.
        name: Name of the result there.
        listener: Receiver of the bytes written so far; it can cancel between two tensors.
        config: See `load_swift_dit`.
        dtype: bfloat16 or float16.
        device: Device that computes constants.

    Returns:
        The converted file, which `load_swift_dit` reads without a prompt.

    Raises:
        WeightsBusy: Another process is converting it.
        DiskFull: There is not enough space, as far as is known before; or no more of it.
        OutputUnwritable: The folder cannot be written.
        WeightsError: See `load_swift_dit`.
        Cancelled: The listener was; what is written is kept.

    Memory: see `fold.folded`; never two blocks.
    """
    listener, store = listener or Listener(), ArtifactFolder(folder, CONVERSIONS)
    target = store.target(name)
    with store.held(name):
        if target.is_file():
            return target
        exact = torch.device(device)
        with opened_for_folding(source, prompt, config) as (file, sizes, text):
            rows = text.to(exact, torch.float32)
            tensors = list(folded(sizes, FileWeights(file, KeyMap(), device=exact), rows))
            digest = hashlib.sha256(text.float().numpy().tobytes()).hexdigest()
            origin = f"{source.stat().st_size} bytes, prompt {digest}"
            head, places = _laid_out(sizes, [made for made, _ in tensors], rows, dtype, origin)
            with store.writing(), no_gradients(), exact_arithmetic():
                part = store.part(name)
                done = _done(part, head, places)
                store.need(places[-1].end - done)
                with part.open("r+b" if done else "wb") as out:
                    _write(out, head, list(zip(places, tensors, strict=True)), done, listener)
        with store.writing():
            atomic_file.replace(part, target)
    return target


def _laid_out(
    config: SwiftDitConfig, names: Sequence[str], prompt: Tensor, dtype: torch.dtype, origin: str
) -> tuple[bytes, list[_Place]]:
    """The beginning of the file, with the list of its tensors, and their places."""
    with shapes_alone():
        dit = FastSwiftDit(config, len(distinct_rows(prompt)[0]))
    buffers, shapes = dict(dit.named_buffers()), dit.state_dict()
    places: list[_Place] = []
    end = 0
    for name in names:
        kind, shape = _EXACT if name in buffers else _DTYPES[dtype], tuple(shapes[name].shape)
        begin, end = end, end + prod(shape) * ITEM_BYTES[kind]
        places.append(_Place(name, kind, shape, begin, end))
    stated = {"config": json.dumps({**asdict(config), "window": list(config.window)})}
    header: dict[str, object] = {"__metadata__": {"format": "pt", "made_of": origin, **stated}}
    for one in places:
        about = {"dtype": one.dtype, "shape": one.shape, "data_offsets": (one.begin, one.end)}
        header[one.name] = about
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    head = struct.pack("<Q", len(text)) + text
    return head, [
        _Place(one.name, one.dtype, one.shape, len(head) + one.begin, len(head) + one.end)
        for one in places
    ]


def _marks(places: Sequence[_Place]) -> Iterator[int]:
    """Beginnings of blocks: all before one is on the disk once anything after it is written."""
    block = ""
    for one in places:
        found = ".".join(one.name.split(".")[:2]) if one.name.startswith("blocks.") else ""
        if found != block:
            block = found
            yield one.begin


def _done(part: Path, head: bytes, places: Sequence[_Place]) -> int:
    """Bytes of a part file that are right; 0: it is none of this conversion."""
    if not part.is_file():
        return 0
    with part.open("rb") as file:
        if file.read(len(head)) != head:
            return 0
    written = part.stat().st_size
    return max((mark for mark in (len(head), *_marks(places)) if mark < written), default=0)


def _write(
    out: BinaryIO,
    head: bytes,
    tensors: Sequence[tuple[_Place, tuple[str, Make]]],
    done: int,
    listener: Listener,
) -> None:
    """Write what is missing, and make sure of each block before the next one begins."""
    if not done:
        out.write(head)
        done = len(head)
    out.truncate(done)
    out.seek(done)
    marks, total = set(_marks([place for place, _ in tensors])), tensors[-1][0].end
    for place, (_, make) in tensors:
        if place.end <= done:
            continue
        listener.control.check()
        if place.begin in marks:
            _make_sure(out)
        kind = next((of for of, name in _DTYPES.items() if name == place.dtype), torch.float32)
        value = make().to("cpu", kind).contiguous()
        out.write(value.flatten().view(torch.uint8).numpy().data)
        listener.on_progress(place.end, total)
    _make_sure(out)


def _make_sure(out: BinaryIO) -> None:
    out.flush()
    os.fsync(out.fileno())
