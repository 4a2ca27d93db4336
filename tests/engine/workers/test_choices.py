"""Workers of a job compute by the same choices, whatever their own trials prefer."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.run import run_job
from engine.protocol.events import Warned
from engine.workers.hand_out import hand_out
from tests.engine.workers.other_device import OtherDevice
from tests.engine.workers.test_hand_out import job_of
from tests.helpers.choices import devices, kept
from tests.helpers.jobs import Events, run, segment_files, small_plan

pytestmark = pytest.mark.usefixtures("figures_of_published_vaes")
IN_PLACE = "onednn on cpu: sums in place"


def made_by_workers(folder: Path, *, has_begun_with: bool) -> Events:
    """Make a job by two workers, the second one of which does not add in place.

    Args:
        folder: For everything.
        has_begun_with: Whether a first segment was made with sums in place.
    """
    plan, events = small_plan("wan-2x", folder), Events()
    with devices() as device:
        device(adds_in_place=has_begun_with)
        run(plan, folder / "one")
        context = job_of(plan, folder / "two", 2, events)
        checkpoint = Checkpoint(folder / "two")
        checkpoint.choices.agree(IN_PLACE, "used" if has_begun_with else "not used")
        context.hand_out = partial(hand_out, worker=OtherDevice)
        run_job(context, checkpoint, overwrite=True)
    return events


@pytest.mark.slow
def test_all_workers_follow_a_job_that_was_begun_without_an_operator(tmp_path: Path) -> None:
    events = made_by_workers(tmp_path, has_begun_with=False)
    assert not events.of(Warned)
    assert kept(tmp_path / "two") == {IN_PLACE: "not used"}
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")


@pytest.mark.usefixtures("deaths")
def test_a_worker_that_cannot_follow_is_left_out_at_once(tmp_path: Path) -> None:
    events = made_by_workers(tmp_path, has_begun_with=True)
    (notice,) = (one.notice for one in events.of(Warned))
    assert (notice.code, notice.params["worker"], notice.params["count"]) == (
        "worker-left-out",
        "2",
        "1",
    )
    assert str(notice.params["why"]).startswith("The job was started with “sums in place”")
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
