"""PyTorch files (.pth) of tensors by memory map; nothing in them is run. Opening loads no torch.

The newer kind is a zip archive whose members are stored as they are, one of them a pickle that
describes the tensors. The older kind, of PyTorch before 1.6, is a row of five pickles, and after
them the values of each storage with their number before them.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from engine.core.errors import NotSafetensors, UnsafeWeights, WeightsDamaged, WeightsTruncated
from engine.core.zip_reader import AmbiguousZip, UnreadableZip, ZipReader
from engine.model_files.formats.file_map import FileMap
from engine.model_files.formats.pickle_program import StoredTensor, UnsafeProgramError, described
from engine.model_files.formats.safetensors_file import ITEM_BYTES, TORCH_NAMES

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ZIP = b"PK\x03\x04"
OLDER = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."  # a pickle of a magic number
_PROGRAM = "data.pkl"
_MOST_BYTES = 2**24  # of a pickle
_COUNT_BYTES = 8  # before the values of a storage, older kind
_UNREADABLE = (
    *(ValueError, TypeError, LookupError, AttributeError, OverflowError, EOFError),
    *(UnreadableZip, RuntimeError),
)
_LOCAL_BYTES = 30  # of a member's own header, before its name
_TABLES = ("state_dict", "model_state_dict", "params_ema", "params-ema", "params", "model", "net")
_ONLY = "tensor"  # name of a tensor that is saved without one


@dataclass(frozen=True, slots=True, kw_only=True)
class PickleEntry:
    """One tensor in a file: `begin` is the place of its first value, in bytes from the start."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    begin: int
    end: int


class PickleFile:
    """Tensors of a file by name, as in `SafetensorsFile`.

    A tensor that was saved alone has the name "tensor".

    Attributes:
        path: Of the file.
        shapes, dtypes, nbytes: Of each tensor, by name; dtypes as safetensors names them ("F16").
        metadata: Empty: the format has none.
    """

    def __init__(self, path: Path) -> None:
        """Open and check a file.

        Raises:
            WeightsMissing: There is no such file.
            WeightsUnreadable: It may not be read.
            NotSafetensors: It is no PyTorch file.
            WeightsTruncated: It ends before its list of contents.
            UnsafeWeights: It calls other functions than those that make tensors.
            WeightsDamaged: Its parts contradict each other, or it holds other objects.
        """
        self.path = path
        self._map = FileMap(path)
        self._entries = self._map.header(_read_header)
        self.metadata: dict[str, str] = {}
        self.shapes = {name: entry.shape for name, entry in self._entries.items()}
        self.dtypes = {name: entry.dtype for name, entry in self._entries.items()}
        self.nbytes = {
            name: ITEM_BYTES[entry.dtype] * math.prod(entry.shape)
            for name, entry in self._entries.items()
        }

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """A contiguous copy of one tensor on `device`, converted if `dtype` is given.

        Raises:
            KeyError: There is no tensor of that name; an internal error.
            WeightsUnreadable, WeightsTruncated: The disk fails, or the file was changed.
        """
        entry = self._entries[name]
        with self._map.window(entry.begin, entry.end) as found:
            stored = _view(found, entry)
            return stored.to(device, dtype or stored.dtype, copy=True).contiguous()

    def raw(self, name: str) -> Tensor:
        """A read-only view of one tensor in the file.

        Raises:
            KeyError, WeightsUnreadable, WeightsTruncated: As `tensor`.
        """
        entry = self._entries[name]
        return _view(self._map.bytes(entry.begin, entry.end), entry)

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _view(found: Tensor, entry: PickleEntry) -> Tensor:
    import torch

    stored = found.view(getattr(torch, TORCH_NAMES[entry.dtype]))
    return stored.as_strided(entry.shape, entry.strides)


