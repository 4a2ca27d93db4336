"""What the cases of one benchmark share. Loads without PyAV: not every machine has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from engine.bench.options import BenchOptions
from engine.core.geometry import Size
from engine.protocol.media import MediaInfo
from engine.protocol.plan import PicturePlan
from engine.settings.schema import JobSettings
from engine.video.read.frames import PlanarFrame

SOURCE = Size(480, 270)
FRAMES = 240
QUICK_FRAMES = 96


@dataclass(kw_only=True)
class Bench:
    """A folder, a film in it, and how thorough to be."""

    folder: Path
    options: BenchOptions = field(default_factory=BenchOptions)
    runs: int = field(init=False)

    def __post_init__(self) -> None:
        self.runs = 3 if self.quick else 7

    @property
    def quick(self) -> bool:
        """Fewer runs and sizes."""
        return self.options.quick

    @property
    def source(self) -> Size:
        """Size of the film."""
        return SOURCE

    @cached_property
    def media(self) -> MediaInfo:
        """A film in H.264."""
        from engine.bench.synthetic_clip import make_clip
        from engine.video.read.probe import probe

        path = self.folder / "bench.mp4"
        make_clip(path, self.source, QUICK_FRAMES if self.quick else FRAMES)
        return probe(path)

    @cached_property
    def frames(self) -> list[PlanarFrame]:
        """The first frames of the film."""
        from engine.video.read.frame_reader import FrameReader

        found = []
        with FrameReader(self.media) as reader:
            for frame in reader:
                found.append(frame)
                if len(found) == 48:
                    break
        return found

    def picture(self, codec: str, bit_depth: int = 0) -> PicturePlan:
        """How the planner would have the doubled film written."""
        from engine.video.write import codecs

        settings = JobSettings(codec=codec, bit_depth=bit_depth)
        return codecs.plan_picture(self.media, settings, self.source.scaled(2), "mkv")
