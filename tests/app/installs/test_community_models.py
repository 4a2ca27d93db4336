"""A model file that is dropped on the window: imported, described, and used for the film."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.application import Program
from app.state.job_row import JobState
from app.status_bar import plan_lines
from app.widgets.controls import ChoiceBox
from engine.core.errors import LibraryMissing
from engine.files.catalogue import catalogue
from engine.protocol import commands, events
from engine.protocol.model_file_state import NetworkFacts, PublishedState
from tests.app.conftest import Bench, dropped, part, texts
from tests.app.test_narrow_window import settle
from tests.app.test_small_screens import lies_inside
from tests.helpers.clips import Clip, make_clip
from tests.helpers.community import RUN, write_network
from tests.helpers.fake_tasks import FILE

_PATIENCE_MS = 90_000
COMPACT = NetworkFacts(architecture="RealESRGAN Compact", scale=4, takes_half=True)


def own(path: Path, scale: int = 4) -> PublishedState:
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
        network=replace(COMPACT, scale=scale),
    )


def test_a_drop_opens_the_list_and_imports_the_file(bench: Bench, tmp_path: Path) -> None:
    for name in ("4x_film.pth", "4x_film.safetensors"):
        before = len(bench.asked(commands.ImportModelFile))
        bench.program.window.intake.take_drop(dropped(tmp_path / name))
        bench.hear()
        (request,) = bench.asked(commands.ImportModelFile)[before:]
        assert (request.path, request.mode) == (tmp_path / name, "copy")
        assert bench.asked(commands.AddJob) == []
        assert bench.program.models.view.isVisible()
        assert f"Importing {name}" in texts(bench.program.models.view)
        bench.program.models.view.close()


def test_its_row_says_what_it_is_and_it_is_used_for_the_film(bench: Bench, tmp_path: Path) -> None:
    bench.do("models")
    view = bench.program.models.view
    view.unfold()
    view.resize(1200, 700)  # more than the screen of tests has: nothing is shortened
    bench.engine.tasks.files["own-1"] = own(tmp_path / "4x_film.pth")
    bench.tasks.list(FILE)
    said = texts(view)
    assert "4x_film.pth" in said
    assert "RealESRGAN Compact · 4x · float16 possible" in said
    bench.add()
    bench.program.models.act("use", "own-1")
    settings = bench.asked(commands.ChangeJob)[-1].settings
    assert settings.model == "community"
    assert settings.model_file == str(tmp_path / "4x_film.pth")


LIBRARY = replace(
    next(file for file in catalogue() if file.kind == "library").as_state(), state="missing"
)
LACKING = LibraryMissing("packed", wheel=LIBRARY.filename, version="0.4.2").info()


def list_library(bench: Bench, **changes: Any) -> None:
    """The engine lists the library that the packaged program lacks, among the files."""
    bench.engine.tasks.files[LIBRARY.id] = replace(LIBRARY, **changes)
    bench.tasks.list(FILE)


def refuse(bench: Bench, path: Path) -> None:
    """The engine refuses an import for want of the library."""
    bench.emit(events.TaskFailed(kind=FILE, subject=str(path), phase="import", error=LACKING))


def choose_in_dialog(bench: Bench, path: Path) -> None:
    """What the next file dialog answers."""
    answer = staticmethod(lambda *_: (str(path), ""))
    bench.patch.setattr(QFileDialog, "getOpenFileName", answer)


def test_a_dropped_wheel_of_the_library_is_imported_as_a_model_file_is(
    bench: Bench, tmp_path: Path
) -> None:
    wheel = tmp_path / LIBRARY.filename
    bench.window.intake.take_drop(dropped(wheel))
    bench.hear()
    (request,) = bench.asked(commands.ImportModelFile)
    assert (request.path, request.mode) == (wheel, "copy")
    assert bench.asked(commands.ImportRuntime) == []


def test_a_model_without_its_library_offers_a_button_and_is_taken_afterwards(
    bench: Bench, tmp_path: Path
) -> None:
    list_library(bench)
    model, wheel = tmp_path / "4x_film.pth", tmp_path / LIBRARY.filename
    bench.program.models.open_view()
    bench.program.models.take_file(model, "link")
    refuse(bench, model)
    view = bench.program.models.view
    assert LIBRARY.filename in texts(view)
    choose_in_dialog(bench, wheel)
    part(view, "addLibrary").click()
    bench.emit(events.TaskDone(kind=FILE, subject=str(wheel), phase="import", result=LIBRARY))
    list_library(bench, state="here", path=wheel)
    asked = [(one.path, one.mode) for one in bench.asked(commands.ImportModelFile)]
    assert asked == [(model, "link"), (wheel, "copy"), (model, "link")]


def test_the_list_has_the_library_with_a_button(bench: Bench, tmp_path: Path) -> None:
    list_library(bench)
    bench.program.models.open_view()
    view = bench.program.models.view
    view.unfold()
    assert "spandrel 0.4.2" in texts(view)
    button = part(view, "do-spandrel")
    assert button.text() == "Add …"
    choose_in_dialog(bench, tmp_path / "downloaded.whl")
    button.click()
    (request,) = bench.asked(commands.ImportModelFile)
    assert request.path == tmp_path / "downloaded.whl"
    list_library(bench, state="here", path=tmp_path / LIBRARY.filename)
    assert button.text() == "Verify"


def test_a_removal_says_whether_it_can_be_fetched_again(bench: Bench) -> None:
    asked: list[str] = []
    bench.patch.setattr(
        "app.controllers.models.is_confirmed",
        lambda _parent, _text, details, **_: asked.append(details),
    )
    for file, end in (
        (LIBRARY, "cannot download it again."),
        (own(Path("4x_film.pth")), "cannot download it again."),
        (replace(LIBRARY, kind="vae"), "It can be downloaded again."),
    ):
        bench.program.models.confirm_remove(replace(file, state="here"))
        assert asked[-1].endswith(end)
    assert len(asked) == 3


def test_films_that_were_refused_without_the_library_are_planned_again(bench: Bench) -> None:
    bench.engine.reject["film.mp4"] = LACKING
    list_library(bench)
    bench.add()
    assert bench.find("errorAction").text() == "Show the models"
    bench.engine.reject.clear()
    list_library(bench, state="here", path=Path(LIBRARY.filename))
    bench.hear()  # what was answered meanwhile
    assert [row.state for row in bench.program.queue.rows] == [JobState.WAITING]


def test_the_row_of_an_imported_file_is_brought_into_view(bench: Bench, tmp_path: Path) -> None:
    bench.program.window.intake.take_drop(dropped(tmp_path / "4x_film.pth"))
    bench.hear()
    view = bench.program.models.view
    view.activateWindow()
    view.resize(910, 432)
    bench.engine.tasks.files["own-1"] = own(tmp_path / "4x_film.pth")
    bench.engine.tasks.list(FILE)
    bench.program.bridge.drain()
    settle()
    button = view.focusWidget()
    assert button.text() == "Use"
    assert lies_inside(button)
    assert "4x_film.pth" in texts(button.parentWidget())


def pick(box: ChoiceBox, text: str) -> None:
    """Choose an entry as a user does."""
    box.setCurrentIndex(box.findText(text))
    box.activated.emit(box.currentIndex())


def test_only_models_that_keep_the_size_can_clean_frames_first(
    bench: Bench, tmp_path: Path
) -> None:
    box = bench.find("setting-first_model")
    bench.add()
    bench.press("moreChoices")
    assert not box.isVisible(), "nothing to choose"
    for number, scale in enumerate((4, 1)):
        file = own(tmp_path / f"{scale}x_film.pth", scale)
        bench.engine.tasks.files[f"own-{number}"] = replace(file, id=f"own-{number}")
    bench.tasks.list(FILE)
    assert box.isVisible()
    assert [box.itemText(at) for at in range(box.count())] == ["No cleaning", "1x_film.pth"]
    pick(box, "1x_film.pth")
    bench.window.choices.flush()
    settings = bench.asked(commands.ChangeJob)[-1].settings
    assert settings.first_model == str(tmp_path / "1x_film.pth")
    assert settings.model == "auto"
    pick(box, "No cleaning")
    bench.window.choices.flush()
    assert bench.asked(commands.ChangeJob)[-1].settings.first_model == ""


def test_the_file_of_a_film_is_shown_though_it_is_not_imported(bench: Bench) -> None:
    bench.add()
    bench.choose(first_model="films/1x_other.pth")
    bench.press("moreChoices")
    box = bench.find("setting-first_model")
    assert box.isVisible()
    assert box.currentText() == "1x_other.pth"
    bench.do("start")
    assert "1x_other.pth" in texts(bench.window.choices)


def test_a_first_pass_that_is_chosen_changes_the_plan_and_the_film(
    program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    cleaner = write_network(tmp_path / "1x_clean.pth", upscale=1)
    source = make_clip(tmp_path / "film.mp4", Clip(frames=3, size=(48, 32)))
    row = program.queue.find(program.controller.add_file(source))
    program.models.take_file(cleaner, "copy")
    box = part(program.window, "setting-first_model")
    qtbot.waitUntil(lambda: box.count() == 2 and row.plan is not None, timeout=60_000)
    assert row.plan.first_pass is None
    pick(box, "1x_clean.pth")
    qtbot.waitUntil(lambda: row.plan is not None and row.plan.first_pass is not None)
    assert "1x_clean.pth" in plan_lines(row.plan)[0]
    program.window.actions_["start"].trigger()
    qtbot.waitUntil(lambda: row.state is JobState.DONE, timeout=60_000)
    assert "clean" in {one.stage for one in row.report.stage_times}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_each_architecture_goes_from_a_drop_to_a_finished_film(
    name: str, program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    def wait(condition: Callable[[], bool]) -> None:
        qtbot.waitUntil(condition, timeout=_PATIENCE_MS)

    def own_files() -> list[PublishedState]:
        return [file for file in program.model_files.files if file.is_own]

    wait(lambda: program.model_files.is_known)
    program.window.intake.take_drop(dropped(write_network(tmp_path / "tiny.safetensors", name)))
    wait(lambda: bool(own_files()))
    film = make_clip(tmp_path / "film.mkv", codec="ffv1", frames=3)
    row = program.queue.find(program.controller.add_file(film))
    wait(lambda: row.plan is not None)  # as a user sees it
    program.models.act("use", own_files()[0].id)
    wait(lambda: row.plan.work.model == "community")
    program.window.actions_["start"].trigger()
    wait(lambda: row.state not in (JobState.WAITING, JobState.RUNNING))
    assert (row.state, row.error) == (JobState.DONE, None)
    # networks of random numbers make pictures that look like nothing
    assert {check.code for check in row.report.problems} <= {"likeness", "black"}
    assert row.report.frames_out == 3
