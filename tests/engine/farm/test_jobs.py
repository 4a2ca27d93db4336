"""Other machines make spans of a film, over TLS: equal files, whoever comes and goes."""

from __future__ import annotations

import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import Cancelled
from engine.farm import planning, present
from engine.farm.endpoint import Endpoint
from engine.farm.errors import PortTaken
from engine.farm.host import hand_out_at
from engine.farm.identity import Peers
from engine.jobs.checkpoint import Checkpoint
from engine.ops.conv import temporal_conv
from engine.pipeline.run import run_job
from engine.planner.rates import load_rates
from engine.protocol.events import Event, SegmentDone, Warned
from engine.protocol.machines import MachineInfo
from engine.protocol.plan import Plan
from engine.workers.hand_out import WorkerKind
from engine.workers.worker import SpanWorker
from tests.engine.workers.test_hand_out import StallingWorker, job_of, made_by_one, planned
from tests.helpers.clips import make_clip
from tests.helpers.farm import computer
from tests.helpers.farm_machines import Machine, paired, running, until
from tests.helpers.jobs import (
    KINDS,
    SEGMENT_FRAMES,
    Events,
    plan_of,
    run,
    segment_files,
    settings_of,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="machines are signalled as Linux does it"),
    pytest.mark.usefixtures("deaths", "figures_of_published_vaes"),
]
LONG = (40, 40, 40)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that loads its libraries next to other tests is slow."""
    monkeypatch.setattr("engine.workers.team._GONE_S", 120.0)


@dataclass(slots=True)
class Seen:
    """What was shown of machines."""

    all: list[tuple[MachineInfo, ...]] = field(default_factory=list)

    def look(self) -> None:
        self.all.append(present.present())

    def states(self, name: str) -> list[str]:
        """States of a machine, one after the other."""
        found = [one.state for shown in self.all for one in shown if one.name == name]
        return [one for one, before in zip(found, [None, *found], strict=False) if one != before]

    def spans(self, name: str) -> int:
        """Most that a machine has made."""
        found = [one.spans_done for shown in self.all for one in shown if one.name == name]
        return max(found, default=0)


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    end = present.on_change(found.look)
    yield found
    end()


def with_machines(
    plan: Plan,
    folder: Path,
    endpoint: Endpoint,
    *,
    local: int = 0,
    answer: Callable[[Event], None] = lambda event: None,
    worker: WorkerKind = SpanWorker,
) -> Events:
    """Run a job that lets machines in."""
    events = Events(answer=answer)
    context = job_of(plan, folder, local, events)
    context.hand_out = partial(hand_out_at, endpoint, worker=worker)
    run_job(context, Checkpoint(folder), overwrite=True)
    return events


def made_together(
    plan: Plan, folder: Path, endpoint: Endpoint, others: list[Machine], **how: Any
) -> Events:
    """Run a job with machines, which make the segments that one process has made."""
    with running(others):
        events = with_machines(plan, folder / "farm", endpoint, **how)
    assert segment_files(folder / "farm") == segment_files(folder / "one")
    return events


def after(segments: int, act: Callable[[], None]) -> Callable[[Event], None]:
    """Do something once, when so many segments are done."""
    done: list[Event] = []

    def answer(event: Event) -> None:
        if isinstance(event, SegmentDone):
            done.append(event)
            if len(done) == segments:
                act()

    return answer


def codes(events: Events) -> list[str]:
    return [f"{one.notice.code}.{one.notice.case}".strip(".") for one in events.of(Warned)]


def test_a_machine_makes_the_segments_of_one_process(tmp_path: Path, seen: Seen) -> None:
    plan = made_by_one("lite", tmp_path)
    endpoint, others = paired(tmp_path, 1)
    events = made_together(plan, tmp_path, endpoint, others)
    assert not events.of(Warned)
    assert seen.states("machine 1")[-2:] == ["working", "away"]
    assert seen.spans("machine 1") == 5
    assert present.present() == ()
    assert others[0].said[:1] == [f"working 127.0.0.1:{endpoint.port}"]
    (fingerprint,) = endpoint.names
    assert planning.machine_rate(plan, fingerprint, load_rates()) is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_machines(kind: str, count: int, tmp_path: Path) -> None:
    plan = made_by_one(kind, tmp_path)
    endpoint, others = paired(tmp_path, count)
    for file in plan.work.weights_files:
        for one in others:
            (one.models / file.path.name).write_bytes(file.path.read_bytes())
    events = made_together(plan, tmp_path, endpoint, others, local=1)
    assert not events.of(Warned)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["film.mp4", "film.mkv", "film.ts"])
def test_a_source_of_any_container_is_read_there(name: str, tmp_path: Path) -> None:
    film = make_clip(tmp_path / name, frames=50, size=(64, 48), audio_tracks=1, gop=10)
    plan = plan_of(film, tmp_path / "out.mkv", settings_of("lite", tmp_path))
    plan = replace(plan, segment_frames=SEGMENT_FRAMES)
    run(plan, tmp_path / "one")
    endpoint, others = paired(tmp_path, 1)
    made_together(plan, tmp_path, endpoint, others)


@pytest.mark.slow
def test_a_machine_that_joins_late_helps(tmp_path: Path, seen: Seen) -> None:
    plan = made_by_one("lite", tmp_path, shots=LONG)
    endpoint, (first, second) = paired(tmp_path, 2)
    made_together(plan, tmp_path, endpoint, [first], answer=after(2, second.start))
    assert second.end() == 0
    assert seen.spans("machine 1") >= 3


@pytest.mark.slow
@pytest.mark.parametrize("way", ["pause", "kill", "freeze", "off"])
def test_a_machine_that_leaves_loses_its_span_only(way: str, tmp_path: Path, seen: Seen) -> None:
    plan = made_by_one("lite", tmp_path, shots=LONG)
    endpoint, (first, second) = paired(tmp_path, 2, silence="3s")

    def leave() -> None:
        match way:
            case "pause":
                first.tell("pause")
            case "kill":
                first.signal(signal.SIGKILL)
            case "freeze":
                first.signal(signal.SIGSTOP)
            case "off":
                first.kill()

    first.start()
    events = made_together(plan, tmp_path, endpoint, [second], answer=after(3, leave), local=1)
    first.signal(signal.SIGCONT)
    if way != "off":
        assert first.end() == 0
        assert not first.leftovers
    assert not events.of(Warned)
    done = [one.segment for one in events.of(SegmentDone)]
    assert sorted(done) == list(range(30))
    if way == "pause":
        assert "paused" in seen.states("machine 1")


@pytest.mark.slow
def test_what_crashed_is_cleaned_at_the_next_start(tmp_path: Path) -> None:
    plan = planned("lite", tmp_path, shots=LONG)
    endpoint, (one,) = paired(tmp_path, 1)
    one.start()
    with_machines(plan, tmp_path / "farm", endpoint, answer=after(3, one.kill), local=1)
    (one.folder / "lent" / "0").mkdir(parents=True, exist_ok=True)
    (one.folder / "lent" / "0" / "segment_000001.mkv").write_bytes(b"of a job that crashed")
    with running([one]):
        pass
    assert not (one.folder / "lent").exists()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["bytes", "disk", "crash", "nothing"])
def test_a_machine_that_fails_three_times_is_left_out(
    fault: str, tmp_path: Path, seen: Seen, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("engine.workers.pool")  # logs what a machine raises
    plan = made_by_one("lite", tmp_path, shots=LONG)
    endpoint, others = paired(tmp_path, 2)
    others[0].go_wrong(fault)
    events = made_together(plan, tmp_path, endpoint, others)
    assert codes(events) == ["worker-left-out.machine"]
    text = events.of(Warned)[0].notice.message
    assert "“machine 1” failed 3 times" in text
    assert seen.states("machine 1")[-1] == "left-out"
    assert not list((tmp_path / "farm").glob("*.part"))


@pytest.mark.slow
@pytest.mark.parametrize("begun", ["used", "not used"])
def test_a_machine_computes_by_the_choices_of_the_job_or_is_left_out_at_once(
    begun: str, tmp_path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own trial would choose otherwise each time."""
    monkeypatch.setattr("engine.workers.team._GONE_S", 30.0)  # there is no other worker
    in_place = temporal_conv._fault_in_place()
    assert not in_place, "this processor cannot show it"
    with monkeypatch.context() as patch:
        patch.setattr(temporal_conv, "_fault_in_place", lambda: "" if begun == "used" else "no")
        plan = made_by_one("wan-2x", tmp_path)
        with pytest.raises(Cancelled):
            run(plan, tmp_path / "farm", stop_after=1)
    endpoint, (other,) = paired(tmp_path, 1)
    for file in plan.work.weights_files:
        (other.models / file.path.name).write_bytes(file.path.read_bytes())
    other.go_wrong("sums in place" if begun == "used" else "")
    events = made_together(plan, tmp_path, endpoint, [other], local=0)
    if begun == "used":
        assert codes(events) == ["worker-left-out.machine", "workers-gone"]
        text = events.of(Warned)[0].notice.message
        assert "“machine 1” failed 1 time" in text
        assert "The job was started with “sums in place” by oneDNN" in text
        assert seen.spans("machine 1") == 0
        assert seen.states("machine 1")[-1] == "left-out"
    else:
        assert not events.of(Warned)
        assert seen.spans("machine 1") > 0


