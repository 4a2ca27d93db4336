"""Streams are taken for what they are: other video tracks, other programmes, chapter images."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from engine.core.errors import UnsupportedMedia
from engine.core.geometry import Size
from engine.pipeline.prepare import described
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.media import MediaInfo
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.read.probe import probe
from engine.video.write.stream_notices import stream_notices
from tests.helpers.clips import Clip, make_clip, number_picture
from tests.helpers.jobs import running_engine
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg
from tests.helpers.results import mux_all, plan_of, segments_of

FRONT, REAR = (96, 64), (80, 48)
FAST = JobSettings(model="none", speed="fast")


def make_film(path: Path, *sizes: tuple[int, int], code: str = "", titles: Sequence[str]) -> Path:
    """A film of several video tracks, 20 frames each."""
    with av.open(f"file:{path}", "w") as output:
        if code:
            output.metadata["timecode"] = code
        tracks: list[Any] = [output.add_stream("mpeg4", rate=25) for _ in sizes]
        for track, (width, height), title in zip(tracks, sizes, titles, strict=True):
            track.width, track.height = width, height
            track.metadata.update({"title": title, "language": "deu"})
        for number in range(20):
            for track, size in zip(tracks, sizes, strict=True):
                picture = number_picture(number * len(size), *size)
                output.mux(track.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        for track in tracks:
            output.mux(track.encode(None))
    return path


@pytest.fixture
def camera(tmp_path: Path) -> Path:
    return make_film(tmp_path / "a.mp4", FRONT, REAR, titles=("front", "rear"))


def job(media: MediaInfo, output: Path) -> Any:
    plan = plan_of(media, output, FAST)
    mux_all(media, plan, segments_of(media, plan, output.parent), output)
    return plan


def test_another_video_track_is_named_and_can_be_chosen(camera: Path, tmp_path: Path) -> None:
    (left_out,) = stream_notices(probe(camera), "mp4")
    assert left_out.message.startswith(
        "Stream 1 (another video track, mpeg4, 80x48, rear) is left out"
    )
    assert left_out.params["offers"] == "video_stream=1"
    for index, size, other in ((-1, FRONT, 1), (0, FRONT, 1), (1, REAR, 0)):
        media = probe(camera, index)
        assert media.video.size == Size(*size)
        assert [stream.index for stream in media.streams] == [other]
        output = tmp_path / f"out{index}.mp4"
        plan = job(media, output)
        for known in (plan, None):
            assert verify(media, output, plan=known).passed
        assert probe(output).video.title == media.video.title == ("rear" if other == 0 else "front")
        wrong = verify(probe(camera, other), output)
        assert not wrong.passed
    with pytest.raises(UnsupportedMedia) as caught:
        probe(camera, 2)
    assert (caught.value.case, caught.value.hint[-5:]) == ("no-such-video-stream", "0, 1.")


def test_a_lost_title_or_language_of_the_film_is_seen(camera: Path, tmp_path: Path) -> None:
    media, output = probe(camera), tmp_path / "out.mkv"
    job(media, output)
    untitled = replace(media, video=replace(media.video, title="back", language="fra"))
    (problem,) = verify(untitled, output).problems
    assert problem.code == "metadata"
    assert "video track 0" in str(problem.message)


def test_another_choice_reads_the_source_anew(camera: Path, tmp_path: Path) -> None:
    media = probe(camera)
    assert described(media, JobSettings()) is media
    rear = described(media, JobSettings(video_stream=1))
    assert rear.video.size == Size(*REAR)
    assert described(rear, JobSettings()) == media
    chosen = JobSettings(model="none", video_stream=1, crf=30)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AddJob(job_id="a", source=camera, settings=FAST))
        assert heard.wait(e.PlanChosen).plan.source_size == Size(*FRONT)
        engine.send(c.ChangeJob(job_id="a", settings=chosen, output=tmp_path / "out.mp4"))
        while (event := heard.wait(e.PlanChosen)).plan.source_size != Size(*REAR):
            pass
        assert event.media is not None
        assert event.media.video.size == Size(*REAR)
        engine.send(c.StartQueue())
        assert heard.finished_job().report.passed
    assert probe(tmp_path / "out.mp4").video.size == Size(*REAR)


@pytest.mark.parametrize(("old", "new"), [("mp4", "mp4"), ("mp4", "mkv"), ("mkv", "mp4")])
def test_titles_of_tracks_are_kept(tmp_path: Path, old: str, new: str) -> None:
    media = probe(make_clip(tmp_path / f"a.{old}", Clip(audio_tracks=2)))
    output = tmp_path / f"out.{new}"
    job(media, output)
    assert [track.title for track in probe(output).audio_streams] == ["Sound 1", "Sound 2"]
    titled = [replace(track, title="Comments") for track in media.streams]
    (problem,) = verify(replace(media, streams=tuple(titled)), output).problems
    assert problem.code == "metadata"


def test_chapter_images_are_named_and_left_out(tmp_path: Path) -> None:
    path = make_film(tmp_path / "a.mp4", FRONT, REAR, code="01:00:00:00", titles=("", ""))
    data = bytearray(path.read_bytes())
    at = data.index(b"tref") + 8  # the reference to a time code becomes one to chapters
    data[at : at + 8] = b"chap" + (2).to_bytes(4, "big")
    path.write_bytes(data)
    media = probe(path)
    assert media.streams[0].kind == "thumbnails"
    for container in ("mp4", "mkv"):
        assert next(stream_notices(media, container)).code == "stream-left-out"
        output = tmp_path / f"out.{container}"
        plan = job(media, output)
        assert verify(media, output, plan=plan).passed
        assert verify(media, output).passed


PROGRAMMES: dict[str, tuple[Sequence[str], int, list[int], list[int]]] = {
    # streams of each programme; the film that is chosen; what is of its programme, and what is not
    "the first of two": (("0,1", "2,3"), -1, [1], [2, 3]),
    "the second of two": (("0,1", "2,3"), 2, [3], [0, 1]),
    "a radio programme": (("0,1,2", "3"), -1, [1, 2], [3]),
    "shared sound": (("0,1", "2,1", "3"), 2, [1], [0, 3]),
}


@NEEDS_FFMPEG
@pytest.mark.parametrize("what", PROGRAMMES)
def test_what_belongs_to_other_programmes_is_left_out(tmp_path: Path, what: str) -> None:
    programmes, chosen, kept, lost = PROGRAMMES[what]
    path, late = tmp_path / "a.ts", ("-itsoffset", "0" if what == "shared sound" else "500")
    sound = "sine=frequency=440:duration=1"
    film = "testsrc2=size=96x64:rate=25:duration=1", "testsrc=size=80x48:rate=25:duration=1"
    inputs = [word for source in (film[0], sound) for word in ("-f", "lavfi", "-i", source)]
    later = [word for source in (film[1], sound) for word in (*late, "-f", "lavfi", "-i", source)]
    stated: list[str] = []
    for number, streams in enumerate(programmes, 1):
        members = ":".join(f"st={index}" for index in streams.split(","))
        stated += ["-program", f"title=P{number}:program_num={number}:{members}"]
    how = ("-c:v", "mpeg2video", "-c:a", "mp2", "-copyts")
    maps = [word for number in range(4) for word in ("-map", str(number))]
    ffmpeg(*inputs, *later, *maps, *how, *stated, path)
    names = translated_indices(path)
    media = probe(path, names[chosen] if chosen >= 0 else -1)
    foreign = {stream.index for stream in media.streams if stream.is_of_other_programme}
    assert foreign == {names[index] for index in lost}
    assert {stream.index for stream in media.streams} - foreign == {names[index] for index in kept}
    output = tmp_path / "out.mkv"
    plan = job(media, output)
    for known in (plan, None):
        assert verify(media, output, plan=known).passed
    assert abs(probe(output).start) < Fraction(1, 2)


def translated_indices(path: Path) -> dict[int, int]:
    """Index in the file of what was written as stream 0 and so on: PIDs rise, the order may not."""
    with av.open(f"file:{path}") as container:
        ids = sorted((stream.id, stream.index) for stream in container.streams)
    return {number: index for number, (_, index) in enumerate(ids)}
