"""Conversion of the published transformer to 16 or 8 bits: once, tensor by tensor, resumable.

The published file has 20 GB in float32, of which 13 % only serve to compute constants. The
converted one has what the fast variant keeps, under the names of its tensors: 8.1 GB in 16 bits
where the prompt has two rows that differ, 9.1 GB where all 512 do, half of it in 8 bits. Then the
matrices of the blocks are rounded as for products of that format (`engine.ops.linear`), each with
its scale. It is complete when it has its name; before, its part file begins with the same list of
tensors, so that an interrupted conversion continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO, Literal, get_args

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
from engine.ops.linear.formats import product_kinds, swap_linears
from engine.ops.linear.quantized_linear import ProductLinear
from engine.ops.precision import exact_arithmetic, no_gradients

CONVERSIONS = ArtifactKind(
    reserve_bytes=64 * 10**6,
    busy=lambda name: WeightsBusy(file=name),
    disk_full="conversion",
    unwritable="models",
    filled="while-converting",
)
Format = Literal["bf16", "fp16", "int8", "fp8"]
FORMATS: tuple[Format, ...] = get_args(Format)
_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16}
_WIDE: dict[Format, str] = {"fp16": "F16"}  # of what is not rounded to 8 bits: else BF16
_NARROW: dict[Format, str] = {"int8": "I8", "fp8": "F8_E4M3"}
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
    kind: Format = "bf16",
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
        kind: Format of the matrices.
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
            weights = FileWeights(file, KeyMap(), device=exact)
            dit = _meta(sizes, rows, kind)
            tensors = [*_stored(dit, folded(sizes, weights, rows))]
            digest = hashlib.sha256(text.float().numpy().tobytes()).hexdigest()
            origin = f"{source.stat().st_size} bytes, prompt {digest}"
            head, places = _laid_out(dit, [made for made, _ in tensors], kind, origin)
            with store.writing(), no_gradients(), exact_arithmetic():
                part = store.part(name)
                done = _done(part, head, places)
                store.need(places[-1].end - done)
                with part.open("r+b" if done else "wb") as out:
                    _write(out, head, list(zip(places, tensors, strict=True)), done, listener)
        with store.writing():
            atomic_file.replace(part, target)
    return target


def _meta(config: SwiftDitConfig, prompt: Tensor, kind: Format) -> FastSwiftDit:
    """The fast variant without values, with the layers that have the tensors of the result."""
    with shapes_alone():
        dit = FastSwiftDit(config, len(distinct_rows(prompt)[0]))
    if kind in _NARROW:
        swap_linears(dit, product_kinds(dit, kind))
    return dit


def _stored(dit: FastSwiftDit, tensors: Iterable[tuple[str, Make]]) -> Iterator[tuple[str, Make]]:
    """Tensors as they are stored: those of narrow layers rounded, the scale after the values."""
    for name, make in tensors:
        path, _, leaf = name.rpartition(".")
        layer = dit.get_submodule(path)
        if leaf != "weight" or not isinstance(layer, ProductLinear):
            yield name, make
            continue
        rounded = _Rounded(layer, make)
        yield name, rounded.values
        yield f"{path}.weight_scale", rounded.scale


class _Rounded:
    """The weight of a narrow layer, rounded when it is asked for; its scale is asked for next."""

    def __init__(self, layer: ProductLinear, make: Make) -> None:
        self._layer, self._make = layer, make

    def values(self) -> Tensor:
        """Rounded values."""
        self._layer.take(self._make().float())
        found = self._layer.weight
        self._layer.weight = torch.nn.Parameter(found.to("meta"), requires_grad=False)
        return found

    def scale(self) -> Tensor:
        """Their scale."""
        return self._layer.get_buffer("weight_scale")


def _laid_out(
    dit: FastSwiftDit, names: Sequence[str], kind: Format, origin: str
) -> tuple[bytes, list[_Place]]:
    """The beginning of the file, with the list of its tensors, and their places."""
    config, buffers, shapes = dit.config, dict(dit.named_buffers()), dit.state_dict()
    places: list[_Place] = []
    end = 0
    for name in names:
        dtype, shape = _EXACT, tuple(shapes[name].shape)
        if name not in buffers:
            is_wide = shapes[name].dtype == torch.float32
            dtype = _WIDE.get(kind, "BF16") if is_wide else _NARROW[kind]
        begin, end = end, end + prod(shape) * ITEM_BYTES[dtype]
        places.append(_Place(name, dtype, shape, begin, end))
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
        value = make()
        if place.dtype not in _NARROW.values():
            value = value.to(_DTYPES.get(place.dtype, torch.float32))
        value = value.cpu().contiguous()
        out.write(value.flatten().view(torch.uint8).numpy().data)
        listener.on_progress(place.end, total)
    _make_sure(out)


def _make_sure(out: BinaryIO) -> None:
    out.flush()
    os.fsync(out.fileno())
