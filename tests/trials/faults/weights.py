"""Damaged weights and latents: each is described as a file of the user's, and read."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import torch

from engine.files.formats.open_weights import open_weights
from engine.models import registry, user_files
from engine.models.wan.latents.format import WanLatents
from tests.helpers.model_files import write_gguf, write_safetensors
from tests.helpers.wan import write_latent
from tests.trials.faults import mutators
from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import CHANGED, OK, RAN, Outcome, outcome_of

_NAMES = ("decoder.conv_in.weight", "decoder.norm.bias", "blocks.0.attn.proj_qkv.all.weight")


def _tensors() -> dict[str, torch.Tensor]:
    sizes = ((4, 4, 3, 3, 3), (32,), (32, 64))
    return {name: torch.ones(size) for name, size in zip(_NAMES, sizes, strict=True)}


def _safetensors(path: Path) -> None:
    write_safetensors(path, _tensors())


def _gguf(path: Path) -> None:
    matrices = {name: tensor.flatten(1) for name, tensor in _tensors().items() if tensor.dim() > 1}
    write_gguf(path, matrices, "Q8_0")


def _pickle(path: Path) -> None:
    torch.save(_tensors(), path)


def _old_pickle(path: Path) -> None:
    torch.save(_tensors(), path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    for index, key in enumerate(sorted(set(re.findall(rb"\d{12,}", data)))):  # addresses
        data = data.replace(key, str(index).zfill(len(key)).encode())
    path.write_bytes(data)


def _embedding(path: Path) -> None:
    torch.save(torch.ones(4, 5120), path)


def _latent(path: Path) -> None:
    write_latent(path)


SOURCES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "safetensors": ("a.safetensors", _safetensors),
    "GGUF": ("b.gguf", _gguf),
    "pickle": ("c.pth", _pickle),
    "pickle, old": ("d.pt", _old_pickle),
    "text embedding": ("e.pt", _embedding),
    "latents": ("f.latent", _latent),
}


class Weights(Group):
    """A mutant of each format in turn."""

    name = "weights"
    rows = tuple(SOURCES)
    usual = 6_000
    memory = 400 * 2**20
    sources = SOURCES

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._sources: dict[str, bytes] = {}
        for row, (name, make) in self.sources.items():
            make(folder / name)
            self._sources[row] = (folder / name).read_bytes()
            uses = (outcome_of(partial(use, folder / name)) for use in self.uses(row))
            assert any(one.kind == OK for one in uses), f"{row} is refused as it is"
        self._mark = folder / "ran"
        registry.families()

    def run(self, number: int) -> Outcome:
        """Describe and read; latents are probed and read."""
        row, rng = self.row(number), self.chances(number)
        data = self._mutant(row, rng)
        path = self.folder / f"mutant{Path(self.sources[row][0]).suffix}"
        path.write_bytes(data)
        outcomes = [outcome_of(lambda use=use: use(path)) for use in self.uses(row)]
        outcome = max(outcomes, key=lambda one: (one.is_bad, one.kind == OK))
        if self._mark.exists():
            self._mark.unlink()
            return Outcome(RAN)
        return outcome if path.read_bytes() == data else Outcome(CHANGED)

    def uses(self, row: str) -> tuple[Callable[[Path], object], ...]:
        """What is done with each mutant of a row."""
        return _OF_LATENTS if row == "latents" else _OF_WEIGHTS

    def _mutant(self, row: str, rng: Random) -> bytes:
        data = self._sources[row]
        if self.sources[row][0].endswith((".safetensors", ".latent")) and rng.randrange(2):
            return _other_header(data, rng)
        if zipfile.is_zipfile(io.BytesIO(data)) and rng.randrange(2):
            return _other_pickle(data, lambda old: self._changed_pickle(old, rng))
        if row == "pickle, old" and rng.randrange(8) == 0:
            return _running(self._mark)
        return rng.choice(mutators.ANY)(data, rng)

    def _changed_pickle(self, data: bytes, rng: Random) -> bytes:
        match rng.randrange(4):
            case 0:
                return _running(self._mark)
            case 1:
                return data[:2] + b"(" * rng.choice((10_000,) * 9 + (7_000_000,)) + data[2:]
            case 2:  # a list of lists, each twice the one before
                return b"\x80\x02]" + b"(h\x00h\x00l" * rng.choice((10, 1000)) + b"."
        return rng.choice(mutators.ANY)(data, rng)


class _Runs:
    """A pickle that writes a file when it is read without care."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return io.open, (str(self._mark), "w")


def _running(mark: Path) -> bytes:
    return pickle.dumps({"weight": _Runs(mark)}, protocol=2)


def _other_pickle(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The archive with another program in it; its checksums are right."""
    to = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(to, "w") as new:
        for entry in old.infolist():
            inside = old.read(entry)
            new.writestr(entry, change(inside) if entry.filename.endswith("data.pkl") else inside)
    return to.getvalue()


def _other_header(data: bytes, rng: Random) -> bytes:
    """The JSON of a file of safetensors with other values; its length is right."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = rng.choice(mutators.TEXT)(data[8:end], rng)
    return len(header).to_bytes(8, "little") + header + data[end:]


def _read(path: Path) -> None:
    with open_weights(path) as file:
        for name in file.shapes:
            file.tensor(name)


_OF_WEIGHTS = (user_files.describe, _read)
_OF_LATENTS = (WanLatents().header, WanLatents().examined)