def stalled(machine: Machine) -> Callable[[Event], None]:
    """A machine stalls once it has made a span; its connection lives."""

    def answer(event: Event) -> None:
        if any(one.spans_done for one in present.present()):
            machine.go_wrong("stall")

    return answer


@pytest.mark.slow
def test_without_others_the_process_of_the_job_makes_what_a_machine_that_stalls_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.workers.team._LEAST_S", 0.5)
    plan = made_by_one("lite", tmp_path, shots=LONG)
    endpoint, others = paired(tmp_path, 1)
    events = made_together(plan, tmp_path, endpoint, others, answer=stalled(others[0]))
    assert codes(events) == ["worker-late.machine", "workers-gone"]


@pytest.mark.slow
def test_a_machine_that_stalls_delays_a_job_by_a_third_at_most(tmp_path: Path) -> None:
    """Measured: docs/reliability.md has the figures."""
    plan = made_by_one("lite", tmp_path, shots=LONG)
    endpoint, others = paired(tmp_path, 1)
    slow = partial(StallingWorker, seconds=1.0)
    begin = time.monotonic()
    with_machines(plan, tmp_path / "alone", endpoint, local=1, worker=slow)
    alone = time.monotonic() - begin
    with running(others):
        begin = time.monotonic()
        events = with_machines(
            plan, tmp_path / "farm", endpoint, local=1, answer=stalled(others[0]), worker=slow
        )
        together = time.monotonic() - begin
    assert segment_files(tmp_path / "farm") == segment_files(tmp_path / "one")
    assert codes(events) == ["worker-late.machine"]
    assert "“machine 1” takes too long" in events.of(Warned)[0].notice.message
    print(f"{together:.1f} s with it, {alone:.1f} s without")
    assert together < 1.3 * alone


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["nonsense", "another span", "silence", "version"])
def test_what_a_machine_reports_harms_no_job(fault: str, tmp_path: Path, seen: Seen) -> None:
    plan = made_by_one("lite", tmp_path)
    endpoint, others = paired(tmp_path, 2)
    others[0].go_wrong(fault)
    events = made_together(plan, tmp_path, endpoint, others)
    is_refused = fault == "version"
    assert set(codes(events)) <= {"machine-refused" if is_refused else "worker-left-out.machine"}
    if is_refused:
        assert any("not used" in line or "refused" in line for line in others[0].said)
        assert seen.spans("machine 1") == 0


