"""Whole jobs on damaged films."""

from __future__ import annotations

from pathlib import Path

import av

from tests.trials.faults.group import Group
from tests.trials.faults.jobs import Place, load_modules, make_film
from tests.trials.faults.media import Media
from tests.trials.faults.outcomes import CHANGED, INCOMPLETE, Outcome


class Upscales(Group):
    """Mutants of `media`, with the same cases: a result is there exactly when a job ends well."""

    name = "upscales"
    rows = Media.rows
    usual = 1_000
    limit_s = 30.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._mutants = Media(folder)
        load_modules(Place(folder / "first", make_film(folder)))

    def run(self, number: int) -> Outcome:
        """Upscale; a result must open and have a frame."""
        mutant, _ = self._mutants.write(number)
        place = Place(self.folder / "case", mutant)
        place.result = place.result.with_suffix(".mkv")
        ended = place.upscale()
        if place.is_changed:
            return Outcome(CHANGED)
        if ended.outcome.is_bad:
            return ended.outcome
        is_proved = ended.status == 0 or ended.outcome.code == "not-proved"
        if place.result.exists() != is_proved:
            return Outcome(INCOMPLETE, ended.outcome.code, f"status {ended.status}")
        if is_proved and not _has_frame(place.result):
            return Outcome(INCOMPLETE, "", "no frame")
        return ended.outcome


def _has_frame(path: Path) -> bool:
    try:
        with av.open(f"file:{path}") as film:
            return next(film.decode(video=0), None) is not None
    except av.FFmpegError:
        return False
