"""Whole jobs on the pretended GPU, through the pipeline and its threads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.protocol.plan import WorkPlan
from engine.settings.optimisations import VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.jobs import KINDS, small_job
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

SWITCHES = Switches(vae=VaeSwitches(convolution="3d"))


def on_gpu(work: WorkPlan) -> WorkPlan:
    return replace(exact(work), device="cuda", switches=SWITCHES)


def exact(work: WorkPlan) -> WorkPlan:
    own = {"vae_dtype": "float32", "attention": "math"} if work.family == "seedvr2" else {}
    return replace(work, dtype="float32", **own)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_gives_the_pictures_of_the_processor(kind: str, tmp_path: Path) -> None:
    job = small_job(kind, tmp_path)
    work = job.plan.work
    wanted = job.right(exact(work))
    job.plan = replace(job.plan, work=on_gpu(work))
    with pretended_gpu() as gpu:
        outcome = job.run()
    assert len(outcome.pictures) == len(wanted)
    for found, right in zip(outcome.pictures, wanted, strict=True):
        assert np.abs(found.astype(int) - right.astype(int)).max() <= 1
    assert not gpu.record.problems
    assert gpu.launches
