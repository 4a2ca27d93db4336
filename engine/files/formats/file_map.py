"""Weights files that are open for reading by memory map: base classes of all formats.

The package `safetensors` and torch read such files too, but map the whole file copy-on-write: the
system counts every byte of it as memory that could be needed (Windows then refuses large models
with error 1455), what was read stays resident, and a file that shrinks meanwhile ends the process.
They return neither the offsets of tensors nor a reason of refusal that users understand.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, Self, TypeVar

from engine.core.errors import (
    EngineError,
    OutOfMemory,
    WeightsDamaged,
    WeightsError,
    WeightsMissing,
    WeightsTruncated,
    WeightsUnreadable,
    is_memory_refusal,
)
from engine.files.hashing import FileIdentity

if TYPE_CHECKING:
    import torch
    from torch import Tensor

T = TypeVar("T")

_NOTHING: Mapping[Path, FileIdentity] = MappingProxyType({})
_expected: ContextVar[Mapping[Path, FileIdentity]] = ContextVar("expected", default=_NOTHING)


def expect(path: Path, identity: FileIdentity) -> None:
    """Let this thread open a path only while it leads to the file that was hashed."""
    _expected.set({**_expected.get(), path: identity})


class FileMap:
    """The bytes of a file as tensors; torch and numpy are loaded with the first of them.

    Maps are read-only, so a system that counts what could become memory (Windows) counts none of
    it. Writing to such a tensor ends the process: they are for copying from. A system that refuses
    to read raises WeightsUnreadable, a file that became shorter WeightsTruncated.
    """

    def __init__(self, path: Path) -> None:
        """Open a file.

        Raises:
            WeightsMissing: There is no such file.
            WeightsUnreadable: It is a folder, may not be read, or is another file than `expect`
                has named.
        """
        self.path = path
        self._whole: mmap.mmap | None = None
        if path.is_dir():
            raise WeightsUnreadable("folder", name=path.name, path=path)
        try:
            self.file = path.open("rb")
            self.size = self.file.seek(0, 2)  # bytes when it was opened
            self.file.seek(0)
            self._identity = FileIdentity.of(self.file)
        except FileNotFoundError as err:
            raise WeightsMissing("no-file", name=path.name, path=path) from err
        except OSError as err:
            raise unreadable(path, err) from err
        if _expected.get().get(path, self._identity) != self._identity:
            self.file.close()
            raise changed(path)

    def header(self, read: Callable[[BinaryIO, Path], T]) -> T:
        """The header as `read` returns it; the file is closed when `read` refuses it."""
        try:
            return read(self.file, self.path)
        except OSError as err:
            self.close()
            raise unreadable(self.path, err) from err
        except (WeightsError, MemoryError):
            self.close()
            raise

    @contextmanager
    def window(self, begin: int, end: int) -> Iterator[Tensor]:
        """Bytes from `begin` to `end`, uint8 [n], mapped while the block runs."""
        import torch

        if begin == end:
            yield torch.empty(0, dtype=torch.uint8)
            return
        base = begin - begin % mmap.ALLOCATIONGRANULARITY
        with self._map(base, end) as found:
            yield _tensor(found, begin - base, end - begin)

    def bytes(self, begin: int, end: int) -> Tensor:
        """Bytes from `begin` to `end`, uint8 [n], as a view of the file.

        The file stays mapped, and on Windows cannot be deleted, while such a tensor exists, also
        after `close`.
        """
        import torch

        if begin == end:
            return torch.empty(0, dtype=torch.uint8)
        if self._whole is None:
            self._whole = self._map(0, self.size)  # one map: each takes a file descriptor
        return _tensor(self._whole, begin, end - begin)

    def _map(self, base: int, end: int) -> mmap.mmap:
        try:
            return mmap.mmap(self.file.fileno(), end - base, access=mmap.ACCESS_READ, offset=base)
        except OSError as err:
            raise unreadable(self.path, err) from err
        except ValueError as err:
            raise WeightsTruncated("while-reading", name=self.path.name, path=self.path) from err

    def close(self) -> None:
        """Close the file; tensors that were read stay valid.

        Raises:
            WeightsUnreadable: It was written to since it was opened.
        """
        self._whole = None
        if self.file.closed:
            return
        now = FileIdentity.of(self.file)
        self.file.close()
        if (now.bytes, now.modified_ns) != (self._identity.bytes, self._identity.modified_ns):
            raise changed(self.path)


class _MappedArray:
    """Bytes of a map by numpy's array interface; keeps the map alive.

    They are declared writable because torch warns about those that are not, and never writes.
    """

    def __init__(self, found: mmap.mmap, begin: int, length: int) -> None:
        import numpy as np

        self._map = found
        address = np.frombuffer(found, np.uint8).ctypes.data + begin
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": "|u1",
            "shape": (length,),
            "data": (address, False),
        }


def _tensor(found: mmap.mmap, begin: int, length: int) -> Tensor:
    import numpy as np
    import torch

    return torch.from_numpy(np.asarray(_MappedArray(found, begin, length)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsEntry:
    """One tensor in a file: `begin` and `end` are bytes from the start of the file."""

    dtype: str  # name in the format: "F16", "Q4_K"
    shape: tuple[int, ...]
    begin: int
    end: int


E = TypeVar("E", bound=WeightsEntry)


class MappedWeights(Generic[E]):
    """Tensors of a file by name; opening reads the header only and loads no torch.

    Each tensor is mapped by itself, copied and unmapped: reading a whole model never has more
    than one tensor of the file in memory, and after `close` (or the `with` block) Windows can
    delete or rename the file. An unknown name raises KeyError.
    """

    def __init__(
        self, path: Path, read: Callable[[BinaryIO, Path], tuple[dict[str, E], dict[str, str]]]
    ) -> None:
        """Open a file and check its header by `read`: the tensors by name, and free text.

        Raises:
            WeightsMissing, WeightsUnreadable: See `FileMap`.
            WeightsError: From `read`.
        """
        self.path = path
        self._map = FileMap(path)
        self._entries, self.metadata = self._map.header(read)
        self.shapes = {name: one.shape for name, one in self._entries.items()}
        self.dtypes = {name: one.dtype for name, one in self._entries.items()}
        self.nbytes = {name: one.end - one.begin for name, one in self._entries.items()}

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """A contiguous copy of one tensor on `device`, converted to `dtype` when one is given."""
        entry = self._entries[name]
        with self._map.window(entry.begin, entry.end) as found:
            stored = self._view(found, entry)
            return stored.to(device, dtype or stored.dtype, copy=True).contiguous()

    def raw(self, name: str) -> Tensor:
        """A read-only view of one tensor in the file; takes no memory.

        While it exists the file stays mapped, also after `close`; Windows does not delete it then.
        """
        entry = self._entries[name]
        return self._view(self._map.bytes(entry.begin, entry.end), entry)

    def content(self, name: str) -> bytes:
        """Bytes of a small tensor as they are stored; loads no torch."""
        entry = self._entries[name]

        def stored(file: BinaryIO, _path: Path) -> bytes:
            file.seek(entry.begin)
            return file.read(entry.end - entry.begin)

        return self._map.header(stored)

    def _view(self, found: Tensor, entry: E) -> Tensor:
        """Bytes of a tensor in its dtype and shape."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def unreadable(path: Path, error: OSError) -> EngineError:
    """An error for an existing file that the system does not give."""
    if is_memory_refusal(error):
        return OutOfMemory("file", name=path.name, path=path)
    return WeightsUnreadable("disk", name=path.name, path=path)


def changed(path: Path) -> WeightsUnreadable:
    """An error for a file that is another one than was hashed, or that was written to."""
    return WeightsUnreadable("changed", name=path.name, path=path)


def truncated(path: Path, size: int, needed: int) -> WeightsTruncated:
    """An error for a file that ends before its last tensor does; sizes in bytes."""
    return WeightsTruncated("bytes", name=path.name, size=size, needed=needed, path=path)


def damaged(path: Path) -> WeightsDamaged:
    """An error for a header that contradicts itself or what follows it."""
    return WeightsDamaged("header", name=path.name, path=path)
