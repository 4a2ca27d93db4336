"""Table of the main memory that encoders take, beside what plans count for it.

python -m tools.reports.encoder_memory > docs/benchmarks/encoder-memory.md: about 15 minutes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.bench.memory import PeakMemory, give_back_freed
from engine.core.geometry import Size
from engine.planner.peaks import encoder_bytes
from engine.protocol.media import Chroma, subsampling
from engine.protocol.plan import PicturePlan
from engine.video.write.encoders import ENCODERS, ON_PROCESSOR, Rate, encoder_options
from engine.video.write.segment_writer import SegmentWriter

_HD, _FULL_HD, _UHD = Size(1280, 720), Size(1920, 1080), Size(3840, 2160)
_HEADER = """# Memory of encoders

Main memory, in MB, that an encoder took in a process of its own while it encoded moving squares
with noise, and what plans count for it (`engine/planner/peaks.py`). "Threads" is what the encoder
was asked for. Written by `python -m tools.reports.encoder_memory`.

| encoder | speed | rate | format | size | threads | frames | measured | planned | ratio |
|---|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True)
class Case:
    """One encoder at work."""

    encoder: str
    speed: str = "auto"
    chroma: Chroma = "420"
    depth: int = 8
    size: Size = _HD
    threads: int = 4
    frames: int = 100
    has_alpha: bool = False
    megabits: int = 0  # a second, all the time; 0 for a quality

    @property
    def picture(self) -> PicturePlan:
        """The encoding as a plan describes it."""
        spec = ENCODERS[self.encoder]
        layout = (self.chroma, self.depth, self.has_alpha)
        rate = Rate(constant=self.megabits * 10**6)
        return PicturePlan(
            size=self.size,
            codec=spec.codec,
            encoder=self.encoder,
            pixel_format=spec.formats[layout],
            chroma=self.chroma,
            bit_depth=self.depth,
            has_alpha=self.has_alpha,
            options=encoder_options(
                spec, rate=rate, speed=self.speed, layout=layout, size=self.size
            ),
            threads=self.threads,
        )

    @property
    def planned(self) -> int:
        """Bytes that a plan counts."""
        return encoder_bytes(self.picture, self.frames)


def cases() -> Iterator[Case]:
    """Every speed in 8 and 10 bits, then other threads, sizes, lengths, rates and layouts."""
    for spec in ON_PROCESSOR.values():
        if not spec.has_rate:
            continue
        depths = [depth for depth in spec.depths("420") if depth <= 10]
        yield from (Case(spec.name, speed, depth=bits) for speed in spec.speeds for bits in depths)
        yield from (Case(spec.name, threads=threads) for threads in (1, 2, 16))
        for size, frames in ((Size(640, 360), 100), (_FULL_HD, 160), (_UHD, 100)):
            yield Case(spec.name, depth=depths[-1], size=size, threads=16, frames=frames)
        yield from (Case(spec.name, depth=depths[-1], frames=few) for few in (1, 5))
        yield Case(spec.name, depth=depths[-1], megabits=10)
        if "444" in spec.chromas():
            yield Case(spec.name, chroma="444", depth=depths[-1])
    yield Case("libvpx-vp9", has_alpha=True)
    yield Case("ffv1", frames=40)
    yield Case("ffv1", chroma="444", depth=16, frames=40)
    yield Case("prores_ks", chroma="444", depth=10, frames=40)
    for name in ("png", "tiff", "exr", "dpx"):
        yield Case(name, chroma="rgb", depth=16, frames=20)


def row(case: Case, measured: int) -> str:
    """A row of the page."""
    rate = f"{case.megabits} Mbit/s" if case.megabits else "quality"
    about = [case.encoder, case.speed, rate, case.picture.pixel_format, case.size, case.threads]
    taken = [f"{size / 1e6:.0f}" for size in (measured, case.planned)]
    cells = [*about, case.frames, *taken, f"{case.planned / measured:.2f}"]
    return f"| {' | '.join(map(str, cells))} |"


def measure(case: Case) -> int:
    """Main memory of one encoder above that of a process of its own before it, bytes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as process:
        return process.submit(_measure_here, case).result()


def _measure_here(case: Case) -> int:
    frames = [[*_planes(case, turn)] for turn in range(4)]
    give_back_freed()
    with (
        TemporaryDirectory() as folder,
        PeakMemory() as peak,
        SegmentWriter(Path(folder) / "segment", case.picture) as writer,
    ):
        for number in range(case.frames):
            writer.write(frames[number % 4])
    return peak.above


def _planes(case: Case, turn: int) -> Iterator[NDArray[Any]]:
    """Planes of a frame: squares of 8 px, moved by 3 px each turn, with noise of 4 levels."""
    noise = np.random.default_rng(turn)
    across, down = subsampling(case.chroma)
    whole = (1, 1)
    for across_, down_ in (whole, (across, down), (across, down), whole)[: 3 + case.has_alpha]:
        height, width = case.size.height // down_, case.size.width // across_
        small = np.random.default_rng(1).integers(60, 190, (height // 8 + 1, width // 8 + 1))
        squares = small.astype(np.uint8).repeat(8, 0).repeat(8, 1)[:height, :width]
        plane = np.roll(squares, 3 * turn, 1) + noise.integers(0, 5, squares.shape, np.uint8)
        yield plane if case.depth == 8 else plane.astype(np.uint16) << (case.depth - 8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="python -m tools.reports.encoder_memory")
    parser.add_argument("--only", metavar="ENCODER", help="cases of this encoder alone")
    only = parser.parse_args(arguments).only
    print(_HEADER)
    for case in cases():
        if only in (None, case.encoder):
            print(row(case, measure(case)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
