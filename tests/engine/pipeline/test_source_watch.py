"""Sources that change while their job runs: nothing is made of two of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from engine.core import file_access
from engine.core.errors import CheckpointMismatch, EngineError, SourceMissing, UnreadableMedia
from engine.core.file_access import sampled_mark
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext
from engine.pipeline.prepare import examined_source
from engine.pipeline.run import run_job
from engine.pipeline.source_watch import Fingerprint, SourceWatch
from engine.protocol.events import Event, SegmentDone, StageStarted
from engine.video.read.probe import probe
from engine.video.read.sound import sound_from
from engine.video.write.mux import tried
from tests.helpers.clips import Clip, make_clip, make_pictures
from tests.helpers.jobs import Events, plan_of, segment_files, settings_of

Change = Callable[[Path], None]
FILM = Clip(frames=12, size=(16, 16), audio_tracks=1)


def replaced(source: Path) -> None:
    """Another file takes its place; who has it open reads on in the old one."""
    make_clip(source.with_name("new.mkv"), Clip(frames=12, size=(16, 16))).replace(source)


def other_of_equal_size(source: Path) -> None:
    about, data = source.stat(), bytearray(source.read_bytes())
    data[len(data) // 2] ^= 255
    with source.open("r+b") as file:
        file.write(data)
    os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns + 10**9))


def cut_off(source: Path) -> None:
    os.truncate(source, source.stat().st_size * 2 // 3)


def appended(source: Path) -> None:
    with source.open("ab") as file:
        file.write(bytes(100))


def touched(source: Path) -> None:
    os.utime(source, ns=(0, source.stat().st_mtime_ns + 5 * 10**9))


def away_and_back(source: Path) -> None:
    away = Path(shutil.copy2(source, source.with_name("away.mkv")))
    source.unlink()
    away.replace(source)


def a_job(source: Path, folder: Path, events: Events) -> JobContext:
    plan = plan_of(source, folder / "out.mkv", settings_of("lite", folder))
    plan = replace(plan, segment_frames=4)
    return JobContext(
        job_id="a", media=probe(source), plan=plan, control=events._control, events=events
    )


def at(moment: str, act: Callable[[], None]) -> Events:
    """Do something once, when a segment is done or a stage begins."""
    left = [act]

    def answer(event: Event) -> None:
        is_segment = moment == "segment" and isinstance(event, SegmentDone)
        if left and (is_segment or (isinstance(event, StageStarted) and event.stage == moment)):
            left.pop()()

    return Events(answer=answer)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clip(tmp_path_factory.mktemp("original") / "film.mkv", FILM)


@pytest.fixture(scope="module")
def right(original: Path) -> dict[str, bytes]:
    """Segments of a job that nothing disturbs."""
    run_job(a_job(original, original.parent, Events()), Checkpoint(original.parent), overwrite=True)
    return segment_files(original.parent)


@pytest.fixture
def film(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(file_access, "PAUSES_S", (0.0,))
    return Path(shutil.copy2(original, tmp_path))


@pytest.mark.parametrize("moment", ["segment", "mux", "verify"])
@pytest.mark.parametrize("change", [replaced, other_of_equal_size, cut_off, appended])
def test_a_job_ends_whose_source_has_changed(
    change: Change, moment: str, film: Path, right: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    old = Path(shutil.copy2(film, tmp_path / "old.mkv"))
    context = a_job(film, folder, at(moment, lambda: change(film)))
    context.source = SourceWatch(context.media)
    with pytest.raises(CheckpointMismatch, match=r"film\.mkv has changed") as caught:
        run_job(context, Checkpoint(folder), overwrite=True)
    assert caught.value.hint
    assert not context.plan.output.exists()
    made = segment_files(folder)
    kept = {path: made[path] for path in made if path.replace(".mkv", ".json") in made}
    assert kept
    assert kept.items() <= right.items(), "they stay with the old source"
    old.replace(film)
    again = a_job(film, folder, Events())
    again.source = SourceWatch(again.media, context.source.fingerprint)
    assert run_job(again, Checkpoint(folder), overwrite=True).passed
    assert segment_files(folder).items() >= right.items()


@pytest.mark.parametrize("moment", ["segment", "verify"])
@pytest.mark.parametrize("change", [touched, away_and_back])
def test_the_same_film_is_no_false_alarm(
    change: Change, moment: str, film: Path, tmp_path: Path
) -> None:
    context = a_job(film, tmp_path, at(moment, lambda: change(film)))
    fingerprint = Fingerprint.of(context.media)
    assert run_job(context, Checkpoint(tmp_path), overwrite=True).passed
    assert fingerprint.fits(context.media)


def test_a_film_that_is_gone_is_missing_and_not_another(film: Path, tmp_path: Path) -> None:
    context = a_job(film, tmp_path, at("mux", film.unlink))
    with pytest.raises(SourceMissing):
        run_job(context, Checkpoint(tmp_path), overwrite=True)


@pytest.mark.parametrize("number", [0, 11])
def test_an_image_of_a_sequence_that_changes_ends_the_job(number: int, tmp_path: Path) -> None:
    make_pictures(tmp_path / "shots", 20)
    media = probe(tmp_path / "shots")
    image = sorted((tmp_path / "shots").iterdir())[number]
    context = a_job(media.path, tmp_path, at("segment", lambda: touched(image)))
    context.media = media
    with pytest.raises(CheckpointMismatch):
        run_job(context, Checkpoint(tmp_path), overwrite=True)
    assert Checkpoint(tmp_path).frames < 20


def test_samples_cover_all_of_a_small_file_and_both_ends_of_a_large_one(tmp_path: Path) -> None:
    file = tmp_path / "film.mkv"
    for size, places in ((200_000, (0, 65_536, 199_999)), (9_000_000, (0, 70, 8_999_999))):
        data = bytearray(size)
        marks = set()
        for place in (None, *places):
            changed = data.copy()
            if place is not None:
                changed[place] = 1
            file.write_bytes(changed)
            marks.add(sampled_mark(file))
        assert len(marks) == 1 + len(places)
    file.write_bytes(b"")
    assert sampled_mark(file)


def test_a_film_that_grew_before_its_job_began_is_probed_again(film: Path) -> None:
    media = examined_source(probe(film))
    make_clip(film.with_name("new.mkv"), Clip(frames=30, size=(64, 48))).replace(film)
    now = examined_source(media)
    assert (now.video.frame_count, now.streams, now.bytes) == (30, (), film.stat().st_size)


def test_fewer_streams_than_were_probed_are_no_internal_error(film: Path, tmp_path: Path) -> None:
    context = a_job(film, tmp_path, Events())
    replaced(film)
    reads: tuple[Callable[[], object], ...] = (
        lambda: list(sound_from(context.media, Fraction(0), 48000)),
        lambda: tried(context.media, context.plan, context.control),
    )
    for read in reads:
        with pytest.raises(EngineError) as caught:
            read()
        assert isinstance(caught.value, UnreadableMedia)
