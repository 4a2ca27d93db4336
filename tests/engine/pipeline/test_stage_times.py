"""Times of the stages of a job: those that take turns are the whole of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from engine.pipeline.context import Throttle
from engine.protocol.events import StageStarted, StagesTimed
from tests.helpers.jobs import USUAL_KINDS, small_job

ASIDE = {"read", "write"}  # next to the others
OF_MODEL = {
    "lite": {"upscale"},
    "community": {"upscale"},
    "seedvr2": {"encode", "transformer", "decode"},
    "swiftvr": {"encode", "transformer", "decode"},
    "wan-2x": {"encode", "decode"},
}


@pytest.mark.parametrize(
    ("kind", "is_cleaned"),
    [
        *((kind, False) for kind in USUAL_KINDS),
        ("lite", True),
        ("seedvr2", True),
        pytest.param("swiftvr", False, marks=pytest.mark.extended),
    ],
)
def test_stages_that_take_turns_are_the_whole(kind: str, is_cleaned: bool, tmp_path: Path) -> None:
    job = small_job(kind, tmp_path, is_cleaned=is_cleaned)
    of_model = OF_MODEL[kind] | ({"clean"} if is_cleaned else set())
    outcome = job.run(change=lambda context: setattr(context, "times_due", Throttle(0)))
    begin = {event.stage: event.at for event in reversed(outcome.of(StageStarted))}
    whole = begin["mux"] - begin["run"]
    taken = {one.stage: one.seconds for one in outcome.report.stage_times}
    waits = {"wait-read", "wait-write"}
    assert set(taken) == of_model | ASIDE | waits | {"load", "restore"}
    assert all(taken.values())
    in_turns = sum(seconds for stage, seconds in taken.items() if stage not in ASIDE)
    assert in_turns == pytest.approx(whole, rel=0.03, abs=0.02)
    assert max(taken[stage] for stage in ASIDE) <= whole
    planned = {one.stage: one.planned for one in outcome.report.stage_times}
    unplanned = {stage for stage, seconds in planned.items() if not seconds}
    assert unplanned == {"load", *waits}
    said = [event.seconds for event in outcome.of(StagesTimed)]
    assert all(a.get(k, 0.0) <= b[k] for a, b in pairwise(said) for k in b)
    assert said[-1].keys() == taken.keys()
