"""Networks of Lite with random weights, in the place of those that come with the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
from safetensors.torch import save_file

from engine.models.lite import files
from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet


@contextmanager
def another_lite(path: Path, config: LiteConfig) -> Iterator[None]:
    """Every weights file of Lite is this one, which is written with random values."""
    torch.manual_seed(2)
    save_file(dict(LiteNet(config).state_dict()), path)
    with patch.object(files, "weights_path", lambda name: path):
        _forget()
        yield
    _forget()


def _forget() -> None:
    files.config_of.cache_clear()
    files.weights_sha256.cache_clear()
