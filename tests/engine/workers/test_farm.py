"""Other machines make spans of a film, over TLS: equal files, whoever comes and goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext
from engine.pipeline.run import run_job
from engine.protocol.events import SegmentDone, Warned
from engine.protocol.machines import MachineInfo
from engine.protocol.plan import Plan, WorkerPlan
from engine.video.read.probe import probe
from engine.workers import machines
from engine.workers.door import Door
from engine.workers.hand_out import hand_out
from tests.engine.workers.test_hand_out import Events, files, planned
from tests.helpers.farm_machines import lent, paired
from tests.helpers.jobs import run


def with_machines(plan: Plan, folder: Path, door: Door, events: Events, local: int = 1) -> None:
    """Run a job that lets machines in."""
    folder.mkdir(exist_ok=True)
    plan = replace(plan, workers=(WorkerPlan(),) * local, output=folder / "out.mkv")
    context = JobContext(
        job_id="job",
        media=probe(plan.source),
        plan=plan,
        control=events.control,
        events=events,
        hand_out=partial(hand_out, door=door),
    )
    run_job(context, Checkpoint(folder), overwrite=True)


class Seen:
    """Keeps what was shown of machines."""

    def __init__(self) -> None:
        self.all: list[tuple[MachineInfo, ...]] = []
        self._end = machines.on_change(lambda: self.all.append(machines.present()))

    def end(self) -> None:
        self._end()

    @property
    def spans(self) -> dict[str, int]:
        """Most that each machine has made."""
        return {one.name: one.spans_done for shown in self.all for one in shown}


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    yield found
    found.end()


def test_machines_make_the_segments_of_one_process(tmp_path: Path, seen: Seen) -> None:
    plan, events = planned("lite", tmp_path, shots=(40, 40, 40)), Events()
    run(plan, tmp_path / "one")
    farm = paired(tmp_path, 2)
    with lent(farm, tmp_path):
        t = time.monotonic()
        with_machines(plan, tmp_path / "farm", farm.host, events)
        print("JOB", time.monotonic() - t)
    print("END", time.monotonic() - t)
    for n in seen.all:
        print(n)
    assert files(tmp_path / "farm") == files(tmp_path / "one")
    assert not events.of(Warned)
    assert set(seen.spans) == {"machine 1", "machine 2"}
    assert sum(seen.spans.values()) > 5
    assert machines.present() == ()
    assert not list(tmp_path.glob("lent_*/*"))
