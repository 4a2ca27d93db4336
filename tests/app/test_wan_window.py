"""The window with the real engine: very small VAEs of Wan, from a drop to a finished file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import torch
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel
from pytestqt.qtbot import QtBot

from app.application import Program
from app.latents.latent_sheet import LatentSheet
from app.preview.scene import Mode
from app.state.job_row import JobRow, JobState
from engine.api import probe
from engine.core.geometry import Size
from engine.models.wan.latents.writer import LatentWriter
from engine.protocol import events
from tests.helpers.clips import Clip, make_clip
from tests.helpers.wan import tiny_wan_config, write_wan

_PATIENCE_MS = 90_000
GRID = Size(8, 4)  # 64x32 px: x265 4.2 loses its memory at widths of 40 and 48


def wait(qtbot: QtBot, condition: Callable[[], bool]) -> None:
    qtbot.waitUntil(condition, timeout=_PATIENCE_MS)


def write_latent(path: Path, channels: int = 16, length: int = 2, first: float = 0.0) -> Path:
    """Noise as an encoder could give it, its first number `first`."""
    writer = LatentWriter(path, channels, GRID)
    generator = torch.Generator().manual_seed(3)
    shape = (channels, length, GRID.height, GRID.width)
    latents = torch.randn(shape, generator=generator)
    latents[0, 0, 0, 0] = first
    writer.add(latents)
    writer.close()
    return path


def drop(program: Program, *files: Path) -> LatentSheet:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(file)) for file in files])
    program.window.intake.take_drop(mime)
    return program.latents.sheet


def press(program: Program, name: str) -> None:
    button = program.window.findChild(QAbstractButton, name)
    assert button is not None, name
    assert button.isEnabled(), name
    button.click()


def texts(sheet: LatentSheet) -> str:
    return "\n".join(label.text() for label in sheet.findChildren(QLabel) if label.isVisible())


def planned(row: JobRow) -> bool:
    return row.plan is not None or row.error is not None


def ended(row: JobRow) -> bool:
    return row.state in (JobState.DONE, JobState.FAILED, JobState.REJECTED)


def test_a_film_goes_through_wan_2x(program: Program, qtbot: QtBot, tmp_path: Path) -> None:
    source = make_clip(tmp_path / "film.mp4", Clip(frames=6, size=(48, 32), audio_tracks=1))
    vae = tmp_path / "wan2x.safetensors"
    write_wan(vae, tiny_wan_config("2x"))
    drop(program, source)
    row = program.queue.rows[0]
    wait(qtbot, lambda: planned(row))
    box = program.window.findChild(QComboBox, "setting-model")
    assert box is not None
    box.setCurrentIndex(box.findData("wan-2x"))
    box.activated.emit(box.currentIndex())
    wait(qtbot, lambda: "weights-missing" in row.refusals)  # nothing was fetched here
    assert program.window.choices.choose({"vae": str(vae)})
    wait(qtbot, lambda: row.plan is not None and row.plan.fits and row.plan.work.family == "wan")
    tiles: list[object] = []
    program.bridge.subscribe(events.TileDone, lambda event: tiles.append(event.picture))
    program.window.do("start")
    wait(qtbot, lambda: ended(row))
    assert (row.state, row.error) == (JobState.DONE, None)
    assert any(picture is not None for picture in tiles)
    assert row.report is not None
    assert {check.code for check in row.report.problems} <= {"likeness"}  # random numbers
    made = probe(row.report.output)
    assert (made.video.size, row.report.frames_out) == (Size(96, 64), 6)
    assert [stream.kind for stream in made.streams if stream.kind != "video"] == ["audio"]


def test_latents_are_seen_in_both_readings_and_become_a_film(
    program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    vae = tmp_path / "wan21.safetensors"
    write_wan(vae, tiny_wan_config("2.1"))
    sheet = drop(program, write_latent(tmp_path / "ComfyUI_00001_.latent"))
    wait(qtbot, lambda: sheet.is_missing_vae)
    assert "Wan 2.1 VAE · 16 channels · 64×32 · 5 frames" in texts(sheet)
    sheet._choose_vae("latent_vae", str(vae))
    wait(qtbot, lambda: sheet.picture() is not None)
    press(program, "reading-normalised")
    normalised = sheet.picture()
    press(program, "reading-raw")
    assert sheet.picture() not in (None, normalised)
    press(program, "segment-24")
    press(program, "latentAdd")
    row = program.queue.rows[0]
    assert row.picture is not None
    wait(qtbot, lambda: planned(row))
    assert row.plan is not None
    assert row.plan.fits, row.plan.notices
    program.window.do("start")
    wait(qtbot, lambda: ended(row))
    assert (row.state, row.error) == (JobState.DONE, None)
    assert row.report is not None
    assert row.report.passed, row.report.problems
    made = probe(row.report.output)
    assert (made.video.size, row.report.frames_out) == (Size(64, 32), 5)
    assert made.video.frame_rate == Fraction(24)
    canvas = program.window.preview.canvas
    wait(qtbot, lambda: canvas.mode is Mode.RESULT)  # what was decoded has gone with the job


def test_latents_that_are_none_say_so_and_queue_nothing(
    program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.latent"
    empty.write_bytes(b"")
    cut = write_latent(tmp_path / "cut.latent")
    cut.write_bytes(cut.read_bytes()[:-9])
    other = write_latent(tmp_path / "other.latent", channels=4)
    wrong = write_latent(tmp_path / "wrong.latent", first=float("nan"))
    sheet = drop(program, empty, cut, other, wrong)
    said = ("empty.latent is empty.", "cut.latent ends too early.", "4 channels", "NaN or infinite")
    for words in said:
        wait(qtbot, lambda words=words: words in texts(sheet))
        press(program, "latentUpscale")
    assert not sheet.isVisible()
    assert program.queue.rows == ()
