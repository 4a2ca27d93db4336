"""The report of a job names the model files that its result was made with."""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.cli.formatting import model_file_words
from engine.pipeline.context import JobContext
from engine.protocol.events import Event, SegmentDone
from engine.protocol.report import ModelFile
from tests.helpers.jobs import small_job


@pytest.mark.parametrize(
    ("kind", "architecture"), [("community", "RealESRGAN Compact"), ("seedvr2", "")]
)
def test_each_file_has_its_sum_and_a_community_model_its_architecture(
    kind: str, architecture: str, tmp_path: Path
) -> None:
    job = small_job(kind, tmp_path)
    report = job.run().report
    used = {file.path.name: file.path for file in job.plan.work.weights_files}
    assert {file.name for file in report.model_files} == set(used)
    for file in report.model_files:
        assert file.sha256 == sha256(used[file.name].read_bytes()).hexdigest()
        assert file.architecture == architecture


def test_the_model_of_a_first_pass_is_named_too_and_lite_has_no_file(tmp_path: Path) -> None:
    report = small_job("lite", tmp_path, is_cleaned=True).run().report
    (file,) = report.model_files
    assert file.architecture == "RealESRGAN Compact"


def test_a_file_that_was_changed_meanwhile_has_no_sum(tmp_path: Path) -> None:
    job = small_job("community", tmp_path)
    (weights,) = job.plan.work.weights_files

    def touched_by(context: JobContext) -> None:
        def emit(event: Event) -> None:
            if isinstance(event, SegmentDone):
                os.utime(weights.path, (0, 0))

        context.events = SimpleNamespace(all=[], emit=emit)

    (file,) = job.run(change=touched_by).report.model_files
    assert (file.name, file.sha256) == (weights.path.name, "")


def test_the_command_line_says_it_too() -> None:
    own = ModelFile(name="4x_film.pth", sha256="3f65", architecture="SPAN")
    assert model_file_words(own) == "4x_film.pth (SPAN), SHA-256 3f65"
    assert model_file_words(replace(own, sha256="", architecture="")).endswith("changed since")
