"""Opens a weights file of any format; the content decides which, not the name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from engine.files.formats.file_map import unreadable
from engine.files.formats.gguf_file import MAGIC, GgufFile
from engine.files.formats.pickle_file import OLDER, ZIP, PickleFile
from engine.files.formats.safetensors_file import SafetensorsFile

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class WeightsFile(Protocol):
    """Interface of all formats; see `SafetensorsFile`, `GgufFile` and `PickleFile`."""

    path: Path
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    nbytes: dict[str, int]
    metadata: dict[str, str]

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """A copy of one tensor."""
        ...

    def raw(self, name: str) -> Tensor:
        """A read-only view of one tensor in the file."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_weights(path: Path) -> SafetensorsFile | GgufFile | PickleFile:
    """Open and check a file of weights.

    Raises:
        WeightsMissing, WeightsUnreadable: It does not exist, or may not be read.
        NotSafetensors: It is none of these formats.
        NotGguf, UnsafeWeights, WeightsTruncated, WeightsDamaged, WrongNumbers: Its format is not
            supported, or it is incomplete.
    """
    beginning = _beginning(path)
    if beginning.startswith(MAGIC):
        return GgufFile(path)
    return PickleFile(path) if beginning.startswith((ZIP, OLDER)) else SafetensorsFile(path)


def _beginning(path: Path) -> bytes:
    """The first bytes; empty if it is no file, which the reader then reports."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(len(OLDER))
    except OSError as err:
        raise unreadable(path, err) from err
