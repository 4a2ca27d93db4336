"""GGUF files: tensors one at a time by memory map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from engine.model_files.formats.file_map import FileMap
from engine.model_files.formats.gguf_header import GgufEntry, read_gguf_header

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
}  # fmt: skip


class GgufFile:
    """Tensors of a file by name, as in `SafetensorsFile`; opening reads the header only.

    Attributes:
        path: Of the file.
        shapes: Of each tensor of the model, by name without `model.diffusion_model.`.
        dtypes: As the format names them: "F16", "Q4_K".
        metadata: Of the file, as text.
    """

    def __init__(self, path: Path) -> None:
        """Open and check a file.

        Raises:
            WeightsMissing, WeightsUnreadable: See `FileMap`.
            NotGguf, WeightsTruncated, WeightsDamaged, WrongNumbers: See `read_gguf_header`.
        """
        self.path = path
        self._map = FileMap(path)
        header = self._map.header(read_gguf_header)
        self._entries = header.entries
        self.metadata = header.metadata
        self.shapes = {name: entry.shape for name, entry in header.entries.items()}
        self.dtypes = {name: entry.format.name for name, entry in header.entries.items()}

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """A copy of one tensor on `device`, converted to `dtype` when one is given.

        Quantised blocks are returned as they are stored, as by `raw`, and take no `dtype`:
        `engine.ops.linear.gguf` dequantises them.

        Raises:
            KeyError, ValueError: No such tensor, or a `dtype` for blocks; an internal error.
            WeightsUnreadable, WeightsTruncated: The disk fails, or the file was changed.
        """
        if dtype is not None and self.dtypes[name] not in _TORCH_NAMES:
            raise ValueError(f"{name} is in blocks of {self.dtypes[name]}, not in {dtype}")
        entry = self._entries[name]
        with self._map.window(entry.begin, entry.end) as found:
            stored = _stored(found, entry)
            return stored.to(device, dtype or stored.dtype, copy=True)

    def raw(self, name: str) -> Tensor:
        """A read-only view of one tensor in the file; takes no memory.

        While it exists the file stays mapped, also after `close`; Windows does not delete it then.

        Returns:
            Blocks as uint8 [rows, bytes of a row]; other tensors in their own shape.

        Raises:
            KeyError: There is no tensor of that name; an internal error.
            WeightsUnreadable, WeightsTruncated: The disk fails, or the file was changed.
        """
        entry = self._entries[name]
        return _stored(self._map.bytes(entry.begin, entry.end), entry)

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stored(found: Tensor, entry: GgufEntry) -> Tensor:
    import torch

    kind = _TORCH_NAMES.get(entry.format.name)
    if kind is None:
        return found.reshape(-1, entry.row // entry.format.values * entry.format.bytes)
    return found.view(getattr(torch, kind)).reshape(entry.shape)
