"""Choices of trials are part of a job: whatever trials find later, it goes on as it was begun."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.errors import Cancelled, CheckpointMismatch, ChoiceMissing
from engine.jobs.checkpoint import Checkpoint
from engine.protocol.plan import Plan
from tests.helpers.choices import Device, devices, kept
from tests.helpers.jobs import run, segment_files, small_plan

IN_PLACE = "onednn on cpu: sums in place"


@pytest.fixture
def device() -> Iterator[Device]:
    with devices() as change:
        yield change


def begun(folder: Path) -> Plan:
    """A job of which a first segment was made, in the folder "two"."""
    plan = small_plan("wan-2x", folder, (5, 2, 2))
    with pytest.raises(Cancelled):
        run(plan, folder / "two", stop_after=1)
    return plan


def test_a_job_that_was_begun_without_an_operator_goes_on_without_it(
    tmp_path: Path, device: Device
) -> None:
    device(adds_in_place=False)
    plan = begun(tmp_path)
    run(plan, tmp_path / "one")
    device()
    run(plan, tmp_path / "with it")
    run(plan, tmp_path / "two")
    assert kept(tmp_path / "two") == {IN_PLACE: "not used"}
    assert kept(tmp_path / "with it") == {IN_PLACE: "used"}
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    assert segment_files(tmp_path / "with it") != segment_files(tmp_path / "one")


def test_a_job_that_was_begun_with_an_operator_is_refused_without_it(
    tmp_path: Path, device: Device
) -> None:
    device()
    plan = begun(tmp_path)
    before = segment_files(tmp_path / "two")
    device(adds_in_place=False)
    with pytest.raises(ChoiceMissing) as caught:
        run(plan, tmp_path / "two")
    assert caught.value.message == (
        "The job was started with “sums in place” by oneDNN, which this device cannot compute: "
        "it has been removed."
    )
    assert caught.value.hint
    assert not caught.value.is_permanent
    assert segment_files(tmp_path / "two") == before
    device()
    run(plan, tmp_path / "one")
    run(plan, tmp_path / "two")
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")


def test_a_job_of_an_earlier_version_chooses_anew(tmp_path: Path, device: Device) -> None:
    device()
    plan = begun(tmp_path)
    (tmp_path / "two" / "choices.json").unlink()
    device(adds_in_place=False)
    run(plan, tmp_path / "two")
    assert kept(tmp_path / "two") == {IN_PLACE: "not used"}


@pytest.mark.parametrize(
    ("text", "case"),
    [
        ("", "record-unreadable"),
        ("{", "record-unreadable"),
        ('{"version": 1, "choices": {"a": 3}}', "record-unreadable"),
        ('{"version": 2, "choices": {}}', "other-version"),
    ],
)
def test_a_damaged_record_of_choices_is_refused(text: str, case: str, tmp_path: Path) -> None:
    plan = begun(tmp_path)
    (tmp_path / "two" / "choices.json").write_text(text, "utf-8")
    with pytest.raises(CheckpointMismatch) as caught:
        run(plan, tmp_path / "two")
    assert caught.value.case == case


def test_choices_go_with_the_segments(tmp_path: Path) -> None:
    begun(tmp_path)
    file = tmp_path / "two" / "choices.json"
    checkpoint = Checkpoint(tmp_path / "two")
    assert checkpoint.choices.known
    checkpoint.clear()
    assert not checkpoint.choices.known
    assert not file.exists()
    file.write_text(json.dumps("of another job"), "utf-8")
    assert not Checkpoint(tmp_path / "two").choices.known
