"""Jobs whose segments are made by worker processes: equal to one process, whatever happens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext
from engine.pipeline.run import run_job
from engine.protocol.events import Event, SegmentDone, StageProgress, Warned, WorkerProgress
from engine.protocol.plan import Plan, WorkerPlan
from engine.video.read.probe import probe
from engine.workers.hand_out import hand_out
from tests.helpers.jobs import SEGMENT_FRAMES, plan_of, run, settings_of
from tests.helpers.seedvr2 import make_three_shots

SHOTS = (9, 3, 5)


class Events:
    """Keeps events, and calls something with each."""

    def __init__(self, answer: Callable[[Event], None] = lambda event: None) -> None:
        self.all: list[Event] = []
        self._answer = answer

    def emit(self, event: Event) -> None:
        self.all.append(event)
        self._answer(event)

    def of(self, kind: type) -> list:
        return [event for event in self.all if isinstance(event, kind)]


def planned(kind: str, folder: Path, *, shots: tuple[int, ...] = SHOTS) -> Plan:
    film = make_three_shots(folder / "film.mkv", shots, "60x44" if kind == "wan-2x" else "64x48")
    plan = plan_of(film, folder / "out.mkv", settings_of(kind, folder))
    return replace(plan, segment_frames=SEGMENT_FRAMES)


def with_workers(
    plan: Plan, folder: Path, count: int, events: Events, control: Control | None = None
) -> JobContext:
    """Run a job with worker processes in a folder."""
    folder.mkdir(exist_ok=True)
    plan = replace(plan, workers=(WorkerPlan(),) * count, output=folder / "out.mkv")
    context = JobContext(
        job_id="job",
        media=probe(plan.source),
        plan=plan,
        control=control or Control(),
        events=events,
        hand_out=hand_out,
    )
    run_job(context, Checkpoint(folder), overwrite=True)
    return context


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("segment_*"))}


def children() -> list[psutil.Process]:
    return [
        one
        for one in psutil.Process().children(recursive=True)
        if "spawn_main" in " ".join(one.cmdline())
    ]


def test_two_workers_make_the_segments_of_one_process(tmp_path: Path) -> None:
    plan, events = planned("lite", tmp_path), Events()
    run(plan, tmp_path / "one")
    context = with_workers(plan, tmp_path / "two", 2, events)
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert {one.segment for one in events.of(SegmentDone)} == set(range(5))
    assert not events.of(Warned)
    assert events.of(StageProgress)
    assert context.workers_peak_bytes > 2 * 2**27
    assert not children()
