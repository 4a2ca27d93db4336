import json
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from engine.bench import first_contact, run
from engine.bench.first_contact import (
    PARTS,
    TOTAL_S,
    ContactPart,
    RowsOfPart,
    Unanswered,
    contact_rows,
    measure,
    rows_here,
    rows_of_process,
)
from engine.bench.run import BenchOptions
from engine.core.control import Control
from engine.core.errors import Cancelled, NoUsableGpu, OutputUnwritable
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.hardware import devices
from engine.protocol.report import DoctorLine

BY_CASE = {part.case: part for part in PARTS}
FACTS, VAE = BY_CASE["facts"], BY_CASE["vae"]
NO_GPU = "torch cannot use an NVIDIA GPU"


@dataclass
class FakeRows:
    """Two rows for each part; those in `broken` end after the first."""

    broken: dict[str, str] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    options: list[BenchOptions] = field(default_factory=list)

    def __call__(
        self, part: ContactPart, options: BenchOptions, limit_s: float
    ) -> Iterator[dict[str, Any]]:
        self.limits[part.case] = limit_s
        self.options.append(options)
        yield {"case": part.case, "seconds": 1.25}
        if part.case in self.broken:
            raise Unanswered(self.broken[part.case])
        yield {"case": part.case, "seconds": 2.5, "note": "a | b\nc"}


def contact(
    folder: Path,
    rows: RowsOfPart,
    parts: tuple[ContactPart, ...] = PARTS,
    *,
    goes_on: bool = False,
) -> dict[str, str]:
    """States of all parts."""
    options = BenchOptions(device="cpu")
    found = contact_rows(options, folder, rows, parts, goes_on=goes_on)
    return {row["part"]: str(row["state"]) for row in found}


