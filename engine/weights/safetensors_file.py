"""A safetensors file: what is in it at once, its tensors one at a time by memory map."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Self

from engine.errors import (
    WeightsError,
    WeightsMissing,
    WeightsTruncated,
    WeightsUnreadable,
    WrongNumbers,
)
from engine.weights.safetensors_head import AGAIN, Entry, read_head

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


class SafetensorsFile:
    """Tensors of a file by name; opening reads the head only and loads no torch.

    Each tensor is mapped by itself, copied and unmapped: reading a whole model never has more
    than one tensor of the file in memory, and after `close` (or the `with` block) Windows can
    delete or rename the file.

    Attributes:
        path: Where it lies.
        shapes, dtypes: Of each tensor, by name; dtypes in the format's own words ("F16").
        metadata: Free text that came with the tensors.
    """

    def __init__(self, path: Path) -> None:
        """Open and check a file.

        Raises:
            WeightsMissing: There is no such file.
            WeightsUnreadable: It may not be read.
            NotSafetensors, WeightsTruncated, WeightsDamaged: See `read_head`.
        """
        self.path = path
        if path.is_dir():
            raise _unreadable(path, f"{path.name} is a folder, not a file.")
        try:
            self._file = path.open("rb")
        except FileNotFoundError as err:
            raise _missing(path) from err
        except OSError as err:
            raise _unreadable(path) from err
        try:
            head = read_head(self._file, path)
        except OSError as err:
            self.close()
            raise _unreadable(path) from err
        except WeightsError:
            self.close()
            raise
        self._entries = head.entries
        self.metadata = head.metadata
        self.shapes = {name: entry.shape for name, entry in head.entries.items()}
        self.dtypes = {name: entry.dtype for name, entry in head.entries.items()}

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """One tensor, a copy of its own on `device`, converted to `dtype` when one is given.

        Raises:
            KeyError: There is no tensor of that name; a mistake in the caller.
            WeightsUnreadable, WeightsTruncated: The disk fails, or the file was changed.
            WrongNumbers: The format is none that torch has.
        """
        import torch

        entry = self._entries[name]
        kind = getattr(torch, _TORCH_NAMES.get(entry.dtype, ""), None)
        if kind is None:
            raise WrongNumbers(
                f"{self.path.name} has numbers in the format {entry.dtype}, which we cannot read.",
                hint="Choose another file of this model.",
                path=str(self.path),
                dtype=entry.dtype,
            )
        if entry.begin == entry.end:
            return torch.empty(entry.shape, device=device, dtype=dtype or kind)
        base = entry.begin - entry.begin % mmap.ALLOCATIONGRANULARITY
        # A private, writable map: torch warns about buffers that it could not write to.
        with self._window(entry, base) as window:
            count = (entry.end - entry.begin) // kind.itemsize
            view = torch.frombuffer(window, dtype=kind, count=count, offset=entry.begin - base)
            result = view.reshape(entry.shape).to(device, dtype or kind, copy=True)
            del view  # a map cannot be closed while a tensor looks at it
        return result

    def _window(self, entry: Entry, base: int) -> mmap.mmap:
        length = entry.end - base
        try:
            return mmap.mmap(self._file.fileno(), length, access=mmap.ACCESS_COPY, offset=base)
        except OSError as err:
            raise _unreadable(self.path) from err
        except ValueError as err:
            raise WeightsTruncated(
                f"{self.path.name} became shorter while it was read.",
                hint=AGAIN,
                path=str(self.path),
            ) from err

    def close(self) -> None:
        """Let the file go; tensors that were read stay valid."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _missing(path: Path) -> WeightsMissing:
    return WeightsMissing(
        f"The model file {path.name} is missing.",
        hint="Download it, or choose where it lies.",
        path=str(path),
    )


def _unreadable(path: Path, message: str = "") -> WeightsUnreadable:
    return WeightsUnreadable(
        message or f"{path.name} cannot be read.",
        hint="Choose a file that you may read." if message else "Check its rights and its disk.",
        path=str(path),
    )
