"""A safetensors file: what is in it at once, its tensors one at a time by memory map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from engine.core.errors import WrongNumbers
from engine.model_files.formats.file_map import FileMap
from engine.model_files.formats.safetensors_header import Entry, read_head

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TORCH_NAMES = {
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
        self._map = FileMap(path)
        head = self._map.head(read_head)
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
        entry = self._entries[name]
        kind = self._kind(entry)
        with self._map.window(entry.begin, entry.end) as found:
            stored = found.view(kind).reshape(entry.shape)
            return stored.to(device, dtype or kind, copy=True)

    def raw(self, name: str) -> Tensor:
        """One tensor as it lies in the file: a view that nobody may write to, in no memory.

        While it lives the file stays mapped, also after `close`; Windows does not delete it then.

        Raises:
            KeyError, WeightsUnreadable, WeightsTruncated, WrongNumbers: As `tensor`.
        """
        entry = self._entries[name]
        kind = self._kind(entry)
        return self._map.bytes(entry.begin, entry.end).view(kind).reshape(entry.shape)

    def _kind(self, entry: Entry) -> torch.dtype:
        import torch

        kind = getattr(torch, TORCH_NAMES.get(entry.dtype, ""), None)
        if isinstance(kind, torch.dtype):
            return kind
        raise WrongNumbers(
            f"{self.path.name} has numbers in the format {entry.dtype}, which we cannot read.",
            hint="Choose another file of this model.",
            path=str(self.path),
            dtype=entry.dtype,
        )

    def close(self) -> None:
        """Let the file go; tensors that were read stay valid."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
