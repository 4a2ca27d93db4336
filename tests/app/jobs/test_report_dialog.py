"""What the report of a finished job says of its stages and model files."""

import re
from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.jobs.report_dialog import ReportDialog, facts
from app.status_bar import plan_lines
from engine.cli.formatting import summary_words
from engine.protocol import events
from engine.protocol.plan import Notice
from engine.protocol.report import (
    MemoryPeak,
    ModelFile,
    PartMemory,
    Report,
    StageMemory,
    StageTime,
)
from tests.helpers.fakes import make_media, make_plan

GIB = 2**30
PEAK = MemoryPeak(requested=9 * GIB, allocated=9 * GIB, reserved=10 * GIB, used=11 * GIB)
REPORT = Report(
    source=Path("film.mkv"),
    output=Path("film_x2.mkv"),
    checks=(),
    gpu_memory=(StageMemory(stage="decode", planned=10 * GIB, peak=PEAK),),
)


def texts(report: Report, qtbot: QtBot) -> str:
    dialog = ReportDialog(report)
    qtbot.addWidget(dialog)
    return "\n".join(label.text() for label in dialog.findChildren(QLabel))


def test_the_spread_of_jobs_of_a_kind_is_shown(qtbot: QtBot) -> None:
    found = texts(replace(REPORT, memory_ratios=(0.95, 0.97, 0.96)), qtbot)
    assert "Decode: 9.0 GB, planned 10.0 GB; 10.0 GB reserved" in found
    wanted = "3 similar jobs: 95 % to 97 % of the planned value, standard deviation 1.0 %"
    assert wanted in found


def test_a_plan_that_took_over_is_shown_with_what_it_costs(qtbot: QtBot) -> None:
    change = Notice(code="plan-changed", case="pinning", severity="warning")
    report = replace(REPORT, plan_changes=(change,))
    found = texts(report, qtbot)
    assert "the same plan without pinned memory" in found
    assert "run.pinned_transfers=off" in found
    assert f"  {change.message}" in summary_words(report)


def test_the_largest_parts_of_a_stage_are_named(qtbot: QtBot) -> None:
    peaks = {
        "conv_in": 1,
        "mid_block": 4,
        "decoder.up_blocks.2": 9,
        "up_blocks.3": 8,
        "conv_out": 2,
    }
    parts = tuple(PartMemory(part=name, peak=gib * GIB) for name, gib in peaks.items())
    stages = (replace(REPORT.gpu_memory[0], parts=parts),)
    found = texts(replace(REPORT, gpu_memory=stages), qtbot)
    assert "reserved\nLargest parts: up_blocks.2 9.0 GB, up_blocks.3 8.0 GB, mid_b" in found
    assert "conv_out" not in found
    assert "largest parts" not in texts(REPORT, qtbot)


def test_times_of_the_stages_are_shown_without_those_of_0_s(qtbot: QtBot) -> None:
    times = (
        StageTime(stage="encode", seconds=12.2, planned=10.0),
        StageTime(stage="restore", seconds=0.4, planned=1.0),
        StageTime(stage="load", seconds=75.0),
    )
    found = texts(replace(REPORT, stage_times=times), qtbot)
    assert "Encode: 12 s, planned 10 s\nLoad model: 1 min 15 s" in found
    assert "Time per stage" not in texts(replace(REPORT, stage_times=times[1:2]), qtbot)


def test_model_files_are_named_with_their_sums(qtbot: QtBot) -> None:
    own = ModelFile(name="4x_film.pth", sha256="3f65", architecture="SPAN")
    found = texts(replace(REPORT, model_files=(own, replace(own, sha256=""))), qtbot)
    assert "4x_film.pth · SPAN\nSHA-256 3f65" in found
    assert "4x_film.pth · SPAN\nIt was changed before the job finished." in found
    assert "Model files" not in texts(REPORT, qtbot)


def test_one_job_has_no_spread(qtbot: QtBot) -> None:
    assert "jobs of this kind" not in texts(replace(REPORT, memory_ratios=(0.95,)), qtbot)


def test_one_frame_is_no_frames_anywhere(bench):
    bench.engine.media["photo.png"] = still = make_media(Path("photo.png"), frames=1)
    bench.start("photo.png")
    bench.finish()
    report = bench.program.queue.rows[0].report
    assert facts(report).startswith("1 frame · ")
    seen = bench.window.preview.strip.text, plan_lines(make_plan(still))[0]
    assert all(re.search(r"\b1 frame\b", said) for said in seen), seen
    assert "fps" not in seen[0]
    bench.emit(
        events.SegmentDone(
            job_id=bench.program.queue.rows[0].job_id,
            **{"segment": 0, "bytes": 9, "frames_done": 1, "frames_total": 1},
        )
    )
    assert bench.program.log.lines[-1].endswith("part 1 saved to disk, 1 of 1 frame")
