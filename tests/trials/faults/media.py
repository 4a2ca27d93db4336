"""Damaged films and pictures: each is probed, planned and decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from engine.api import plan, probe
from engine.settings.schema import JobSettings
from engine.video.read.frame_reader import FrameReader
from tests.helpers.clips import Clip, make_clip, make_picture
from tests.trials.faults import mutators
from tests.trials.faults.group import Group
from tests.trials.faults.mutators import Mutation
from tests.trials.faults.outcomes import CHANGED, Outcome, outcome_of

_MOST_FRAMES = 100  # that are decoded; the sources have fewer
_SIZE = (64, 48)
_BOXES = (mutators.without_boxes,) * 5
_ELEMENTS = (mutators.without_elements,) * 5


def _clip(**changes: object) -> Callable[[Path], Path]:
    """A clip whose bytes are the same each time: no random names in it, no time."""
    usual = {"frames": 8, "size": _SIZE, "container_options": {"fflags": "+bitexact"}}
    return lambda path: make_clip(path, Clip(**(usual | changes)))


def _picture(**changes: object) -> Callable[[Path], Path]:
    return lambda path: make_picture(path, size=_SIZE, **changes)


# row -> name of the file, how it is made, mutations besides those of any bytes
SOURCES: dict[str, tuple[str, Callable[[Path], Path], Sequence[Mutation]]] = {
    "MP4, H.264, AAC": ("a.mp4", _clip(audio_tracks=1, chapters=2), _BOXES),
    "MP4, HEVC": ("b.mp4", _clip(codec="libx265"), _BOXES),
    "MOV, ProRes": (
        "c.mov",
        _clip(codec="prores_ks", pixel_format="yuv422p10le", b_frames=0, frames=3),
        _BOXES,
    ),
    "MKV, H.264, subtitles": (
        "d.mkv",
        _clip(audio_tracks=1, subtitles=("subrip",), attachments={"a.ttf": b"font"}),
        _ELEMENTS,
    ),
    "MKV, FFV1": ("e.mkv", _clip(codec="ffv1", frames=3), _ELEMENTS),
    "MKV, interlaced H.264": ("f.mkv", _clip(interlaced="tt", size=(64, 80)), _ELEMENTS),
    "WebM, VP9": ("g.webm", _clip(codec="libvpx-vp9", frames=4), _ELEMENTS),
    "TS, MPEG-2, AAC": (
        "h.ts",
        _clip(codec="mpeg2video", audio_tracks=1),
        (mutators.without_packets,) * 7,
    ),
    "TS, H.264, AAC": ("i.ts", _clip(audio_tracks=1), (mutators.without_packets,) * 7),
    "AVI, MPEG-4": ("j.avi", _clip(codec="mpeg4"), ()),
    "NUT, raw": ("k.nut", _clip(codec="rawvideo", frames=2, size=(16, 16)), ()),
    "raw H.264": ("l.h264", _clip(b_frames=0), ()),
    "PNG": ("m.png", _picture(), ()),
    "TIFF": ("n.tif", _picture(), ()),
    "JPEG": ("o.jpg", _picture(pixel_format="yuvj420p"), ()),
    "WebP": ("p.webp", _picture(pixel_format="yuv420p"), ()),
}


class Media(Group):
    """A mutant of each container in turn."""

    name = "media"
    rows = tuple(SOURCES)
    usual = 10_000

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._sources: dict[str, bytes] = {}

    def source(self, row: str) -> bytes:
        """The healthy file of a row."""
        if row not in self._sources:
            name, make, _ = SOURCES[row]
            self._sources[row] = make(self.folder / name).read_bytes()
        return self._sources[row]

    def write(self, number: int) -> tuple[Path, bytes]:
        """Write the mutant of a case; its path and its content."""
        row, rng = self.row(number), self.chances(number)
        name, _, own = SOURCES[row]
        data = self.source(row)
        for _ in range(rng.choice((1, 1, 1, 2))):
            data = rng.choice((*mutators.ANY, *own))(data or b"\0", rng)
        path = self.folder / f"mutant{Path(name).suffix}"
        path.write_bytes(data)
        return path, data

    def run(self, number: int) -> Outcome:
        """Probe, plan and decode."""
        path, data = self.write(number)
        outcome = outcome_of(lambda: _use(path))
        return outcome if path.read_bytes() == data else Outcome(CHANGED)


def _use(path: Path) -> None:
    media = probe(path)
    plan(path, JobSettings(model="none"))
    with FrameReader(media) as reader:
        for _ in islice(reader, _MOST_FRAMES):
            pass