def _read_header(file: BinaryIO, path: Path) -> dict[str, PickleEntry]:
    """The tensors of an open file; its list of contents is at the end."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(len(OLDER)) == OLDER:
        return _read_older(file, path, size)
    try:
        archive = ZipReader(file)
    except AmbiguousZip as err:
        raise WeightsDamaged("pickle", name=path.name, path=path) from err
    except UnreadableZip as err:
        raise WeightsTruncated("no-contents", name=path.name, path=path) from err
    members = archive.members
    program = next((name for name in members if f"/{name}".endswith(f"/{_PROGRAM}")), None)
    if program is None:
        raise NotSafetensors("zip-without-tensors", name=path.name, path=path)
    try:
        if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
            raise ValueError("a compressed member")
        folder = program.removesuffix(_PROGRAM)
        order = f"{folder}byteorder"
        if order in members and archive.read(order, _MOST_BYTES) != b"little":
            raise ValueError("another byte order")
        tensors = _tensors(described(archive.read(program, _MOST_BYTES)), path)
        places = {
            f"{folder}data/{key}": _place(file, members[f"{folder}data/{key}"], size)
            for key in {tensor.storage.key for tensor in tensors.values()}
        }
        return {
            name: _entry(tensor, *places[f"{folder}data/{tensor.storage.key}"])
            for name, tensor in tensors.items()
        }
    except UnsafeProgramError as err:
        raise UnsafeWeights("pickle", name=path.name, path=path) from err
    except _UNREADABLE as err:
        raise WeightsDamaged("pickle", name=path.name, path=path) from err


def _read_older(file: BinaryIO, path: Path, size: int) -> dict[str, PickleEntry]:
    """The tensors of an open file of the older kind."""
    file.seek(0)
    programs = io.BytesIO(file.read(_MOST_BYTES))
    try:
        _magic, _version, _machine, content, keys = (described(programs) for _ in range(5))
        tensors = _tensors(content, path)
        storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
        places, begin = {}, programs.tell()
        for key in keys:
            begin += _COUNT_BYTES
            end = begin + storages[key].length * ITEM_BYTES[storages[key].dtype]
            places[key], begin = (begin, end), end
        if begin > size:
            raise WeightsTruncated("bytes", name=path.name, size=size, needed=begin, path=path)
        return {name: _entry(one, *places[one.storage.key]) for name, one in tensors.items()}
    except UnsafeProgramError as err:
        raise UnsafeWeights("pickle", name=path.name, path=path) from err
    except _UNREADABLE as err:
        raise WeightsDamaged("pickle", name=path.name, path=path) from err


def _tensors(content: Any, path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by name; some tools store them under a name of their own."""
    if isinstance(content, StoredTensor):
        content = {_ONLY: content}
    if isinstance(content, Mapping):
        tables = (content[name] for name in _TABLES if isinstance(content.get(name), Mapping))
        content = next(tables, content)
    is_table = isinstance(content, Mapping) and all(
        isinstance(name, str) and isinstance(value, StoredTensor) for name, value in content.items()
    )
    if not is_table or not content:
        raise WeightsDamaged("no-tensor-list", name=path.name, path=path)
    return dict(content)


def _place(file: BinaryIO, info: zipfile.ZipInfo, size: int) -> tuple[int, int]:
    """First byte of a member's content and the byte after the last one."""
    file.seek(max(0, info.header_offset))
    local = file.read(_LOCAL_BYTES)
    if len(local) < _LOCAL_BYTES or not local.startswith(ZIP):
        raise ValueError("a member is not where it is said to be")
    name, extra = int.from_bytes(local[26:28], "little"), int.from_bytes(local[28:30], "little")
    begin = info.header_offset + _LOCAL_BYTES + name + extra
    if begin + info.file_size > size:
        raise ValueError("a member ends after the file")
    return begin, begin + info.file_size


def _entry(tensor: StoredTensor, begin: int, end: int) -> PickleEntry:
    """Where a tensor is in the file; it has no more values than its storage."""
    item, storage = ITEM_BYTES[tensor.dtype], tensor.storage
    length = storage.length * (ITEM_BYTES[storage.dtype] if storage.dtype else 1)
    values = max(tensor.end, math.prod(tensor.shape))  # strides of 0 would make many of few
    if not values * item <= length <= end - begin:
        raise ValueError("a tensor that is larger than its storage")
    return PickleEntry(
        dtype=tensor.dtype,
        shape=tensor.shape,
        strides=tensor.strides,
        begin=begin + tensor.offset * item,
        end=begin + tensor.end * item,
    )
