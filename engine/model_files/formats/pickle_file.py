"""PyTorch pickles (.pth) of tensors, read without running code that is in them.

A pickle is a program. torch's `weights_only` allows the few calls that tensors need and refuses all
others. Only the newer kind is read, a zip archive: tensors of the older kind cannot be mapped.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from engine.core.errors import NotSafetensors, UnsafeWeights, WeightsDamaged, WeightsTruncated
from engine.model_files.formats.file_map import FileMap
from engine.model_files.formats.safetensors_file import TORCH_NAMES

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ZIP = b"PK\x03\x04"


class PickleFile:
    """Tensors of a file by name, as in `SafetensorsFile`; opening it loads torch.

    The file stays mapped until `close`; what was read of it counts as memory of this process, but
    the system can reclaim it.

    Attributes:
        path: Of the file.
        shapes, dtypes: Of each tensor, by name; dtypes as safetensors names them ("F16").
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
        archive = FileMap(path)
        archive.header(_check_archive)
        archive.close()
        self._tensors = _read(path)
        self.metadata: dict[str, str] = {}
        self.shapes = {name: tuple(value.shape) for name, value in self._tensors.items()}
        self.dtypes = {name: _dtype_name(value) for name, value in self._tensors.items()}
        self.nbytes = {name: value.nbytes for name, value in self._tensors.items()}

    def tensor(
        self, name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Tensor:
        """A contiguous copy of one tensor on `device`, converted if `dtype` is given.

        Raises:
            KeyError: There is no tensor of that name; an internal error.
        """
        stored = self._tensors[name]
        return stored.to(device, dtype or stored.dtype, copy=True).contiguous()

    def raw(self, name: str) -> Tensor:
        """A read-only view of one tensor in the file.

        Raises:
            KeyError: As `tensor`.
        """
        return self._tensors[name]

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        self._tensors = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_archive(file: BinaryIO, path: Path) -> None:
    """Refuse what is no archive of PyTorch; its list of contents is at the end.

    torch decides by the ending ".safetensors", whatever is in a file.
    """
    if path.suffix == ".safetensors":
        raise NotSafetensors("zip-named-safetensors", name=path.name, path=path)
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as err:
        raise WeightsTruncated("no-contents", name=path.name, path=path) from err
    if not any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        raise NotSafetensors("zip-without-tensors", name=path.name, path=path)


def _read(path: Path) -> dict[str, Tensor]:
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as err:
        raise UnsafeWeights("pickle", name=path.name, path=path) from err
    except MemoryError:
        raise
    except Exception as err:  # damage ends in struct.error, KeyError, AssertionError and others
        raise WeightsDamaged("pickle", name=path.name, path=path) from err
    return _checked(content, path)


def _checked(content: Any, path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; some tools store them under "state_dict"."""
    import torch

    if isinstance(content, Mapping):
        content = content.get("state_dict", content)
    is_table = isinstance(content, Mapping) and all(
        isinstance(name, str) and isinstance(value, torch.Tensor) and _is_plain(value)
        for name, value in content.items()
    )
    if not is_table or not content:
        raise WeightsDamaged("no-tensor-list", name=path.name, path=path)
    return {name: value.detach() for name, value in content.items()}


def _is_plain(value: Tensor) -> bool:
    import torch

    return value.layout == torch.strided and value.device.type == "cpu"


def _dtype_name(value: Tensor) -> str:
    kind = str(value.dtype).removeprefix("torch.")
    return next((name for name, ours in TORCH_NAMES.items() if ours == kind), kind.upper())