def read(rows: Iterator[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """The rows of a part, and why it ended early."""
    found = []
    try:
        for row in rows:
            found.append(row)
    except Unanswered as end:
        return found, str(end)
    return found, ""


def test_every_part_is_answered_or_says_why_not(tmp_path: Path) -> None:
    rows, folder = FakeRows({"vae": "its process ended"}), tmp_path / "new"
    states = contact(folder, rows)
    assert list(states) == list(BY_CASE)
    page = (folder / "measured.md").read_text("utf-8")
    answers = json.loads((folder / "measured.json").read_text("utf-8"))["answers"]
    for name, part in BY_CASE.items():
        expected = "answered"
        if part.needs_gpu:
            expected = f"unanswered: {NO_GPU}"
        elif name == "vae":
            expected = "partly answered: its process ended"
        assert states[name] == expected
        assert f"| {name} | {expected} | 0" in page
        assert len(answers[name]["rows"]) == (0 if part.needs_gpu else 1 if name == "vae" else 2)
    assert "| 2.5 | a / b c |" in page
    assert sorted(path.name for path in folder.iterdir()) == [
        "measured.json",
        "measured.md",
    ]


def test_answered_parts_of_a_run_that_was_stopped_are_not_run_again(tmp_path: Path) -> None:
    """And those of a complete one, where the user wants the rest of them."""
    parts = FACTS, VAE

    def stopped(part: ContactPart, *_: object) -> Iterator[dict[str, Any]]:
        yield {"case": part.case}
        if part is VAE:
            raise Cancelled

    with pytest.raises(Cancelled):
        contact(tmp_path, stopped, parts)
    second = FakeRows({"vae": "not enough memory"})
    states = contact(tmp_path, second, parts)
    assert (states["facts"], list(second.limits)) == ("answered earlier", ["vae"])
    third = FakeRows({"vae": "not enough memory"})
    assert contact(tmp_path, third, parts)["facts"] == "answered", "a new measurement"
    rest = FakeRows()
    states = contact(tmp_path, rest, parts, goes_on=True)
    assert (states, list(rest.limits)) == (
        {"facts": "answered earlier", "vae": "answered"},
        ["vae"],
    )
    file = tmp_path / "measured.json"
    data = json.loads(file.read_text("utf-8"))
    for change in ({"basis": {}}, {"answers": 1}):
        file.write_text(json.dumps(data | change), "utf-8")
        again = FakeRows()
        contact(tmp_path, again, parts, goes_on=True)
        assert list(again.limits) == ["facts", "vae"], change


LINES = (DoctorLine(name="power", state="ok", message=message("doctor.power.mains")),)
FILM = "/home/anna/Wedding films/a.mkv"


@dataclass
class Measured:
    """An archive that is written with rows of a fake, and the steps that were reported."""

    path: Path
    steps: list[tuple[int, int, str]] = field(default_factory=list)

    def write(self, control: Control | None = None) -> None:
        measure(
            self.path, BenchOptions(device="cpu"), report=self._report, control=control or Control()
        )

    def texts(self) -> dict[str, str]:
        with zipfile.ZipFile(self.path) as file:
            return {name: file.read(name).decode() for name in file.namelist()}

    def _report(self, done: int, total: int, step: Message | None) -> None:
        self.steps.append((done, total, str(step or "")))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    def rows(
        part: ContactPart, options: BenchOptions, limit_s: float, control: Control
    ) -> Iterator[dict[str, Any]]:
        control.check()
        yield {
            "case": part.case,
            "size": "1280x720",
            "seconds": 1.5,
            "note": f"cannot read {FILM}",
        }

    monkeypatch.setattr(first_contact, "rows_of_process", rows)
    monkeypatch.setattr(first_contact.diagnostics, "examine", lambda: LINES)
    return Measured(tmp_path / "pc.zip")


def test_the_archive_has_self_test_and_figures_and_names_no_file(measured: Measured) -> None:
    measured.write()
    found = measured.texts()
    assert {"about.txt", "doctor.txt", "measured.md", "measured.json"} <= set(found)
    assert "ok       power: no battery" in found["doctor.txt"]
    data = json.loads(found["measured.json"])
    assert data["is_whole"]
    assert list(data["answers"]) == list(BY_CASE)
    (row,) = data["answers"]["seedvr2-job"]["rows"]
    assert (row["seconds"], row["size"]) == (1.5, "1280x720")
    assert data["basis"]["machine"]["processor"] == devices.cpu_name()
    for name, text in found.items():
        assert "anna" not in text, name
        assert "Wedding" not in text, name
    total = len(PARTS) + 1
    assert measured.steps[0] == (0, total, "Self-test")
    assert [done for done, _, _ in measured.steps] == list(range(total + 1))
    assert measured.steps[-1] == (total, total, "")


def test_an_archive_that_is_stopped_has_what_was_measured_and_goes_on(measured: Measured) -> None:
    control, report = Control(), measured._report

    def stopping(done: int, total: int, step: Message | None) -> None:
        report(done, total, step)
        if done == 3:
            control.cancel()

    measured._report = stopping  # type: ignore[method-assign]
    with pytest.raises(Cancelled):
        measured.write(control)
    answers = json.loads(measured.texts()["measured.json"])["answers"]
    assert list(answers) == list(BY_CASE)[:2]
    measured._report = report  # type: ignore[method-assign]
    measured.write()
    assert json.loads(measured.texts()["measured.json"])["is_whole"]


def test_an_archive_that_cannot_be_written_is_refused_before_ten_minutes(
    measured: Measured,
) -> None:
    measured.path = measured.path.parent / "none" / "pc.zip"
    with pytest.raises(OutputUnwritable):
        measured.write()
    assert len(measured.steps) == 1


def test_a_part_is_killed_as_soon_as_the_user_stops() -> None:
    control = Control()
    threading.Timer(0.4, control.cancel).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        list(rows_of_process(FACTS, BenchOptions(device="cpu"), 60.0, control))
    assert time.monotonic() - began < 10


def test_the_document_has_the_parts_of_the_measurement() -> None:
    text = (Path(__file__).parents[3] / "docs" / "first-contact.md").read_text("utf-8")
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ")]
    listed = [name for cell in rows[1:] for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(listed) == sorted(BY_CASE)
    assert set(listed) <= {*run.CASES, *run.GROUPS}


def test_unused_time_goes_to_later_parts(tmp_path: Path) -> None:
    rows, parts = FakeRows(), (FACTS, VAE, BY_CASE["speed"])
    contact(tmp_path, rows, parts)
    shares = [part.share for part in parts]
    for number, limit in enumerate(rows.limits.values()):
        share = shares[number] / sum(shares[number:])
        assert limit == pytest.approx(TOTAL_S * share, rel=0.02)
    assert sum(part.share for part in PARTS) == TOTAL_S == 600


def test_a_part_has_its_sizes_unless_it_is_quick_or_one_was_chosen(tmp_path: Path) -> None:
    sizes = [Size(848, 480), Size(1280, 720), Size(1920, 1080)]
    assert [one.size for one in VAE.options(BenchOptions())] == sizes
    assert [one.size for one in VAE.options(BenchOptions(quick=True))] == [None]
    chosen = BenchOptions(size=Size(32, 16))
    assert [(one.size, one.form) for one in VAE.options(chosen)] == [(Size(32, 16), "fast")]
    rows = FakeRows()
    contact(tmp_path, rows, (VAE,))
    (tiny,) = VAE.options(rows.options[0])
    assert (tiny.device, tiny.size, tiny.quick) == ("cpu", Size(64, 64), True)
    assert max(tiny.config.block_out_channels) == 128


def test_a_missing_package_and_an_unwritable_folder_are_named(tmp_path: Path) -> None:
    part = replace(FACTS, package="no_such_package")
    states = contact(tmp_path, FakeRows(), (part,))
    assert states["facts"] == "unanswered: the package no_such_package is not installed"
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnwritable):
        contact(tmp_path / "file", FakeRows())


class CrashingPart(ContactPart):
    """Ends its process after its rows."""

    def options(self, base: BenchOptions) -> Iterator[BenchOptions]:
        yield base
        os._exit(7)


@pytest.mark.extended
def test_a_crash_ends_the_process_of_a_part_and_leaves_its_rows() -> None:
    part = CrashingPart(case="facts", share=1)
    rows, reason = read(rows_of_process(part, BenchOptions(device="cpu"), 120.0))
    facts = {row["fact"]: row["value"] for row in rows}
    assert facts["torch"] == torch.__version__
    assert facts["CUDA of torch"] == "none"
    assert "GPU of torch" not in facts
    assert reason == "its process ended with status 7"


def test_a_part_that_hangs_is_killed() -> None:
    assert read(rows_of_process(FACTS, BenchOptions(device="cpu"), 0.6)) == (
        [],
        "not finished within 1 s",
    )


def test_what_a_part_started_is_killed_with_it() -> None:
    child = f"{sys.executable!r}, '-I', '-S', '-c', 'import time; time.sleep(60)'"
    code = f"import subprocess; print(subprocess.Popen([{child}]).pid, flush=True); input()"
    command = [sys.executable, "-I", "-S", "-c", code]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        grandchild = psutil.Process(int(process.stdout.readline()))  # type: ignore[union-attr]
        first_contact._end(process.pid)
        assert grandchild.wait(20) is None
    assert process.returncode != 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "not enough memory"),
        (NoUsableGpu("bench-case"), NO_GPU),
        (RuntimeError("CUDA error: an illegal address\nmore"), "RuntimeError: CUDA error: an"),
    ],
)
def test_an_error_leaves_the_rows_before_it(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(case: object, options: object) -> Iterator[dict[str, Any]]:
        yield {"fact": "a"}
        raise error

    monkeypatch.setattr(run.BenchCase, "rows", rows)
    found, ended = read(rows_here(FACTS, BenchOptions(device="cpu")))
    assert found == [{"case": "facts", "fact": "a"}]
    assert ended.startswith(reason)
    assert "\n" not in ended
