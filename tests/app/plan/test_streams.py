"""Words about the other streams of a plan."""

from dataclasses import replace
from pathlib import Path

from app.plan.streams import stream_lines
from app.state.job_row import JobRow
from engine.cli.formatting import plan_words
from engine.protocol.plan import PassPlan
from tests.helpers.fakes import make_plan
from tests.helpers.plans import a_media


def test_subtitles_are_converted_and_not_encoded():
    text = PassPlan(
        index=1, kind="subtitle", codec="ass", copied=True, converted="mov_text", is_lossy=True
    )
    media = a_media()
    plan = replace(make_plan(media), streams=(text,))
    row = JobRow(job_id="a", source=Path("a.mkv"), media=media, plan=plan)
    assert [line.fate for line in stream_lines(row)] == ["converted to mov_text"]
    words = " ".join(" ".join(plan_words(plan)).split())
    assert "Converted: subtitle 1 (ass), saved as mov_text" in words