@pytest.mark.slow
def test_a_machine_that_is_forgotten_is_sent_away_at_once(tmp_path: Path, seen: Seen) -> None:
    plan = made_by_one("lite", tmp_path, shots=LONG)
    endpoint, (first, second) = paired(tmp_path, 2)

    def forget() -> None:
        until(lambda: "working" in seen.states("machine 1"))
        with computer(tmp_path / "host"):
            Peers().forget(Peers().named("machine 1").fingerprint)
        until(lambda: seen.states("machine 1")[-1:] == ["away"], 10)

    first.start()
    events = made_together(plan, tmp_path, endpoint, [second], answer=after(2, forget), local=1)
    assert first.end() == 0
    assert not first.leftovers
    assert not events.of(Warned)
    assert seen.states("machine 1")[-2:] == ["working", "away"]
    assert seen.states("machine 1").count("working") == 1, "it does not come again"


@pytest.mark.slow
@pytest.mark.parametrize("has", ["none", "another"])
def test_other_weights_are_refused(has: str, tmp_path: Path, seen: Seen) -> None:
    plan = made_by_one("seedvr2", tmp_path)
    endpoint, (wrong, right) = paired(tmp_path, 2)
    for file in plan.work.weights_files:
        (right.models / file.path.name).write_bytes(file.path.read_bytes())
        if has == "another":
            data = bytearray(file.path.read_bytes())
            data[-1] ^= 1
            (wrong.models / file.path.name).write_bytes(data)
    events = made_together(plan, tmp_path, endpoint, [wrong, right])
    refusals = [one for one in events.of(Warned) if one.notice.code == "machine-refused"]
    why = "is not installed on it" if has == "none" else "is different"
    assert all(why in one.notice.message for one in refusals)
    assert seen.spans("machine 1") == 0
    assert seen.spans("machine 2") > 0


@pytest.mark.slow
def test_without_any_machine_the_process_of_the_job_makes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.workers.team._GONE_S", 1.0)
    plan = made_by_one("lite", tmp_path)
    endpoint, _ = paired(tmp_path, 1)
    events = made_together(plan, tmp_path, endpoint, [])
    assert codes(events) == ["workers-gone"]


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    plan = planned("lite", tmp_path)
    endpoint, _ = paired(tmp_path, 1)
    with socket.create_server(("127.0.0.1", endpoint.port)), pytest.raises(PortTaken) as raised:
        with_machines(plan, tmp_path / "farm", endpoint)
    assert str(endpoint.port) in raised.value.message


@pytest.mark.slow
def test_a_stranger_gets_no_answer(tmp_path: Path) -> None:
    plan = planned("lite", tmp_path, shots=LONG)
    endpoint, others = paired(tmp_path, 1)
    (tmp_path / "elsewhere").mkdir()
    _, strangers = paired(tmp_path / "elsewhere", 1)
    stranger: Machine = strangers[0]
    stranger.address = others[0].address
    answers: list[bytes | Exception] = []

    def ask() -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with (
                socket.create_connection(("127.0.0.1", endpoint.port), 5) as plain,
                context.wrap_socket(plain) as one,
            ):
                one.sendall(bytes(64))
                answers.append(one.recv(1))
        except OSError as err:
            answers.append(err)

    with running([*others, stranger]):
        with_machines(plan, tmp_path / "farm", endpoint, answer=after(2, ask))
    assert len(answers) == 1
    assert isinstance(answers[0], OSError) or answers[0] == b""
    assert stranger.said == []
