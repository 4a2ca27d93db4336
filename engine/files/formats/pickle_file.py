"""PyTorch files (.pth) of tensors by memory map; nothing in them is run. Opening loads no torch.

A pickle is a program for a stack machine. torch's own reader carries out what tensors need and
more: small programs that make it allocate gigabytes, or hash for ever. Here every step makes one
small object, a key of a table is text or a number, and a name stands for nothing but itself.

The newer kind is a zip archive whose members are stored as they are, one of them a pickle that
describes the tensors. The older kind, of PyTorch before 1.6, is a row of five pickles, and after
them the values of each storage with their number before them.
"""

from __future__ import annotations

import io
import math
import pickletools
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from engine.core.errors import NotSafetensors, UnsafeWeights, WeightsDamaged, WeightsTruncated
from engine.core.zip_reader import AmbiguousZip, UnreadableZip, ZipReader
from engine.files.formats.file_map import MappedWeights, WeightsEntry
from engine.files.formats.safetensors_file import ITEM_BYTES, TORCH_NAMES

if TYPE_CHECKING:
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
class PickleEntry(WeightsEntry):
    """One tensor in a file; `begin` is the place of its first value."""

    strides: tuple[int, ...]


class PickleFile(MappedWeights[PickleEntry]):
    """Tensors of a PyTorch file by name; one that was saved alone has the name "tensor"."""

    def __init__(self, path: Path) -> None:
        """Open and check a file.

        Raises:
            WeightsMissing, WeightsUnreadable: See `FileMap`.
            NotSafetensors: It is no PyTorch file.
            WeightsTruncated: It ends before its list of contents.
            UnsafeWeights: It calls other functions than those that make tensors.
            WeightsDamaged: Its parts contradict each other, or it holds other objects.
        """
        super().__init__(path, lambda file, path: (_read_header(file, path), {}))
        self.nbytes = {
            name: ITEM_BYTES[entry.dtype] * math.prod(entry.shape)
            for name, entry in self._entries.items()
        }

    def _view(self, found: Tensor, entry: PickleEntry) -> Tensor:
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
    with _translated(path):
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


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translates errors of programs and archives to those for users.

    Raises:
        UnsafeWeights: A program calls something else than what makes tensors.
        WeightsDamaged: It is no program of tensors.
    """
    try:
        yield
    except UnsafeProgramError as err:
        raise UnsafeWeights("pickle", name=path.name, path=path) from err
    except _UNREADABLE as err:
        raise WeightsDamaged("pickle", name=path.name, path=path) from err


def _read_older(file: BinaryIO, path: Path, size: int) -> dict[str, PickleEntry]:
    """The tensors of an open file of the older kind."""
    file.seek(0)
    programs = io.BytesIO(file.read(_MOST_BYTES))
    with _translated(path):
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
    """Place of a tensor in the file; it has no more values than its storage."""
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


# --- what a pickle describes


_MOST_STEPS = 500_000  # a second; models take 30 for each tensor


class UnsafeProgramError(Exception):
    """A call of something else than what makes tensors."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Values of one or several tensors: `length` of `dtype`; dtype "" counts bytes."""

    key: str
    dtype: str
    length: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as a view of a storage; offset and strides in values."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first value of the storage after the last one of the tensor."""
        if not all(self.shape):
            return self.offset
        last = (stride * (side - 1) for side, stride in zip(self.shape, self.strides, strict=True))
        return self.offset + sum(last) + 1


_STORAGES = {
    "Double": "F64", "Float": "F32", "Half": "F16", "BFloat16": "BF16", "Long": "I64", "Int": "I32",
    "Short": "I16", "Char": "I8", "Byte": "U8", "Bool": "BOOL",
}  # fmt: skip
_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kind:
    """The class of a storage, or a dtype of torch."""

    dtype: str


def _table() -> dict[str, Any]:
    return {}


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, _grad: Any, _hooks: Any, *more: Any
) -> StoredTensor:
    """A tensor; `more` begins with a dtype where the storage counts bytes."""
    kinds = [one for one in more if isinstance(one, _Kind)]
    dtype = kinds[0].dtype if kinds else storage.dtype
    axes = len(shape)
    if not (isinstance(storage, Storage) and dtype and len(strides) == axes <= _MOST_AXES):
        raise ValueError("no tensor")
    if not all(type(one) is int and 0 <= one < 2**63 for one in (offset, *shape, *strides)):
        raise ValueError("sizes must be whole numbers")
    return StoredTensor(storage, dtype, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, _grad: Any, _hooks: Any) -> StoredTensor:
    if not isinstance(tensor, StoredTensor):
        raise ValueError("no parameter")
    return tensor


