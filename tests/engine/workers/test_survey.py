"""What is found before each span suffices to make it anywhere, whatever is done with frames."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.pipeline.context import JobContext
from engine.pipeline.spans import SpanMaker
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from engine.workers.spans import Survey
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import (
    KINDS,
    STEADIED,
    Events,
    NeverComplete,
    run,
    segment_files,
    small_plan,
)

pytestmark = pytest.mark.usefixtures("figures_of_published_vaes")
EVERY = (*KINDS, STEADIED, "pooled", "cleaned lite", "cleaned seedvr2")


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
    plan = replace(small_plan(kind, tmp_path), span_segments=length)
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
    assert segment_files(tmp_path / "spans") == segment_files(tmp_path / "one")
