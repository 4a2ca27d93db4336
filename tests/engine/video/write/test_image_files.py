from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled, DiskFull, OutputError, OutputUnwritable
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.verification.metadata import tags_check
from engine.video.planes import planes_of
from engine.video.read.probe import probe
from engine.video.write.image_files import export_images
from engine.video.write.segment_file import SegmentFile
from engine.video.write.segment_writer import SegmentWriter
from tests.helpers.clips import make_clip, make_picture, make_pictures
from tests.helpers.results import make_identity, mux_all, plan_of, random_planes, segments_of

IDENTITY = JobSettings(model="none")


def planes(path: Path, alpha: bool) -> tuple[np.ndarray, ...]:
    with av.open(f"file:{path}") as file:
        return planes_of(next(file.decode(video=0)), alpha=alpha)


def test_a_picture_keeps_every_value_and_its_alpha(tmp_path: Path) -> None:
    kinds = ("png rgb24 png", "png rgba64be png", "png gray16be png")
    for number, kind in enumerate(
        (*kinds, "png ya8 tif", "tif rgb48le tif", "tif rgba png", "bmp bgr24 png")
    ):
        before, pixel_format, after = kind.split()
        path = tmp_path / f"{number}.{before}"
        source = make_picture(path, 5, size=(31, 17), pixel_format=pixel_format)
        plan = make_identity(source, tmp_path / f"{number}_out.{after}", IDENTITY)
        assert plan.container == "image"
        alpha = plan.picture.has_alpha
        for mine, other in zip(planes(plan.output, alpha), planes(source, alpha), strict=True):
            np.testing.assert_array_equal(mine, other, kind)
        assert plan.output.read_bytes()[:2] == (b"\x89P" if after == "png" else b"II")


def sequence(tmp_path: Path) -> tuple[MediaInfo, Plan, list[SegmentFile]]:
    media = probe(make_pictures(tmp_path / "in", 5, first=7))
    plan = plan_of(media, tmp_path / "out", IDENTITY)
    segments = []
    for first in (0, 2, 4):
        indices = tuple(range(first, min(first + 2, 5)))
        path = tmp_path / f"{first}.segment"
        with SegmentWriter(path, plan.picture) as writer:
            for number in indices:
                writer.write(random_planes(plan.picture, number))
        segments.append(SegmentFile(path=path, pts=indices, durations=(1,) * len(indices)))
    return media, plan, segments


def test_a_sequence_becomes_a_folder_with_the_same_names(tmp_path: Path) -> None:
    media, plan, segments = sequence(tmp_path)
    calls: list[tuple[int, int]] = []
    target = tmp_path / "out.part"
    mux_all(media, plan, segments, target, progress=lambda *n: calls.append(n))
    assert sorted(p.name for p in target.iterdir()) == [f"shot_{n:04d}.png" for n in range(7, 12)]
    assert calls == [(n, 5) for n in range(1, 6)]
    for number in range(5):
        found = planes(target / f"shot_{number + 7:04d}.png", False)
        for plane, expected in zip(found, random_planes(plan.picture, number), strict=True):
            np.testing.assert_array_equal(plane, expected)


def test_a_part_of_a_sequence_keeps_its_numbers(tmp_path: Path) -> None:
    media, plan, segments = sequence(tmp_path)
    target = tmp_path / "out.part"
    mux_all(media, plan, segments[1:], target)
    assert sorted(p.name for p in target.iterdir()) == [f"shot_{n:04d}.png" for n in range(9, 12)]


def test_a_film_becomes_numbered_pictures_on_request(tmp_path: Path) -> None:
    media = probe(make_clip(tmp_path / "a.mkv", frames=6))
    plan = plan_of(media, tmp_path / "b_%04d.png", IDENTITY)
    assert plan.container == "sequence"
    target = tmp_path / "out"
    mux_all(media, replace(plan, output=target), segments_of(media, plan, tmp_path), target)
    assert sorted(p.name for p in target.iterdir())[0] == "frame_000001.png"
    assert len(list(target.iterdir())) == 6


@pytest.mark.parametrize(
    "tags",
    [
        {"primaries": "bt2020", "transfer": "smpte2084"},
        {"primaries": "smpte432", "transfer": "iec61966-2-1"},
        {"primaries": "bt709", "transfer": "iec61966-2-1"},
        {"transfer": "bt470m"},
    ],
)
def test_png_states_the_colours_of_its_source(tags: dict[str, str], tmp_path: Path) -> None:
    source = make_picture(tmp_path / "a.png")
    plan = plan_of(probe(source), tmp_path / "b.png", IDENTITY)
    picture = replace(plan.picture, tags=replace(plan.picture.tags, **tags))
    with SegmentWriter(tmp_path / "a.segment", picture) as writer:
        writer.write(random_planes(picture, 1))
    segment = SegmentFile(path=tmp_path / "a.segment", pts=(0,), durations=(1,))
    export_images(
        probe(source), plan, [segment], plan.output, control=Control(), progress=lambda *_: None
    )
    found = probe(plan.output).video
    assert {name: getattr(found.tags, name) for name in tags} == tags
    assert found.hdr == ("pq" if tags["transfer"] == "smpte2084" else "")
    stated = replace(found.tags, **tags)
    bare = make_picture(tmp_path / "bare.png")
    for result, passes in ((plan.output, True), (bare, False)):
        check = tags_check(replace(found, tags=stated), probe(result), None)
        assert check.passed == passes


def test_a_folder_that_cannot_be_finished_is_removed(tmp_path: Path, small_disk: Path) -> None:
    media, plan, segments = sequence(tmp_path)
    control, out = Control(), tmp_path / "out"
    with pytest.raises(Cancelled):
        cancel = {"control": control, "progress": lambda done, total: control.cancel()}
        mux_all(media, plan, segments, out, **cancel)
    assert not out.exists()
    for folder, error in ((tmp_path / "no", OutputUnwritable), (small_disk, DiskFull)):
        with pytest.raises(error):
            mux_all(media, plan, segments, folder / "out")
    assert list(small_disk.iterdir()) == []
    data = segments[1].path.read_bytes()
    segments[1].path.write_bytes(data[: len(data) // 2])
    with pytest.raises(OutputError) as caught:
        mux_all(media, plan, segments, out)
    assert caught.value.hint
    assert not out.exists()


@pytest.mark.parametrize(("field", "value"), [(8, 1), (10, 8), (10, 12), (28, 0), (42, 200)])
def test_a_segment_whose_contents_are_damaged_is_reported(
    field: int, value: int, tmp_path: Path
) -> None:
    """Encryption, a method of compression, an empty name, and another place in its entry."""
    media, plan, segments = sequence(tmp_path)
    data = bytearray(segments[1].path.read_bytes())
    data[data.index(b"PK\1\2") + field] = value
    segments[1].path.write_bytes(data)
    with pytest.raises(OutputError) as caught:
        mux_all(media, plan, segments, tmp_path / "out")
    assert caught.value.code == "output-error"
