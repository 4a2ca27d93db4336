"""The window with the real engine: very small VAEs of Wan, from a drop to a finished file."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from pytestqt.qtbot import QtBot

from app.application import Program
from app.latents.latent_sheet import LatentSheet
from app.preview.scene import Mode
from app.state.job_row import JobState
from engine.api import probe
from engine.core.geometry import Size
from engine.models.wan.latents.file import LatentWriter
from tests.app.conftest import dropped, part, texts
from tests.helpers.wan import tiny_wan_config, write_wan

pytestmark = pytest.mark.usefixtures("figures_of_published_vaes")

_PATIENCE_MS = 90_000
GRID = Size(8, 4)  # 64x32 px: x265 4.2 loses its memory at widths of 40 and 48


def wait(qtbot: QtBot, condition: Callable[[], bool]) -> None:
    qtbot.waitUntil(condition, timeout=_PATIENCE_MS)


def write_latent(path: Path) -> Path:
    """Noise as an encoder could give it."""
    writer = LatentWriter(path, 16, GRID)
    generator = torch.Generator().manual_seed(3)
    writer.add(torch.randn((16, 2, GRID.height, GRID.width), generator=generator))
    writer.close()
    return path


def drop(program: Program, *files: Path) -> LatentSheet:
    program.window.intake.take_drop(dropped(*files))
    return program.latents.sheet


def press(program: Program, name: str) -> None:
    button = part(program.window, name)
    assert button.isEnabled(), name
    button.click()


def test_latents_in_both_readings_become_a_film(program, qtbot, tmp_path):
    vae = tmp_path / "wan21.safetensors"
    write_wan(vae, tiny_wan_config("2.1"))
    sheet = drop(program, write_latent(tmp_path / "ComfyUI_00001_.latent"))
    wait(qtbot, lambda: part(sheet, "getLatentVae").isVisible())
    assert "Wan 2.1 VAE · 16 channels · 64×32 · 5 frames" in texts(sheet)
    sheet._choose_vae("latent_vae", str(vae))
    wait(qtbot, lambda: sheet.picture() is not None)
    press(program, "reading-normalised")
    normalised = sheet.picture()
    press(program, "reading-raw")
    assert sheet.picture() not in (None, normalised)
    part(sheet, "setting-latent_rate").setValue(24)
    press(program, "latentAdd")
    row = program.queue.rows[0]
    assert row.picture is not None
    wait(qtbot, lambda: row.plan is not None)
    assert row.plan.fits, row.plan.notices
    program.window.actions_["start"].trigger()
    wait(qtbot, lambda: row.state not in (JobState.WAITING, JobState.RUNNING))
    assert (row.state, row.error) == (JobState.DONE, None)
    report = row.report
    assert report.passed, report.problems
    made = probe(report.output)
    assert (made.video.size, report.frames_out) == (Size(64, 32), 5)
    assert made.video.frame_rate == Fraction(24)
    canvas = program.window.preview.canvas
    wait(qtbot, lambda: canvas.mode is Mode.SECOND)  # what was decoded has gone with the job
