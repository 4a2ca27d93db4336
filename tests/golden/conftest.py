"""The checker on a folder, and files of a golden folder that are spoilt for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.golden.check import main

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status and lines of the checker on a folder; `only` is the beginning of file names."""

    def run(folder: Path, only: str = "") -> tuple[int, list[str]]:
        status = main([str(folder), "--only", only])
        return status, capsys.readouterr().out.splitlines()

    return run


def rewrite(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the tensors of a safetensors file; its metadata stay."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata)


def fails(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("FAIL")]
