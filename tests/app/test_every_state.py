"""Every state of `tools.screenshots`: named, reached by keys, readable, and no text is cut."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QWidget

from app.bridge.engine_bridge import EventHub
from app.widgets.controls import ElidedLabel
from engine.core.geometry import Size
from tests.app.test_accessible import faults_of
from tests.app.test_narrow_window import cut_off
from tests.app.test_small_screens import lies_inside
from tests.helpers.foreign import HOSTILE, harm_in, poisoned
from tools.screenshots import render
from tools.screenshots.player import Player
from tools.screenshots.shots import Shot

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
VEILED = "dropping"  # a veil lies over all
SMALLEST = Size(910, 432)  # logical px
# 1366x768, and 1920x1080 at 150 %, each less task bar and title; logical px.
USUAL_SCREENS = (Size(1366, 688), Size(1280, 640))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> render.Recording:
    """What the real engine says while it upscales the sample clip."""
    folder = tmp_path_factory.mktemp("recording")
    command = [sys.executable, "-m", "tools.screenshots.render", str(folder), "--only", "empty"]
    command += ["--recording", str(folder / "kept")]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)})
    recording: render.Recording = pickle.loads((folder / "kept").read_bytes())
    return recording


def too_short(window: QWidget) -> Iterator[str]:
    """One-line texts of which less than a word is left."""
    for label in window.findChildren(ElidedLabel):
        if label.isVisible() and label.text() in ("…", "") and label.whole:
            yield label.whole


@pytest.mark.parametrize("state", [state for state in render.STATES if state != VEILED])
def test_all_that_acts_is_named_reached_by_keys_and_readable(
    qapp: QApplication, recording: render.Recording, state: str
) -> None:
    theme = ("dark", "light")[len(state) % 2]
    with render.shown(qapp, recording, Shot(state, theme=theme)) as player:
        assert not faults_of(player.dialog or player.program.window)


@pytest.mark.parametrize("size", USUAL_SCREENS)
@pytest.mark.parametrize("state", [state for state in render.STATES if state != VEILED])
def test_the_plan_and_what_starts_or_pauses_it_are_in_sight(
    qapp: QApplication, recording: render.Recording, state: str, size: Size
) -> None:
    language = ("en", "zh_CN")[len(state) % 2]
    with render.shown(qapp, recording, Shot(state, language, size=size)) as player:
        window = player.program.window
        wanted = ("planHead", "whyThisPlan", "plan-time", "plan-size", "plan-disk")
        mains = [window.findChild(QWidget, name) for name in ("primaryAction", "pauseAction")]
        assert any(main.isVisible() and lies_inside(main) for main in mains)
        parts = [window.findChild(QWidget, name) for name in wanted]
        assert [one.objectName() for one in parts if one.isVisible() and not lies_inside(one)] == []


@pytest.mark.parametrize("state", render.STATES)
def test_foreign_text_is_plain_text(
    qapp: QApplication, recording: render.Recording, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver, add = EventHub.deliver, Player.add
    monkeypatch.setattr(EventHub, "deliver", lambda hub, event: deliver(hub, poisoned(event)))
    monkeypatch.setattr(
        Player, "add", lambda self, job_id, name, *rest: add(self, job_id, HOSTILE + name, *rest)
    )
    with render.shown(qapp, recording, Shot(state)) as player:
        shown = player.dialog or player.program.window
        assert harm_in(player.program.window)[0] + harm_in(shown)[0] == []


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("state", render.STATES)
def test_no_text_is_cut_on_the_smallest_screen(
    qapp: QApplication, recording: render.Recording, state: str, language: str
) -> None:
    with render.shown(qapp, recording, Shot(state, language, size=SMALLEST)) as player:
        shown = player.dialog or player.program.window
        assert [*cut_off(shown), *too_short(shown)] == []
