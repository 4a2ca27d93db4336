"""Damaged wheels: each is measured and unpacked as one whose SHA-256 was right."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from random import Random

from engine.delivery.wheels import needed_bytes, unpack
from tests.helpers import runtimes
from tests.trials.faults import mutators
from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import RAN, Outcome, outcome_of

_METHODS = {"deflated": zipfile.ZIP_DEFLATED, "stored": zipfile.ZIP_STORED}
_CONTENTS = b"PK\1\2"  # the first entry of the list of contents


class Wheels(Group):
    """A mutant of a wheel, half of them with damage only in the list of contents."""

    name = "wheels"
    rows = tuple(_METHODS)
    usual = 6_000
    memory = 400 * 2**20

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._sources = {row: _wheel(folder, method) for row, method in _METHODS.items()}

    def run(self, number: int) -> Outcome:
        """Measure and unpack; there may be files in the target folder only."""
        rng = self.chances(number)
        place = self.folder / "case"
        target = place / "inside" / "the" / "runtime"
        target.mkdir(parents=True)
        path = place / "mutant.whl"
        path.write_bytes(_mutant(self._sources[self.row(number)], rng))
        outcome = outcome_of(lambda: _use(path, target))
        outside = [
            str(file)
            for file in self.folder.rglob("*")
            if file.is_file() and file != path and not file.is_relative_to(target)
        ]
        shutil.rmtree(place)
        return Outcome(RAN, detail=", ".join(outside)) if outside else outcome


def _wheel(folder: Path, method: int) -> bytes:
    path = runtimes.wheel(folder)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(folder / "new.whl", "w", method) as new:
        for info in old.infolist():
            new.writestr(zipfile.ZipInfo(info.filename), old.read(info), method)
    content = (folder / "new.whl").read_bytes()
    shutil.rmtree(folder)
    folder.mkdir()
    return content


def _mutant(data: bytes, rng: Random) -> bytes:
    begin = data.index(_CONTENTS) if rng.randrange(2) else 0
    return data[:begin] + rng.choice(mutators.ANY)(data[begin:], rng)


def _use(path: Path, target: Path) -> None:
    with path.open("rb") as wheel:
        needed = needed_bytes([wheel])
        found = unpack(wheel, target)
    assert sum(found.values()) == needed
    assert {name: (target / name).stat().st_size for name in found} == found
