"""What a PyTorch pickle describes: tables, values, names and tensors; nothing in it is run.

A pickle is a program for a stack machine. torch's own reader carries out what tensors need and
more: small programs that make it allocate gigabytes, or hash for ever. Here every step makes one
small object, a key of a table is text or a number, and a name stands for nothing but itself.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

_MOST_STEPS = 500_000  # a second; models take 30 for each tensor


class UnsafeProgramError(Exception):
    """It calls something else than what makes tensors."""


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
    """What a pickle describes: of dict, list, tuple, text, int, float, None and `StoredTensor`.

    Of an open file it reads to the end of the pickle.

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
