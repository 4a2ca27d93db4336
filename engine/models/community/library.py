"""The package spandrel, which knows the architectures; loads torch.

It is installed without what it requires: torchvision's wheels link a CUDA that our torch does not
have, and only two architectures ask for three names of it. Where it is not installed, as in the
packaged program, it is loaded from the published wheel, which the user adds to the list of models.
"""

from __future__ import annotations

import enum
import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import decode_source
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any, BinaryIO

import torch
from torch import Tensor

from engine.core.errors import HashMismatch, LibraryMissing, WeightsMissing
from engine.core.zip_reader import ZipReader
from engine.files.hashing import hashed
from engine.files.model_files import Store

NAME, VERSION = "spandrel", "0.4.2"
_FUNCTIONAL = "torchvision.transforms.functional"


class InterpolationMode(enum.Enum):
    """Modes of torchvision's `rotate`; only this one is asked for."""

    BILINEAR = "bilinear"


def normalize(picture: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Channels of [..., C, H, W] less their mean, divided by their standard deviation."""
    shape = (-1, 1, 1)
    means = torch.tensor(mean, dtype=picture.dtype, device=picture.device).reshape(shape)
    return (picture - means) / torch.tensor(
        std, dtype=picture.dtype, device=picture.device
    ).reshape(shape)


def rotate(*_arguments: object, **_more: object) -> Tensor:
    """Stand-in for inpainting models alone, which are refused: a video has no masks."""
    raise NotImplementedError


@cache
def spandrel() -> Any:
    """The package.

    Raises:
        LibraryMissing: It is neither installed nor in the list of models.
    """
    with _torchvision_replaced():
        try:
            return importlib.import_module(NAME)
        except ModuleNotFoundError as err:
            if err.name != NAME:
                raise
        modules = _modules_of_wheel()
        sys.meta_path.append(modules)
        try:
            return importlib.import_module(NAME)
        finally:
            sys.meta_path.remove(modules)


@contextmanager
def warnings_ignored() -> Iterator[None]:
    """Inside, constructors of networks print no warnings.

    They call `torch.meshgrid` without an order of its axes, and set initial values of tensors, some
    of them empty, which those of a file replace. Users can do nothing about either.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _WheelModules(MetaPathFinder, InspectLoader):
    """Modules of a wheel, from its bytes: what runs is what was hashed, and nothing is unpacked.

    zipimport does not find packages without `__init__`, which spandrel has.
    """

    def __init__(self, wheel: BinaryIO) -> None:
        archive = ZipReader(wheel)
        self._files = {
            PurePosixPath(name).with_suffix(""): archive.read(name)
            for name in archive.members
            if name.endswith(".py")
        }
        self._folders = {folder for file in self._files for folder in file.parents}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of a module, or of a folder with modules."""
        place = _place(name)
        is_package = place in self._folders
        known = is_package or place in self._files
        return ModuleSpec(name, self, is_package=is_package) if known else None

    def get_source(self, fullname: str) -> str:
        """Text of a module; "" for a folder without `__init__`."""
        place = _place(fullname)
        place = place / "__init__" if place in self._folders else place
        return decode_source(self._files.get(place, b""))


def _place(module: str) -> PurePosixPath:
    return PurePosixPath(*module.split("."))


def _modules_of_wheel() -> _WheelModules:
    """Modules of the published wheel in the folder of models, if its SHA-256 is right.

    Raises:
        LibraryMissing: It is not there, or another file.
    """
    store = Store()
    published = store.catalogue.file(NAME)
    with (
        suppress(WeightsMissing, HashMismatch),
        hashed(store.path_of(NAME)) as (wheel, digest),
    ):
        if digest == published.sha256:
            return _WheelModules(wheel)
    case = "packed" if getattr(sys, "frozen", False) else "sources"
    raise LibraryMissing(case, wheel=published.filename, version=VERSION)


@contextmanager
def _torchvision_replaced() -> Iterator[None]:
    """Inside, torchvision is what spandrel asks of it; afterwards it is as it was."""
    parts = _FUNCTIONAL.split(".")
    names = [".".join(parts[: count + 1]) for count in range(len(parts))]
    before = {name: sys.modules.get(name) for name in names}
    modules = {name: ModuleType(name) for name in names}
    functional: Any = modules[_FUNCTIONAL]
    functional.InterpolationMode, functional.normalize = InterpolationMode, normalize
    functional.rotate = rotate
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
