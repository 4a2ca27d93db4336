"""Tensors and metadata of a golden file, and the model's weights next to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

WEIGHTS = "weights.safetensors"


def tensors(path: Path) -> dict[str, Tensor]:
    """All tensors in float32, read by the published library: the engine's reader is checked too."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name).float() for name in sorted(file.keys())}


def metadata(path: Path) -> dict[str, str]:
    """Free text that came with the tensors."""
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def entry(path: Path, name: str) -> Any:
    """One entry of the metadata that is JSON; an empty dictionary when there is none."""
    return json.loads(metadata(path).get(name, "{}"))


def weights_next_to(path: Path, beginning: str) -> Path:
    """The weights whose name has the longest beginning in common with a file of cases."""
    found = [
        weights
        for weights in path.parent.glob(f"{beginning}*_{WEIGHTS}")
        if path.name.startswith(weights.name.removesuffix(WEIGHTS))
    ]
    if not found:
        raise FileNotFoundError(f"there are no weights for {path.name} next to it")
    return max(found, key=lambda weights: len(weights.name))


def weights_of(path: Path, kind: str) -> Path:
    """The weights next to a file of the model that the names of all its files begin with."""
    return min(path.parent.glob(f"{kind}*_{WEIGHTS}"))
