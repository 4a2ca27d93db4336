"""The package spandrel, which knows the architectures; loads torch.

It is installed without what it requires: torchvision's wheels link a CUDA that our torch does not
have, and only two architectures ask for three names of it.
"""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from engine.core.errors import FeatureMissing

VERSION = "0.4.2"
_FUNCTIONAL = "torchvision.transforms.functional"


class InterpolationMode(enum.Enum):
    """Of torchvision's `rotate`; only this one is asked for."""

    BILINEAR = "bilinear"


def normalize(picture: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Channels of [..., C, H, W] less their mean, divided by their standard deviation."""
    shape = (-1, 1, 1)
    means = torch.tensor(mean, dtype=picture.dtype, device=picture.device).reshape(shape)
    return (picture - means) / torch.tensor(
        std, dtype=picture.dtype, device=picture.device
    ).reshape(shape)


def rotate(*_arguments: object, **_more: object) -> Tensor:
    """Of inpainting models alone, which are refused: a film has no masks."""
    raise NotImplementedError


@cache
def spandrel() -> Any:
    """The package.

    Raises:
        FeatureMissing: It is not installed.
    """
    with _torchvision_replaced():
        try:
            return importlib.import_module("spandrel")
        except ModuleNotFoundError as err:
            if err.name != "spandrel":
                raise
            is_packed = getattr(sys, "frozen", False)
            case = "community-models-packed" if is_packed else "community-models"
            raise FeatureMissing(case, version=VERSION) from err


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
