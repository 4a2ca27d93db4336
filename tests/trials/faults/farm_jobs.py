"""Jobs of several machines, one of which fails at a random moment."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.farm.host import hand_out_at
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.run import run_job
from engine.protocol.events import Event, SegmentDone
from engine.workers import team
from tests.engine.workers.test_hand_out import job_of
from tests.helpers.farm_machines import Machine, paired
from tests.helpers.jobs import SEGMENT_FRAMES, plan_of, run, segment_files, settings_of
from tests.helpers.relay import Relay
from tests.helpers.seedvr2 import make_three_shots
from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import INCOMPLETE, INTERNAL, LOST, OK, Outcome

_MACHINES = 3
_SHOTS = (24, 24, 24)
_FREEZE_S, _CUT_S = 60.0, 3.0  # the freeze ends with the job at the latest
_SILENCE = "10s"
_START_S = 120.0  # that machines have to load their libraries
_CLEAN_S = 30.0  # after a job, that machines have to clean up


class FarmJobs(Group):
    """Each job must end with the right segments, and nothing be left on a machine."""

    name = "farm jobs"
    rows = (
        "kill",
        "freeze",
        "stall",
        "cut link",
        "full disk",
        "wrong bytes",
        "wrong version",
        "weights",
    )
    usual = 100
    limit_s = 600.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        film = make_three_shots(folder / "film.mkv", _SHOTS, "64x48")
        plan = plan_of(film, folder / "out.mkv", settings_of("seedvr2", folder))
        self._plan = replace(plan, segment_frames=SEGMENT_FRAMES, span_segments=2)
        run(self._plan, folder / "right")
        self._right = segment_files(folder / "right")
        team._GONE_S = _START_S
        self._endpoint, self._machines = paired(folder / "farm", _MACHINES, silence=_SILENCE)
        self._stack = ExitStack()
        self._relays = [
            self._stack.enter_context(Relay(self._endpoint.port)) for _ in range(_MACHINES)
        ]
        for machine, relay in zip(self._machines, self._relays, strict=True):
            machine.address = f"127.0.0.1:{relay.port}"
            self._give_weights(machine)
            machine.start()

    def run(self, number: int) -> Outcome:
        """Let one machine fail, and compare."""
        chance = self.chances(number)
        which, when = chance.randrange(_MACHINES), chance.randrange(1, len(self._right) // 2)
        begin, end = self._fault(self.row(number), which)
        timer = threading.Timer(0, begin)
        events = _Events(when, timer.start)
        if self.row(number) in ("wrong version", "weights"):
            events.act()
        folder = self.folder / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            self._run(folder, events)
        except Exception as err:
            return Outcome(INTERNAL, "", f"{type(err).__name__}: {err}")
        finally:
            timer.cancel()
            end()
        if segment_files(folder) != self._right:
            return Outcome(INCOMPLETE, "", f"{len(segment_files(folder))} segments")
        return self._left(folder) or Outcome(OK)

    def _run(self, folder: Path, events: _Events) -> None:
        context = job_of(self._plan, folder, 0, events)
        context.hand_out = partial(hand_out_at, self._endpoint)
        run_job(context, Checkpoint(folder), overwrite=True)

    def _fault(self, row: str, which: int) -> tuple[Callable[[], None], Callable[[], None]]:
        """What begins a fault of a machine, and what ends it."""
        machine, relay = self._machines[which], self._relays[which]
        thaw = partial(machine.signal, signal.SIGCONT)

        def freeze() -> None:
            machine.signal(signal.SIGSTOP)
            threading.Timer(_FREEZE_S, thaw).start()

        def cut() -> None:
            relay.cut()
            time.sleep(_CUT_S)
            relay.mend()

        match row:
            case "kill":
                return partial(machine.signal, signal.SIGKILL), _nothing
            case "freeze":
                return freeze, thaw
            case "cut link":
                return cut, relay.mend
            case "weights":
                return partial(_change_last_byte, machine.models), partial(
                    self._give_weights, machine
                )
        fault = {
            "stall": "stall",
            "full disk": "disk",
            "wrong bytes": "bytes",
            "wrong version": "version",
        }[row]
        return partial(machine.go_wrong, fault), partial(machine.go_wrong, "")

    def _give_weights(self, machine: Machine) -> None:
        for file in self._plan.work.weights_files:
            shutil.copy2(file.path, machine.models / file.path.name)

    def _left(self, folder: Path) -> Outcome | None:
        """What is left of a job where nothing may be."""
        end = time.monotonic() + _CLEAN_S
        while time.monotonic() < end:
            found = [path for one in self._machines for path in one.leftovers]
            found += folder.glob("*.part")
            if not found:
                return None
            time.sleep(0.2)
        return Outcome(LOST, "", f"{found[0].name} is left")


class _Events:
    """Does something once, when so many segments are done."""

    def __init__(self, segments: int, act: Callable[[], None]) -> None:
        self._left, self._act = segments, act

    def act(self) -> None:
        """Do it now."""
        act, self._act = self._act, _nothing
        with contextlib.suppress(RuntimeError):
            act()

    def emit(self, event: Event) -> None:
        if isinstance(event, SegmentDone):
            self._left -= 1
            if self._left == 0:
                self.act()


def _nothing() -> None:
    pass


def _change_last_byte(folder: Path) -> None:
    for path in folder.iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
