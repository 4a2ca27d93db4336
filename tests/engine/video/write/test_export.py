from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from engine.core.control import Control
from engine.core.errors import (
    Cancelled,
    DiskFull,
    OutputError,
    OutputUnwritable,
)
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.video.colour.pixel_formats import planes_of
from engine.video.read.probe import probe
from engine.video.write.encode import SegmentWriter
from engine.video.write.mux import SegmentFile, mux
from tests.helpers.clips import make_clip, make_picture, make_pictures
from tests.helpers.results import plan_of, random_planes, segments_of

IDENTITY = JobSettings(model="none")


def quiet(done: int, total: int) -> None:
    pass


def planes(path: Path, alpha: bool) -> tuple[np.ndarray, ...]:
    with av.open(f"file:{path}") as file:
        return planes_of(next(file.decode(video=0)), alpha=alpha)


def export(media: MediaInfo, plan: Plan, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    mux(
        media,
        plan,
        segments_of(media, plan, folder),
        plan.output,
        control=Control(),
        progress=quiet,
    )


@pytest.mark.parametrize(
    ("name", "pixel_format", "result"),
    [
        ("a.png", "rgb24", "b.png"),
        ("a.png", "rgba64be", "b.png"),
        ("a.png", "gray16be", "b.png"),
        ("a.png", "ya8", "b.tif"),
        ("a.tif", "rgb48le", "b.tif"),
        ("a.tif", "rgba", "b.png"),
    ],
)
def test_a_still_keeps_every_value_and_its_alpha(
    tmp_path: Path, name: str, pixel_format: str, result: str
) -> None:
    source = make_picture(tmp_path / name, 5, size=(31, 17), pixel_format=pixel_format)
    media = probe(source)
    plan = plan_of(media, tmp_path / result, IDENTITY)
    assert plan.container == "image"
    export(media, plan, tmp_path / "job")
    alpha = media.video.has_alpha
    for mine, other in zip(planes(plan.output, alpha), planes(source, alpha), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert plan.output.read_bytes()[:2] in (b"\x89P", b"II")


def test_other_pictures_become_png(tmp_path: Path) -> None:
    media = probe(make_picture(tmp_path / "a.bmp", pixel_format="bgr24"))
    plan = plan_of(media, tmp_path / "b.png", IDENTITY)
    assert (plan.picture.codec, plan.picture.pixel_format) == ("png", "rgb24")
    export(media, plan, tmp_path / "job")
    assert probe(plan.output).video.codec == "png"


def sequence(tmp_path: Path, count: int = 5) -> tuple[MediaInfo, Plan, list[SegmentFile]]:
    media = probe(make_pictures(tmp_path / "in", count, first=7))
    plan = plan_of(media, tmp_path / "out", IDENTITY)
    pieces = []
    for first in (0, 2, 4):
        numbers = range(first, min(first + 2, count))
        path = tmp_path / f"{first}.segment"
        with SegmentWriter(path, plan.picture) as writer:
            for index, number in enumerate(numbers):
                writer.write(random_planes(plan.picture, number), index)
        pts = tuple(numbers)
        pieces.append(SegmentFile(path=path, pts=pts, durations=(1,) * len(pts)))
    return media, plan, pieces


def test_a_sequence_becomes_a_folder_with_the_same_names(tmp_path: Path) -> None:
    media, plan, pieces = sequence(tmp_path)
    told: list[tuple[int, int]] = []
    target = tmp_path / "out.part"
    mux(media, plan, pieces, target, control=Control(), progress=lambda *n: told.append(n))
    assert sorted(p.name for p in target.iterdir()) == [f"shot_{n:04d}.png" for n in range(7, 12)]
    assert told == [(n, 5) for n in range(1, 6)]
    for number in range(5):
        found = planes(target / f"shot_{number + 7:04d}.png", False)
        for plane, wanted in zip(found, random_planes(plan.picture, number), strict=True):
            np.testing.assert_array_equal(plane, wanted)


def test_a_film_becomes_numbered_pictures_when_asked(tmp_path: Path) -> None:
    media = probe(make_clip(tmp_path / "a.mkv", frames=6))
    plan = plan_of(media, tmp_path / "b_%04d.png", IDENTITY)
    assert plan.container == "sequence"
    folder = replace(plan, output=tmp_path / "out")
    export(media, folder, tmp_path / "job")
    assert sorted(p.name for p in folder.output.iterdir())[0] == "frame_000001.png"
    assert len(list(folder.output.iterdir())) == 6


def test_cancelling_removes_the_folder(tmp_path: Path) -> None:
    media, plan, pieces = sequence(tmp_path)
    control = Control()

    def progress(done: int, total: int) -> None:
        control.cancel()

    with pytest.raises(Cancelled):
        mux(media, plan, pieces, tmp_path / "out", control=control, progress=progress)
    assert not (tmp_path / "out").exists()


def test_a_damaged_segment_is_told(tmp_path: Path) -> None:
    media, plan, pieces = sequence(tmp_path)
    data = pieces[1].path.read_bytes()
    pieces[1].path.write_bytes(data[: len(data) // 2])
    with pytest.raises(OutputError) as caught:
        mux(media, plan, pieces, tmp_path / "out", control=Control(), progress=quiet)
    assert caught.value.hint
    assert not (tmp_path / "out").exists()


def test_an_unwritable_place_is_told(tmp_path: Path) -> None:
    media, plan, pieces = sequence(tmp_path)
    with pytest.raises(OutputUnwritable):
        mux(media, plan, pieces, tmp_path / "no" / "out", control=Control(), progress=quiet)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(command, check=False).returncode:
        pytest.skip("a small disk can be made only as root on Linux")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path, small_disk: Path) -> None:
    media, plan, pieces = sequence(tmp_path)
    with pytest.raises(DiskFull):
        mux(media, plan, pieces, small_disk / "out", control=Control(), progress=quiet)
    assert list(small_disk.iterdir()) == []