_MOST_AXES = 64  # torch's own limit
_NAMES: dict[str, Callable[..., Any] | _Kind] = {
    "collections OrderedDict": _table,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_tensor_v3": _tensor,
    "torch._utils _rebuild_parameter": _parameter,
    "torch.storage UntypedStorage": _Kind(""),
    **{f"torch {name}Storage": _Kind(dtype) for name, dtype in _STORAGES.items()},
    **{f"torch {name}": _Kind(dtype) for name, dtype in _DTYPES.items()},
}


def described(program: bytes | BinaryIO) -> Any:
    """Content of a pickle, in dict, list, tuple, text, int, float, None and `StoredTensor`.

    An open file is read to the end of the pickle.

    Raises:
        UnsafeProgramError: It calls something else, or has a step that tensors do not need.
        ValueError, TypeError, LookupError, AttributeError: It is no whole pickle.
    """
    machine = _Machine()
    for number, (step, value, _) in enumerate(pickletools.genops(program)):
        if number > _MOST_STEPS:
            raise ValueError("too many steps")
        machine.take(step.name, value)
    (result,) = machine.stack
    return result


class _Machine:
    """The stack of a pickle, its marks and its memory."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._below: list[list[Any]] = []  # what was on the stack at each mark
        self._memory: dict[int, Any] = {}

    def take(self, step: str, value: Any) -> None:
        """Carry out one step."""
        stack = self.stack
        match step:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MARK":
                self._below.append(stack)
                self.stack = []
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                stack.append({"D": {}, "L": [], "T": ()}[step[6]])
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[step])
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                stack.append(value)
            case "BINUNICODE" | "SHORT_BINUNICODE":
                stack.append(value)
            case "BINPUT" | "LONG_BINPUT":
                self._memory[value] = stack[-1]
            case "MEMOIZE":
                self._memory[len(self._memory)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memory[value])
            case "GLOBAL":
                stack.append(_named(value))
            case "STACK_GLOBAL":
                name, module = _of(str, stack.pop()), _of(str, stack.pop())
                stack.append(_named(f"{module} {name}"))
            case _:
                self._build(step)

    def _build(self, step: str) -> None:
        """Carry out a step that takes from the stack."""
        match step:
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(step[-1])
                items = [self.stack.pop() for _ in range(count)]
                self.stack.append(tuple(reversed(items)))
            case "TUPLE":
                items = self._marked()
                self.stack.append(tuple(items))
            case "APPEND" | "APPENDS":
                items = [self.stack.pop()] if step == "APPEND" else self._marked()
                _of(list, self.stack[-1]).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._pair() if step == "SETITEM" else self._marked()
                _fill(_of(dict, self.stack[-1]), items)
            case "BINPERSID":
                self.stack.append(_storage(*self.stack.pop()))
            case "REDUCE":
                arguments = _of(tuple, self.stack.pop())
                call = self.stack.pop()
                if not callable(call):
                    raise ValueError("nothing that can be called")
                self.stack.append(call(*arguments))
            case "BUILD":  # attributes of a table: versions of its modules
                self.stack.pop()
                _of(dict, self.stack[-1])
            case _:
                raise UnsafeProgramError(step)

    def _marked(self) -> list[Any]:
        items, self.stack = self.stack, self._below.pop()
        return items

    def _pair(self) -> list[Any]:
        value, key = self.stack.pop(), self.stack.pop()
        return [key, value]


def _named(name: str) -> Callable[..., Any] | _Kind:
    try:
        return _NAMES[name]
    except KeyError as err:
        raise UnsafeProgramError(name) from err


def _of(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"not a {kind.__name__}")
    return value


def _fill(table: dict[Any, Any], items: list[Any]) -> None:
    """Keys and values in turn; the hash of another key could take for ever."""
    keys = items[::2]
    if not all(isinstance(key, str | int) for key in keys):
        raise ValueError("a key that is neither text nor a number")
    table.update(zip(keys, items[1::2], strict=True))


def _storage(
    word: Any, kind: Any, key: Any, _device: Any, length: Any, view: Any = None
) -> Storage:
    """A storage; the older kind of files also knows views of other storages, which no model has."""
    if view is not None:
        raise ValueError("a view of a storage")
    is_storage = word == "storage" and isinstance(kind, _Kind) and isinstance(key, str)
    if not is_storage or type(length) is not int or not 0 <= length < 2**63:
        raise ValueError("no storage")
    return Storage(key, kind.dtype, length)
