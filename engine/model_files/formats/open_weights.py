"""Opening a file with numbers, whatever its format: told by its content, not by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from engine.model_files.formats.file_map import unreadable
from engine.model_files.formats.gguf_file import GgufFile
from engine.model_files.formats.gguf_header import MAGIC
from engine.model_files.formats.pickle_file import ZIP, PickleFile
from engine.model_files.formats.safetensors_file import SafetensorsFile

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class WeightsFile(Protocol):
    """What all formats give; see `SafetensorsFile`, `GgufFile` and `PickleFile`."""

    path: Path
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    metadata: dict[str, str]

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """A copy of one tensor."""
        ...

    def raw(self, name: str) -> Tensor:
        """One tensor where it lies in the file."""
        ...

    def close(self) -> None:
        """Let the file go."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_weights(path: Path) -> SafetensorsFile | GgufFile | PickleFile:
    """Open and check a file of weights.

    Raises:
        WeightsMissing, WeightsUnreadable: It is not there, or may not be read.
        NotSafetensors: It is none of these formats.
        NotGguf, UnsafeWeights, WeightsTruncated, WeightsDamaged, WrongNumbers: It is of a kind
            that we cannot read, or not whole.
    """
    beginning = _beginning(path)
    if beginning == MAGIC:
        return GgufFile(path)
    return PickleFile(path) if beginning == ZIP else SafetensorsFile(path)


def _beginning(path: Path) -> bytes:
    """The first four bytes; none of something that is no file: the reader says why."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC))
    except OSError as err:
        raise unreadable(path) from err
