"""Damaged sound never costs a job: what a muxer refuses is left out before the first frame."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from engine.core.control import Control
from engine.protocol.events import JobEvent, SegmentDone, Warned
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.read import media_file
from engine.video.read.probe import probe
from engine.video.write.mux import tried
from tests.helpers.clips import (
    FILM,
    FIRST_SOUND,
    leap_ahead,
    lose_packets,
    make_clip,
    with_unseen_sound,
)
from tests.helpers.jobs import plan_of, run

FAST = JobSettings(model="none", speed="fast")


def results(events: list[JobEvent], output: Path) -> list[str]:
    """Codes of what was said before the first segment was finished; the result is there."""
    assert output.is_file()
    first = next(n for n, event in enumerate(events) if isinstance(event, SegmentDone))
    warned = [event.notice for event in events if isinstance(event, Warned)]
    early = [event.notice for event in events[:first] if isinstance(event, Warned)]
    assert warned == early
    return [notice.code for notice in early]


@pytest.mark.parametrize("container", ["mkv", "mp4", "mov"])
def test_a_lost_packet_of_a_broadcast_costs_one_packet_of_sound(
    tmp_path: Path, container: str
) -> None:
    whole = make_clip(tmp_path / "whole.ts", frames=12, size=(64, 48), audio_tracks=1)
    source = lose_packets(whole, tmp_path / "a.ts", 10)
    plan = plan_of(source, tmp_path / f"out.{container}", FAST)
    events = run(plan, tmp_path / "jobs")
    assert results(events, plan.output) == ["packets-lost", "packets-dropped"]
    media = probe(source)
    report = verify(media, plan.output, plan=tried(media, plan, Control()))
    assert report.passed, [str(check.message) for check in report.checks]
    content = next(check for check in report.checks if check.code == "stream-content")
    assert "1 damaged packet" in str(content.message)


def test_a_stream_that_only_the_middle_of_a_recording_has_is_named(tmp_path: Path) -> None:
    whole = make_clip(tmp_path / "whole.ts", frames=50, size=(64, 48), audio_tracks=1)
    source = with_unseen_sound(whole, tmp_path / "a.ts")
    plan = plan_of(source, tmp_path / "out.mkv", FAST)
    assert results(run(plan, tmp_path / "jobs"), plan.output) == ["streams-unseen"]


def test_damaged_frames_look_the_same_when_they_are_compared(tmp_path: Path) -> None:
    """Threads of a decoder change how it conceals what is missing."""
    whole = make_clip(tmp_path / "a.ts", frames=48, size=(192, 128), gop=24)
    media = probe(lose_packets(whole, tmp_path / "b.ts", 30, 60, 90, pid=FILM))
    plan = plan_of(media.path, tmp_path / "out.mkv", JobSettings(model="none", codec="ffv1"))
    run(plan, tmp_path / "jobs")
    report = verify(media, plan.output, plan=plan)
    assert report.passed
    assert report.likeness_min > 0.999


def test_time_stamps_of_damaged_sound_are_repaired(tmp_path: Path) -> None:
    how = {"frames": 25, "size": (64, 48), "audio_tracks": 1, "audio_codec": "mp2"}
    whole = make_clip(tmp_path / "whole.ts", **how)
    source = lose_packets(whole, tmp_path / "a.ts", 45)
    for container in ("mkv", "mp4"):
        plan = plan_of(source, tmp_path / f"out.{container}", FAST)
        assert results(run(plan, tmp_path / container), plan.output) == ["packets-lost"]
        report = verify(probe(source), plan.output, plan=plan)
        assert report.passed, [str(check.message) for check in report.checks]


def test_a_stream_that_was_announced_and_never_sent_is_left_out(tmp_path: Path) -> None:
    whole = make_clip(tmp_path / "whole.ts", frames=12, size=(64, 48), audio_tracks=1)
    source = lose_packets(whole, tmp_path / "a.ts")
    assert probe(source).streams
    for container in ("mkv", "mp4"):
        plan = plan_of(source, tmp_path / f"out.{container}", FAST)
        (notice,) = (one for one in plan.notices if one.code == "stream-left-out")
        assert "the beginning of the file has nothing of it" in notice.message
        assert results(run(plan, tmp_path / container), plan.output) == []
        assert not probe(plan.output).streams


def test_a_stream_that_was_never_sent_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads 64 MB, and a job opens its source twenty times."""
    whole = make_clip(tmp_path / "whole.ts", frames=12, size=(64, 48), audio_tracks=1)
    source = lose_packets(whole, tmp_path / "a.ts")
    opened, looks = media_file._container, list[bool]()
    monkeypatch.setattr(
        media_file, "_container", lambda file, **how: looks.append(bool(how)) or opened(file, **how)
    )
    first = probe(source)
    plan = plan_of(source, tmp_path / "out.mkv", FAST)
    assert results(run(plan, tmp_path / "jobs"), plan.output) == []
    assert verify(first, plan.output, plan=plan).passed
    assert sum(looks) == 1
    assert probe(source) == first


def test_sound_of_a_joined_recording_stays_with_its_picture(tmp_path: Path) -> None:
    how = {"size": (64, 48), "audio_tracks": 1}
    first = make_clip(tmp_path / "first.ts", frames=25, **how)
    second = make_clip(tmp_path / "second.ts", frames=40, **how)
    joined = tmp_path / "joined.ts"
    joined.write_bytes(first.read_bytes() + second.read_bytes() + first.read_bytes())
    late = end_times(first)  # by how much sound ends after the picture
    for container in ("mkv", "mp4"):
        plan = plan_of(joined, tmp_path / f"out.{container}", FAST)
        run(plan, tmp_path / container)
        report = verify(probe(joined), plan.output, plan=plan)
        assert report.passed, [str(check.message) for check in report.checks]
        assert end_times(plan.output) == pytest.approx(late, abs=0.002)


@pytest.mark.parametrize("pid", [FILM, FIRST_SOUND])
def test_a_time_stamp_with_bit_errors_moves_nothing_else(tmp_path: Path, pid: int) -> None:
    whole = make_clip(tmp_path / "whole.ts", frames=25, size=(64, 48), audio_tracks=1)
    source = leap_ahead(whole, tmp_path / "a.ts", 3, pid=pid)
    for container in ("mkv", "mp4"):
        plan = plan_of(source, tmp_path / f"out.{container}", FAST)
        run(plan, tmp_path / container)
        report = verify(probe(source), plan.output, plan=plan)
        assert report.passed, [str(check.message) for check in report.checks]
        assert end_times(plan.output) == pytest.approx(end_times(whole), abs=0.002)


def end_times(path: Path) -> float:
    """How much later than the last picture the last sound begins, s."""
    with av.open(str(path)) as file:
        times = {"video": 0.0, "audio": 0.0}
        for packet in file.demux():
            if packet.pts is not None:
                kind = packet.stream.type
                times[kind] = max(times[kind], float(packet.pts * packet.time_base))
    return times["audio"] - times["video"]
