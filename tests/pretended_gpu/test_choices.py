"""A job goes on by the forms of convolutions that it was begun with, whatever a GPU prefers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import Cancelled
from engine.ops.conv import trial
from tests.engine.workers.test_hand_out import planned
from tests.helpers.choices import devices, kept, on_gpu
from tests.helpers.jobs import run, segment_files
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = [
    pytest.mark.pretended_gpu,
    pytest.mark.usefixtures("figures_of_published_vaes"),
]


def test_a_gpu_whose_trials_choose_otherwise_goes_on_by_the_choices_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is stopped after a segment, and what was stored of its trials is gone."""
    monkeypatch.setitem(trial._FRAME, "cuda", trial._FRAME["cpu"])  # small ones take no time
    plan = replace(on_gpu(planned("wan-2x", tmp_path, shots=(6, 1, 1))), segment_frames=3)
    one, two = tmp_path / "one", tmp_path / "two"
    with pretended_gpu(), devices() as device:
        device("2d")
        run(plan, one)
        assert {way for key, way in kept(one).items() if key.startswith("convolution")} == {"2d"}
        device("3d")
        with pytest.raises(Cancelled):
            run(plan, two, stop_after=1)
        name = "segment_000000.mkv"
        assert segment_files(two)[name] != segment_files(one)[name], "the forms round alike"
        choices = kept(two)
        device("2d")
        run(plan, two)
        assert kept(two) == choices
        device("3d")
        run(plan, tmp_path / "whole")
    assert segment_files(two) == segment_files(tmp_path / "whole")
