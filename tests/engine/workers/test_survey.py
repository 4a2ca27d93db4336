"""What is found before each span suffices to make it anywhere, whatever is done with frames."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.pipeline.context import JobContext
from engine.pipeline.spans import SpanMaker
from engine.protocol.plan import Plan
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from engine.workers.survey import Survey
from tests.engine.pipeline.test_spans import NeverComplete, files
from tests.helpers.community import write_network
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import (
    KINDS,
    SEGMENT_FRAMES,
    SHOTS,
    STEADIED,
    Events,
    plan_of,
    run,
    settings_of,
)
from tests.helpers.seedvr2 import make_three_shots

EVERY = (*KINDS, STEADIED, "pooled", "cleaned lite", "cleaned seedvr2")


def planned(kind: str, folder: Path) -> Plan:
    """Of five segments; "cleaned" has a first pass, "pooled" colours of several frames together."""
    size = "60x44" if kind == "wan-2x" else "64x48"
    film = make_three_shots(folder / "film.mkv", SHOTS, size)
    model = "seedvr2" if kind == "pooled" else kind.removeprefix("cleaned ")
    settings = settings_of(model, folder, **({"colour": "lab"} if kind == "pooled" else {}))
    if "cleaned" in kind:
        first = write_network(folder / "1x_tiny.pth", "Compact", upscale=1)
        settings = replace(settings, first_model=str(first))
    return replace(plan_of(film, folder / "out.mkv", settings), segment_frames=SEGMENT_FRAMES)


@pytest.mark.parametrize(
    ("kind", "length", "firsts"),
    [
        *rest_extended(
            [*((kind, 1, [0, 1, 2, 3, 4]) for kind in EVERY), ("seedvr2", 2, [0, 2, 4])],
            *((kind, 1, [0, 1, 2, 3, 4]) for kind in ("lite", "cleaned lite")),
        ),
        ("seedvr2", 4, [0, 3]),  # the fourth segment begins with a cut
        ("lite", 4, [0, 4]),
    ],
)
def test_its_spans_can_be_made_in_any_order(
    kind: str, length: int, firsts: list[int], tmp_path: Path
) -> None:
    plan = replace(planned(kind, tmp_path), span_segments=length)
    run(plan, tmp_path / "one")

    control, media = Control(), probe(plan.source)
    context = JobContext(
        job_id="job", media=media, plan=plan, control=control, events=Events(control)
    )
    (tmp_path / "spans").mkdir()
    log = NeverComplete(tmp_path / "spans")
    with FrameReader(media) as reader:
        spans = list(Survey(context, log, reader).spans())
    assert [one.first for one in spans] == firsts
    with closing(SpanMaker(context)) as maker:
        for span in reversed(spans):
            maker.make(span, log)
    assert files(tmp_path / "spans") == files(tmp_path / "one")
