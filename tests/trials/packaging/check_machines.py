"""Has a packed program make spans of a film for another process, as one on another computer does.

    python -m tests.trials.packaging.check_machines dist/upreel/upreel-cli
    python -m tests.trials.packaging.check_machines --windows-paths wine dist/upreel/upreel-cli.exe

The film is this process's, and the two are paired. Prints a line for each step with its seconds;
the exit status is 0 if all passed.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.core.control import Control
from engine.farm import present
from engine.farm.endpoint import Endpoint, own_endpoint
from engine.farm.host import hand_out_at
from engine.farm.identity import Peers
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext
from engine.pipeline.run import run_job
from engine.protocol.events import Event, Warned
from engine.protocol.plan import Plan, WorkerPlan
from engine.video.read.probe import probe
from tests.helpers.farm import certificate_of, computer
from tests.helpers.farm_machines import free_port
from tests.helpers.jobs import SEGMENT_FRAMES, plan_of, run, settings_of
from tests.helpers.seedvr2 import make_three_shots
from tests.trials.packaging.packed_program import PackedProgram, try_program, until
from tests.trials.packaging.trial import expect

_SHOTS = (40, 40, 40)  # frames
_MOST_S = 180.0  # of jobs: the program takes some seconds to start, on a busy machine many


class Warnings:
    """Keeps the warnings of a job."""

    def __init__(self) -> None:
        self.all: list[Warned] = []

    def emit(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, Warned):
            self.all.append(event)


def paired(program: PackedProgram) -> Endpoint:
    """Make the program and this process known to each other; where this one lets it in."""
    host = program.folder / "host"
    certificates = [certificate_of(folder) for folder in (host, program.data)]
    with computer(program.data):
        Peers().add(certificates[0], "host", "")
    with computer(host):
        Peers().add(certificates[1], "program", "")
        return replace(own_endpoint(free_port()), network="127.0.0.1")


def makes_spans(program: PackedProgram) -> None:
    """It makes spans of jobs of this process, whose results stay the same, and ends with Ctrl-C.

    Raises:
        TrialFailed: It does not.
    """
    film = make_three_shots(program.folder / "film.mkv", _SHOTS, "64x48")
    settings = settings_of("lite", program.folder)
    plan = plan_of(film, program.folder / "out.mkv", settings)
    plan = replace(plan, segment_frames=SEGMENT_FRAMES)
    run(plan, program.folder / "alone")
    alone = _segments(program.folder / "alone")
    endpoint = paired(program)
    child = program.start("worker", "--address", f"127.0.0.1:{endpoint.port}")
    with _spans_made() as spans:
        begin = time.monotonic()
        for number in itertools.count():
            expect(child.is_running, "the program has ended")
            expect(time.monotonic() - begin < _MOST_S, "the program has made no span")
            folder = program.folder / f"together {number}"
            warnings = _made_together(plan, folder, endpoint)
            expect(not warnings, f"warnings: {warnings}")
            together = _segments(folder)
            expect(list(together) == list(alone), "segments lack")
            if not program.is_for_windows:  # another build of torch may round in another way
                expect(together == alone, "segments differ")
            if max(spans):
                break
    child.interrupt()
    program.wait(child)
    until(lambda: not program.spawned(), "processes are left")
    left = [path for path in (program.folder / "cache").rglob("lent/*")]
    expect(not left, f"it has left {left}")


def _made_together(plan: Plan, folder: Path, endpoint: Endpoint) -> list[Warned]:
    """A job that lets others in; its warnings."""
    folder.mkdir()
    plan = replace(plan, workers=(WorkerPlan(),), output=folder / "out.mkv")
    warnings = Warnings()
    context = JobContext(
        job_id="job",
        media=probe(plan.source),
        plan=plan,
        control=Control(),
        events=warnings,
        hand_out=partial(hand_out_at, endpoint),
    )
    run_job(context, Checkpoint(folder), overwrite=True)
    return warnings.all


@contextmanager
def _spans_made() -> Iterator[list[int]]:
    """How many spans others have made of a job, each time that this is known; begins with 0."""
    spans = [0]
    end = present.on_change(lambda: spans.append(sum(one.spans_done for one in present.present())))
    try:
        yield spans
    finally:
        end()


def _segments(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("segment_*"))}


if __name__ == "__main__":
    steps = {"the program makes spans for another process": makes_spans}
    sys.exit(try_program(__doc__.splitlines()[0], steps))
