"""Nothing that only advises stops a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pipeline import run as pipeline
from engine.pipeline.stages import progress
from engine.protocol.events import PreviewReady, StageProgress
from engine.settings.schema import JobSettings
from engine.video.read import probe as probing
from tests.helpers.clips import make_clip
from tests.helpers.jobs import plan_of, run


def failing(*_: object, **__: object) -> None:
    raise RuntimeError("a library refuses")


def test_a_job_ends_well_though_every_look_that_advises_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = make_clip(tmp_path / "a.mkv", size=(64, 48), frames=4)
    caplog.set_level("INFO")
    for room, name in (
        (probing, "mean_quantiser"),
        (probing, "count_by_reading"),
        (progress, "seen"),
        (pipeline, "_gpu_memory"),
        (pipeline, "_stage_times"),
        (pipeline.times, "learn"),
    ):
        monkeypatch.setattr(room, name, failing)
    plan = plan_of(source, tmp_path / "out.mkv", JobSettings(model="lite", scale=2))
    events = run(plan, tmp_path / "jobs")
    assert plan.output.is_file()
    assert [event for event in events if isinstance(event, StageProgress)]
    assert not [event for event in events if isinstance(event, PreviewReady)]
    assert "a look that only advises failed" in caplog.text
