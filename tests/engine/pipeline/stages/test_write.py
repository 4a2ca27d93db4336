from types import SimpleNamespace

import numpy as np

from engine.core.control import Control
from engine.pipeline.segments import SegmentRecord, Span
from engine.pipeline.stages.write import DoneClip, Write, _Open
from engine.video.read.frames import PlanarFrame


class Log:
    """Records of segments, without files."""

    def __init__(self) -> None:
        self.records: list[SegmentRecord] = []

    def add(self, record: SegmentRecord) -> None:
        self.records.append(record)

    def complete(self) -> None:
        pass


def clip(first: int, frames: int, shot: int, *, ends: bool) -> DoneClip:
    planes = np.zeros((2, 2), np.uint8)
    made = tuple(PlanarFrame(planes=(planes,), pts=first + n) for n in range(frames))
    return DoneClip(frames=made, planes=[made[0].planes] * frames, shot=shot, ends_shot=ends)


def test_a_segment_that_ends_with_a_shot_continues_with_the_next_shot() -> None:
    context = SimpleNamespace(
        plan=SimpleNamespace(segment_frames=4, frames=10),
        control=Control(),
        events=SimpleNamespace(emit=lambda _event: None),
        job_id="job",
        check_source=lambda _record=None: None,
    )
    log, writer = Log(), SimpleNamespace(write=lambda _planes: None, close=lambda: 1)
    stage = Write(context, log, Span())
    stage._open = lambda: _Open(len(log.records), writer)
    stage.run([clip(0, 2, 0, ends=False), clip(2, 2, 0, ends=True), clip(4, 6, 4, ends=False)])
    assert [record.shot for record in log.records] == [4, 4, 4]
