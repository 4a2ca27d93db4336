"""A model file that is dropped on the window: imported, described, and used for the film."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QUrl

from engine.protocol import commands
from engine.protocol.model_file_state import NetworkFacts, PublishedState
from tests.app.conftest import Bench, texts
from tests.helpers.fake_tasks import FILE

COMPACT = NetworkFacts(architecture="RealESRGAN Compact", scale=4, takes_half=True)


def own(path: Path) -> PublishedState:
    return PublishedState(
        id="own-1",
        title=path.name,
        kind="upscaler",
        models=("community",),
        precision="fp32",
        filename=path.name,
        bytes=2_400_000,
        state="here",
        path=path,
        network=COMPACT,
    )


@pytest.mark.parametrize("name", ["4x_film.pth", "4x_film.safetensors"])
def test_a_drop_opens_the_list_and_imports_the_file(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / name))])
    bench.program.window.intake.take_drop(data)
    bench.hear()
    (request,) = bench.asked(commands.ImportModelFile)
    assert (request.path, request.mode) == (tmp_path / name, "copy")
    assert bench.asked(commands.AddJob) == []
    assert f"Importing {name}" in texts(bench.program.models.view)


def test_its_row_says_what_it_is_and_it_is_used_for_the_film(bench: Bench, tmp_path: Path) -> None:
    bench.do("models")
    view = bench.program.models.view
    view.unfold()
    view.resize(1200, 700)  # more than the screen of tests has: nothing is shortened
    bench.engine.tasks.files["own-1"] = own(tmp_path / "4x_film.pth")
    bench.engine.tasks.list(FILE)
    bench.hear()
    said = texts(view)
    assert "4x_film.pth" in said
    assert "RealESRGAN Compact · 4x · also in float16" in said
    bench.add()
    bench.program.models.use("own-1")
    settings = bench.asked(commands.ChangeJob)[-1].settings
    assert settings.model == "community"
    assert settings.model_file == str(tmp_path / "4x_film.pth")
