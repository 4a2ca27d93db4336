"""Memory that runs out anywhere: all frames come out, right, with smaller plans, or one clear error."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
import pytest

from engine.errors import OutOfMemory
from engine.events import PlanDowngraded, SegmentDone, Warned
from tests.helpers.figures import tell
from tests.helpers.program import NEEDS_FFMPEG
from tests.helpers.recovery_jobs import KINDS, SHOTS, Outcome, SmallJob, small_job
from tests.helpers.running_out import RunsOut

pytestmark = NEEDS_FFMPEG
FRAMES = sum(SHOTS)
# Lite adds up tiles that see their whole neighbourhood; other numbers of frames and pixels take
# other loops of the library, whose sums in bfloat16 differ in their last bit
LITE_CODES = 1


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], SmallJob]:
    made: dict[str, SmallJob] = {}

    def job(kind: str) -> SmallJob:
        if kind not in made:
            made[kind] = small_job(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return job


def allocations(job: SmallJob) -> int:
    """How many there are from the first file that is opened to the result."""
    counter = RunsOut()
    job.run(counter)
    return counter.count


def assert_right(job: SmallJob, done: Outcome, codes: int = 0) -> None:
    # models of random numbers make pictures that look like nothing
    problems = [each for each in done.report.problems if each.code != "likeness"]
    assert not problems
    assert done.report.passed or job.plan.model.model != "lite"
    assert len(done.pictures) == FRAMES
    for number, (a, b) in enumerate(zip(done.pictures, job.expected(done.events), strict=True)):
        worst = int(np.abs(a.astype(int) - b).max())
        assert worst <= codes, f"frame {number} is wrong by {worst}"
    numbers = [event.segment for event in done.of(SegmentDone)]
    assert numbers == list(range(len(numbers))), "a segment was lost or made twice"
    assert done.of(SegmentDone)[-1].frames_done == FRAMES


def refused_at(job: SmallJob, at: int, kind: str) -> Outcome:
    """Run with the allocation `at` refused; the result is right."""
    mode = RunsOut(at)
    done = job.run(mode)
    assert mode.refused, f"allocation {at} never came"
    changes = [*done.of(PlanDowngraded), *done.of(Warned)]
    assert changes, f"nobody was told about allocation {at}, {mode.refused}"
    assert_right(job, done, LITE_CODES if kind == "lite" else 0)
    if kind == "lite":  # and those of the plan that did not fit are the same pictures
        for a, b in zip(done.pictures, job.right(job.plan.model), strict=True):
            assert int(np.abs(a.astype(int) - b).max()) <= LITE_CODES
    return done


def sampled(count: int, whole: int, more: int) -> list[int]:
    """All of the first `whole` and `more` of the others."""
    later = range(whole + 1, count + 1)
    chosen = random.Random(count).sample(later, min(more, len(later)))
    return [*range(1, min(whole, count) + 1), *sorted(chosen)]


@pytest.mark.parametrize(("kind", "runs"), [("lite", 16), ("seedvr2", 8), ("wan-2x", 10)])
def test_a_refused_allocation_costs_no_frame(
    kind: str, runs: int, jobs: Callable[[str], SmallJob]
) -> None:
    job = jobs(kind)
    for at in sampled(allocations(job), 0, runs):
        refused_at(job, at, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_allocation_may_be_refused(kind: str, jobs: Callable[[str], SmallJob]) -> None:
    """All of the first 300 allocations, and 200 of the later ones."""
    job = jobs(kind)
    count, begin = allocations(job), time.monotonic()
    places = sampled(count, 300, 200)
    smaller = sum(bool(refused_at(job, at, kind).of(PlanDowngraded)) for at in places)
    seconds = time.monotonic() - begin
    tell(
        f"{kind}: {len(places)} of {count} allocations refused, {smaller} times a smaller plan, "
        f"all {FRAMES} frames right each time, {seconds:.0f} s"
    )


def test_memory_that_runs_out_again_and_again_ends_in_one_clear_error(
    jobs: Callable[[str], SmallJob],
) -> None:
    job = jobs("seedvr2")
    with pytest.raises(OutOfMemory) as caught:
        job.run(RunsOut(2000, again=10**9))
    assert "smallest plan" in caught.value.message
    assert "main memory" in caught.value.message
    assert int(caught.value.params["needed"]) > 0 < int(caught.value.params["free"])
    assert "kept" in caught.value.hint
