"""Photographs that judge enlargements: those that come with installed packages, or a folder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

Picture = npt.NDArray[np.uint8]

# Kept without loss; JPEG files count only after a reduction that removes their blocks.
_LOSSLESS = (
    "astronaut",
    "chelsea",
    "coffee",
    "motorcycle_left",
    "brick",
    "camera",
    "grass",
    "gravel",
)
_REDUCED = (
    ("skimage", "data/rocket.jpg"),
    ("sklearn", "datasets/images/china.jpg"),
    ("sklearn", "datasets/images/flower.jpg"),
)
_SUFFIXES = {".png", ".tif", ".tiff", ".bmp", ".ppm"}


def installed_photographs() -> dict[str, Picture]:
    """Name -> uint8 [h, w, 3] of the photographs in scikit-image and scikit-learn."""
    found: dict[str, Picture] = {}
    images = _folder("skimage")
    for name in _LOSSLESS:
        path = images / "data" / f"{name}.png"
        if path.is_file():
            found[name] = _read(path, 1)
    for package, inside in _REDUCED:
        path = _folder(package) / inside
        if path.is_file():
            found[f"{path.stem} (a third)"] = _read(path, 3)
    if not found:
        raise FileNotFoundError(
            "No package with photographs is installed. "
            "Install scikit-image, or name a folder of uncompressed photographs."
        )
    return found


def photographs_in(folder: Path) -> dict[str, Picture]:
    """Name -> uint8 [h, w, 3] of the lossless pictures of a folder.

    Raises:
        FileNotFoundError: There are none.
    """
    paths = sorted(p for p in folder.glob("*") if p.suffix.lower() in _SUFFIXES)
    if not paths:
        raise FileNotFoundError(
            f"There are no uncompressed pictures in {folder}. "
            "Name a folder with PNG, TIFF, BMP or PPM files."
        )
    return {path.stem: _read(path, 1) for path in paths}


def _folder(package: str) -> Path:
    spec = find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else Path("missing")


def _read(path: Path, reduction: int) -> Picture:
    with Image.open(path) as image:
        picture = image.convert("RGB")
    return np.asarray(picture.reduce(reduction) if reduction > 1 else picture)
