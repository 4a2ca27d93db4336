"""Frames for playback: of the source, of finished segments, of the published result."""

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.jobs import playback
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.playback import played_frames
from engine.pipeline.display import exact_picture, quick_picture
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip
from tests.helpers.jobs import run, small_job


def _seconds(frames) -> list[float]:
    return [round(frame.seconds, 4) for frame in frames]


def test_pieces_have_the_times_of_the_source_while_the_rest_is_made(tmp_path: Path):
    plan = small_job("lite", tmp_path).plan
    folder = tmp_path / "job"
    media = probe(plan.source)
    assert list(played_frames(media, plan, "pieces", 0.0, folder)) == []
    with pytest.raises(Cancelled):
        run(plan, folder, stop_after=2)
    source = list(played_frames(media, plan, "source", 0.0, folder))
    pieces = list(played_frames(media, plan, "pieces", 0.0, folder))
    assert 0 < len(pieces) < len(source)
    assert _seconds(pieces) == _seconds(source)[: len(pieces)]
    later = list(played_frames(media, plan, "pieces", pieces[-2].seconds, folder))
    assert _seconds(later) == _seconds(pieces[-2:])
    assert later[0].picture(Size(64, 64)) == pieces[-2].picture(Size(64, 64))


def test_the_notes_of_segments_are_read_again_only_at_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = small_job("lite", tmp_path).plan
    folder = tmp_path / "job"
    with pytest.raises(Cancelled):
        run(plan, folder, stop_after=2)
    read: list[Path] = []

    def counted(path: Path) -> Checkpoint:
        read.append(path)
        return Checkpoint(path)

    monkeypatch.setattr(playback, "Checkpoint", counted)
    assert list(played_frames(probe(plan.source), plan, "pieces", 0.0, folder))
    assert len(read) == 2


def test_the_result_of_a_trim_is_shown_at_the_times_of_the_source(tmp_path: Path):
    film = make_clip(tmp_path / "film.mkv")
    plan = replace(small_job("lite", tmp_path).plan, source=film, start=Fraction(2, 5))
    plan = replace(plan, output=tmp_path / "result.mkv")
    shutil.copy(film, plan.output)
    frames = played_frames(probe(film), plan, "result", 0.56, tmp_path / "job")
    assert _seconds(frames)[:2] == [0.56, 0.6]


@pytest.mark.parametrize(
    ("changes", "box", "size"),
    [
        ({}, Size(1000, 1000), Size(96, 64)),
        ({"pixel_format": "yuv420p10le"}, Size(48, 48), Size(48, 32)),
        ({"rotation": 90}, Size(48, 48), Size(32, 48)),
        ({"sar": Fraction(2), "mirrored": True}, Size(96, 96), Size(96, 32)),
    ],
)
def test_a_quick_picture_is_the_exact_one_but_for_rounding(
    tmp_path: Path, changes, box: Size, size: Size
):
    media = probe(make_clip(tmp_path / "film.mkv", **changes))
    with FrameReader(media) as reader:
        frame = next(iter(reader))
    quick = quick_picture(frame, media.video, box)
    exact = exact_picture(frame, media.video, max(size.width, size.height))
    assert quick.size == exact.size == size
    values = [np.frombuffer(one.rgb, np.uint8).astype(int) for one in (quick, exact)]
    assert np.abs(values[0] - values[1]).mean() < 6
