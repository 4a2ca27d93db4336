"""Jobs that a signal ends at a random moment, and that are resumed."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.trials.faults.group import Group
from tests.trials.faults.jobs import Ended, Place, load_modules, make_film, packets_of
from tests.trials.faults.outcomes import CHANGED, HANG, INCOMPLETE, LOST, OK, Outcome, last_lines

SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
_MOST_RESUMES = 3
_OTHERS = (-signal.SIGKILL, -signal.SIGTERM, 130, 0)  # how a signal may end a run


class JobGroup(Group):
    """What groups of jobs share: a film, and the result of a job that nothing disturbed."""

    limit_s = 90.0  # several runs, each with the usual limit

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.film = make_film(folder)
        load_modules(Place(folder / "first", self.film))
        place = Place(folder / "whole", self.film)
        self.usual_run = place.upscale()
        if self.usual_run.status != 0:
            raise RuntimeError(self.usual_run.text)
        self.right = packets_of(place.result)

    def place(self) -> Place:
        """A fresh folder of a job."""
        return Place(self.folder / "case", self.film)

    def wrong(self, place: Place) -> Outcome | None:
        """What is wrong with the files now: a source that changed, a result that is not whole."""
        if place.is_changed:
            return Outcome(CHANGED)
        if not place.result.exists():
            return None
        try:
            found = packets_of(place.result)
        except Exception as err:  # whatever is wrong with it
            return Outcome(INCOMPLETE, "", f"{type(err).__name__}: {err}")
        if found == self.right:
            return None
        return Outcome(INCOMPLETE, "", f"{len(found)} packets, {len(self.right)} in the right one")

    def finished(self, place: Place) -> Outcome | None:
        """What keeps an interrupted job from its end; None when its result is right."""
        for _ in range(_MOST_RESUMES):
            ended = place.resume()
            if ended.nothing_left:
                break
            if bad := self.after(ended, place):
                return bad
        else:
            return Outcome(LOST, ended.outcome.code, last_lines(ended.text))
        if not place.result.exists():  # it ended before it was written down
            ended = place.upscale()
            if ended.status != 0:
                return Outcome(LOST, ended.outcome.code, last_lines(ended.text))
        bad = self.wrong(place)
        return bad or (None if place.result.exists() else Outcome(LOST, "", "no result"))

    def after(self, ended: Ended, place: Place) -> Outcome | None:
        """What is wrong after a run: with it or with the files."""
        if ended.outcome.is_bad:
            return ended.outcome
        return self.wrong(place)


class Kills(JobGroup):
    """Each job is ended once or twice; its result must equal that of an undisturbed one."""

    name = "kills"
    rows = tuple(SIGNALS)
    usual = 300

    def run(self, number: int) -> Outcome:
        """Begin, end, resume, compare."""
        rng, place = self.chances(number), self.place()
        kind = SIGNALS[self.row(number)]
        for index in range(rng.choice((1, 1, 2))):
            kill = (kind, rng.uniform(0.01, self.usual_run.seconds))
            ended = (place.resume if index else place.upscale)(kill=kill)
            if ended.status is None:
                return Outcome(HANG, "", f"after {kind.name} at {kill[1]:.3f} s")
            if ended.status not in _OTHERS:
                return ended.outcome
            if bad := self.wrong(place):
                return bad
        return self.finished(place) or Outcome(OK)
