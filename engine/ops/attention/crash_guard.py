"""A package that takes the program or its card down while it is tried, is tried once only."""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch

from engine.core.paths import cache_folder
from engine.ops.attention.backend import Backend


class Guard:
    """Leaves a file behind while a package of others runs for the first time.

    Attributes:
        has_fallen: The program ended, or its card was lost, inside this guard before, with the
            same card and the same torch.
    """

    def __init__(self, backend: Backend, device: torch.device) -> None:
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        self._text = f"{backend.package} on {name}, torch {torch.__version__}"
        self._path = cache_folder() / f"attention-trying-{backend.name}"
        self._is_needed = bool(backend.package)
        self._device = device
        self.has_fallen = self._is_needed and _read(self._path) == self._text

    def __enter__(self) -> None:
        if self._is_needed:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(self._text, encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # raises when the card is lost: the file stays
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8")
    return ""
