"""What jobs of every family of models keep to: they stop and go on, and are proved or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import Cancelled
from engine.jobs.checkpoint import Checkpoint
from engine.protocol.events import SegmentDone
from engine.verification.verify import verify
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import KINDS, USUAL_KINDS, SmallJob, planes_of, run
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg

EACH = pytest.mark.parametrize("kind", rest_extended(KINDS, *USUAL_KINDS))
STOPS = (1, 3)  # segments of five


@EACH
def test_a_job_that_was_stopped_goes_on_with_the_same_pictures(
    kind: str, jobs: Callable[[str], SmallJob], tmp_path: Path
) -> None:
    job = jobs(kind)
    right = job.right(job.plan.work)
    plan = replace(job.plan, output=tmp_path / "out.mkv")
    for stop_after in STOPS:
        with pytest.raises(Cancelled):
            run(plan, tmp_path / "job", stop_after=stop_after)
        assert not plan.output.exists()
    kept = Checkpoint(tmp_path / "job").records
    assert len(kept) >= STOPS[-1]
    events = run(plan, tmp_path / "job")
    made = [event.segment for event in events if isinstance(event, SegmentDone)]
    assert made == list(range(len(kept), made[-1] + 1)), "a finished segment was made again"
    found = planes_of(plan.output)
    assert all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))


@NEEDS_FFMPEG
@EACH
def test_a_result_is_proved_and_one_without_a_frame_is_not(
    kind: str, jobs: Callable[[str], SmallJob], tmp_path: Path
) -> None:
    job, short = jobs(kind), tmp_path / "short.mkv"
    report = job.run().report
    proved = verify(job.plan.source, report.output)
    # models of random numbers make pictures that look like nothing
    assert {check.code for check in proved.problems} <= {"likeness"}
    words = ("-vf", "select=not(eq(n\\,5))", "-fps_mode", "passthrough", "-c:v", "ffv1")
    ffmpeg("-i", report.output, *words, short)
    found = {check.code for check in verify(job.plan.source, short).problems}
    assert {"frame-count"} <= found
