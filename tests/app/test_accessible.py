"""Names, keys and contrast of all that acts, as screen readers and eyes find them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QWidget

from app.actions import SPECS
from tests.helpers.accessible import alike, unnamed, unreachable, unreadable
from tools.screenshots import render
from tools.screenshots.shots import Shot

DO_THE_SAME = ("'Add files'",)  # in the column and in the empty stage
STATES = [state for state in render.STATES if state != "dropping"]  # a veil lies over all
ROOT = Path(__file__).parents[2]


def _faults(window: QWidget) -> list[str]:
    same = [one for one in alike(window) if not one.startswith(DO_THE_SAME)]
    return unnamed(window) + same + unreachable(window) + unreadable(window)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_all_that_acts_has_a_name_a_key_and_contrast(bench, theme):
    bench.program.use_theme(theme)
    faults = [_faults(bench.window)]
    bench.add()
    bench.window.choices.more.unfold()
    bench.hear()
    faults.append(_faults(bench.window))
    bench.do("start")
    bench.engine.advance(10)
    bench.hear()
    faults.append(_faults(bench.window))
    bench.finish()
    bench.window.actions_["log"].trigger()
    bench.hear()
    faults.append(_faults(bench.window))
    for page, dialog in (
        ("models", lambda: bench.program.models.view),
        ("settings", lambda: bench.program.settings.dialog),
        ("bench", lambda: bench.program.bench.view),
        ("help", lambda: bench.program.help.view),
    ):
        bench.do(page)
        faults.append(_faults(dialog()))
        dialog().close()
    bench.program.use_theme("dark")
    assert not [fault for found in faults for fault in found]


def test_every_action_has_a_key_of_its_own():
    keys = [key for spec in SPECS.values() for key in spec.shortcuts]
    assert all(spec.shortcuts for spec in SPECS.values())
    assert len(keys) == len(set(keys))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the real engine says while it upscales the sample clip."""
    folder = tmp_path_factory.mktemp("recording")
    command = [sys.executable, "-m", "tools.screenshots.render", str(folder), "--only", "empty"]
    command += ["--recording", str(folder / "kept")]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)})
    return pickle.loads((folder / "kept").read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_every_state_of_the_screenshots_is_named_reached_by_keys_and_readable(
    qapp: Any, recording: Any, state: str
) -> None:
    theme = ("dark", "light")[STATES.index(state) % 2]
    with render.shown(qapp, recording, Shot(state, theme=theme)) as player:
        assert not _faults(player.dialog or player.program.window)
