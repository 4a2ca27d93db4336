from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QFileDialog,
    QLabel,
    QPushButton,
    QScrollArea,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app import desktop
from app.bridge.engine_bridge import EventHub
from app.models.models_page import ModelsPage
from app.state.model_files_model import ModelFilesModel
from app.state.tasks_model import TasksModel
from app.state.telemetry_model import TelemetryModel
from engine.core.errors import DiskFull, ErrorInfo, NotSafetensors
from engine.core.messages import message
from engine.protocol import commands, events
from engine.protocol.gpu_reading import GpuReading
from engine.protocol.plan import Notice
from tests.app.conftest import Bench
from tests.helpers.fake_tasks import FILE, FakeTasks

DIT, VAE = "seedvr2-3b-fp8", "seedvr2-vae"


class Open:
    """The list of models over a window."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.engine = bench, bench.engine.tasks
        bench.do("models")
        self.view: ModelsPage = bench.program.models.view

    def part(self, name: str) -> QWidget:
        found = self.view.findChild(QWidget, name)
        assert found is not None, name
        return found

    def button(self, file: str) -> QAbstractButton:
        found = self.part(f"get-{file}")
        assert isinstance(found, QAbstractButton)
        return found

    def press(self, file: str) -> None:
        self.button(file).click()
        self.bench.hear()

    def entry(self, file: str, name: str) -> None:
        """Choose an entry of the menu behind a row."""
        more = self.part(f"more-{file}")
        assert isinstance(more, QToolButton)
        action = {a.text(): a for a in more.menu().actions()}[name]
        assert action.isEnabled(), name
        action.trigger()
        self.bench.hear()

    def texts(self, part: QWidget | None = None) -> str:
        labels = (part or self.view).findChildren(QLabel)
        return "\n".join(label.text() for label in labels if label.isVisible())

    def put(self, *files: str, state: str = "here") -> FakeTasks:
        for file in files:
            self.engine.put(file, state)
        self.engine.list(FILE)
        self.bench.hear()
        return self.engine


@pytest.fixture
def models(bench: Bench) -> Iterator[Open]:
    """The open list; two presses in a row are two presses."""
    interval = QApplication.doubleClickInterval()
    QApplication.setDoubleClickInterval(0)
    yield Open(bench)
    QApplication.setDoubleClickInterval(interval)


def asked(bench: Bench, kind: type[commands.Command]) -> list[str]:
    return [command.file for command in bench.engine.asked(kind)]


def stopped(bench: Bench) -> list[str]:
    return [command.subject for command in bench.engine.asked(commands.StopTask)]


def test_the_list_opens_by_key_and_by_the_button_on_top(bench: Bench, qtbot: QtBot) -> None:
    qtbot.keyClick(bench.window, Qt.Key.Key_M, Qt.KeyboardModifier.ControlModifier)
    assert bench.program.models.view.isVisible()
    bench.program.models.view.close()
    button = bench.find("modelsButton")
    assert isinstance(button, QToolButton)
    button.click()
    assert bench.program.models.view.isVisible()


def test_before_the_engine_answers_the_list_says_so(qtbot: QtBot) -> None:
    hub = EventHub()
    model = ModelFilesModel(hub, TasksModel(hub))
    view = ModelsPage(model, TelemetryModel(hub))
    qtbot.addWidget(view)
    nothing = view.findChild(QLabel, "noModels")
    assert nothing is not None
    assert nothing.text() == "Looking at what is here …"
    hub.deliver(events.ModelFilesListed(files=(), free_mb=1.0))
    assert nothing.text() == "The list of models cannot be read. Look at the log."


def test_every_file_has_its_words_size_licence_and_button(models: Open) -> None:
    said = models.texts(models.part(f"model-file-{DIT}"))
    assert said.split("\n") == [
        "FP8",
        "Half the size, a little less exact",
        "3.4 GB",
        "Apache-2.0",
        "",
        "Not here",
    ]
    assert models.button(DIT).text() == "Get"
    assert "212 GB free on the disk" in models.texts()
    assert "Used by all of SeedVR2" in models.texts()


def test_get_brings_vae_and_text_embedding_along(models: Open) -> None:
    models.press(DIT)
    assert asked(models.bench, commands.DownloadModelFile) == ["seedvr2-text", VAE, DIT]
    assert models.button(DIT).text() == "Stop"


def test_progress_comes_in_megabytes_with_speed_and_time_left(models: Open) -> None:
    models.engine.put(VAE, "here")
    models.put("seedvr2-text")
    models.press(DIT)
    models.engine.advance(FILE, 1204)
    models.engine.advance(FILE, 1400)
    models.bench.hear()
    said = models.texts(models.part(f"model-file-{DIT}"))
    assert "1,400 of 3,400 MB · 12.5 MB/s · 2 min 40 s left" in said
    top = models.bench.find("modelsButton")
    assert isinstance(top, QToolButton)
    assert top.text() == "Models · 41 %"
    models.engine.finish(FILE)
    models.bench.hear()
    assert top.text() == "Models"
    assert models.button(DIT).text() == "Use"


def test_a_double_click_on_get_does_not_stop_again(models: Open) -> None:
    QApplication.setDoubleClickInterval(10_000)
    models.press(DIT)
    models.press(DIT)
    assert stopped(models.bench) == []
    assert models.button(DIT).text() == "Stop"


def test_stop_leaves_the_part_and_offers_to_continue(models: Open) -> None:
    models.press(DIT)
    models.press(DIT)
    assert set(stopped(models.bench)) == {"seedvr2-text", VAE, DIT}
    models.engine.put(DIT, "partial", megabytes=1700)
    models.engine.list(FILE)
    models.bench.hear()
    assert models.button(DIT).text() == "Continue"
    assert "50 % here" in models.texts(models.part(f"model-file-{DIT}"))


def test_an_error_stands_in_its_row_with_a_hint_and_another_try(models: Open) -> None:
    models.put(VAE, "seedvr2-text")
    models.press(DIT)
    error = DiskFull("models", folder="/models", free="1 GB", needed="3.4 GB").info()
    models.engine.fail(FILE, error)
    models.bench.hear()
    row = models.part(f"model-file-{DIT}")
    said = models.texts(row)
    assert "The disk is full" in said
    assert "but 3.4 GB are still to be downloaded.\nFree some space" in said
    assert models.button(DIT).text() == "Try again"
    models.press(DIT)
    assert models.button(DIT).text() == "Stop"
    assert "The disk is full" not in models.texts(row)
    assert asked(models.bench, commands.DownloadModelFile)[-1] == DIT


def test_a_damaged_file_can_be_fetched_again(models: Open) -> None:
    models.put(DIT, state="damaged")
    assert models.button(DIT).text() == "Get again"
    models.press(DIT)
    assert DIT in asked(models.bench, commands.DownloadModelFile)


def test_a_borrowed_file_says_where_it_lies_and_is_used(models: Open, tmp_path: Path) -> None:
    folder = tmp_path / "ComfyUI" / "models" / "SEEDVR2"
    files = models.engine.files
    models.put(VAE, "seedvr2-text")
    files[DIT] = replace(
        files[DIT], state="unverified", path=folder / "dit.safetensors", borrowed=True
    )
    models.put()
    places = [label.toolTip() for label in models.view.findChildren(QLabel)]
    assert f"Read where it lies: {folder}" in places  # elided in the row itself
    assert "Here, not checked" in models.texts(models.part(f"model-file-{DIT}"))
    models.bench.add()
    models.press(DIT)
    settings = models.bench.engine.asked(commands.ChangeJob)[-1].settings
    assert (settings.model, settings.precision) == ("seedvr2-3b", "fp8")
    assert not models.view.isVisible()


def test_use_is_for_the_next_films_while_one_runs(models: Open) -> None:
    models.put(DIT, VAE, "seedvr2-text")
    models.bench.add()
    models.bench.do("start")
    models.press(DIT)
    assert models.bench.engine.asked(commands.ChangeJob) == []
    models.bench.add("next.mp4")
    assert models.bench.engine.asked(commands.AddJob)[-1].settings.model == "seedvr2-3b"


def test_a_transformer_of_the_users_own_is_used_as_a_file(models: Open, tmp_path: Path) -> None:
    models.put(VAE, "seedvr2-text")
    own = replace(
        models.engine.files[DIT],
        id="own-1",
        filename="mine.safetensors",
        precision="fp16",
        repository="",
        licence="",
        state="here",
        path=tmp_path / "mine.safetensors",
    )
    models.engine.files[own.id] = own
    models.put()
    assert "A file of your own" in models.texts(models.part("model-file-own-1"))
    models.press("own-1")
    settings = models.bench.program.controller.settings
    assert (settings.model, settings.precision) == ("seedvr2-3b", "auto")
    assert settings.dit == str(tmp_path / "mine.safetensors")


def test_verify_and_show_in_folder_are_in_the_menu(
    models: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []
    monkeypatch.setattr(desktop, "show_in_folder", lambda path: shown.append(path) or True)
    models.put(DIT)
    models.entry(DIT, "Check")
    assert asked(models.bench, commands.VerifyModelFile) == [DIT]
    models.entry(DIT, "Show in folder")
    assert shown == [models.engine.files[DIT].path]


def test_remove_asks_first(models: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    models.put(DIT)
    answers = [False, True]
    monkeypatch.setattr(models.view, "confirm_remove", lambda _package: answers.pop(0))
    models.entry(DIT, "Remove …")
    assert asked(models.bench, commands.RemoveModelFile) == []
    models.entry(DIT, "Remove …")
    assert asked(models.bench, commands.RemoveModelFile) == [DIT]
    assert models.button(DIT).text() == "Get"


def test_a_file_that_could_not_be_removed_is_not_fetched_instead(
    models: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.put(DIT, VAE, "seedvr2-text")
    error = ErrorInfo(code="weights-busy")
    failed = events.TaskFailed(kind=FILE, subject=DIT, phase="remove", error=error)
    models.bench.engine.sink.emit(failed)
    models.bench.hear()
    monkeypatch.setattr(models.view, "confirm_remove", lambda _package: True)
    models.press(DIT)
    assert asked(models.bench, commands.RemoveModelFile) == [DIT]
    assert asked(models.bench, commands.DownloadModelFile) == []


def test_an_import_shows_its_name_and_its_error(models: Open, tmp_path: Path) -> None:
    file = tmp_path / "holiday.ckpt"
    models.view.import_requested.emit(file, "link")
    models.bench.hear()
    asked_for = models.bench.engine.asked(commands.ImportModelFile)[0]
    assert (asked_for.path, asked_for.mode) == (file, "link")
    assert "Importing holiday.ckpt" in models.texts()
    error = NotSafetensors("kind", name="holiday.ckpt", kind=message("file-kind.pickle")).info()
    failed = events.TaskFailed(kind=FILE, subject=str(file), phase="import", error=error)
    models.bench.engine.sink.emit(failed)
    models.bench.hear()
    assert error.message in models.texts()
    close = models.part("importButton")
    assert isinstance(close, QAbstractButton)
    close.click()
    assert "holiday.ckpt" not in models.texts()


def test_what_was_taken_with_a_warning_keeps_it(models: Open) -> None:
    notice = Notice(code="own-weights", severity="warning", params={"title": "x.safetensors"})
    done = events.TaskDone(
        kind=FILE,
        subject="/x.safetensors",
        phase="import",
        result=models.engine.files[VAE],
        notice=notice,
    )
    models.bench.engine.sink.emit(done)
    models.bench.hear()
    said = "x.safetensors is none of the published files."
    assert said in models.texts(models.part(f"model-file-{VAE}"))


def test_another_program_at_a_file_leaves_nothing_to_press(models: Open) -> None:
    models.put(VAE, state="busy")
    assert not models.button(VAE).isEnabled()
    assert "Another program uses it" in models.texts(models.part(f"model-file-{VAE}"))


def test_rows_stay_while_figures_change(models: Open) -> None:
    row = models.part(f"model-file-{DIT}")
    models.press(DIT)
    models.button(DIT).setFocus()
    models.engine.advance(FILE, 0.5)
    models.bench.hear()
    assert models.part(f"model-file-{DIT}") is row
    models.put(VAE)
    assert models.part(f"model-file-{DIT}") is row


def test_the_open_list_changes_its_language(models: Open) -> None:
    models.put(VAE, "seedvr2-text")
    models.press(DIT)
    models.engine.fail(FILE, DiskFull("folder", folder="/films").info())
    models.bench.hear()
    models.bench.program.use_language("zh_CN")
    models.bench.hear()
    said = models.texts()
    assert "磁盘已满" in said
    assert "未下载" in said
    assert models.button(DIT).text() == "重试"
    english = ("Not here", "The disk is full", "Licence", "Used by all of SeedVR2")
    assert not [text for text in english if text in said]


def test_everything_that_acts_has_a_name_for_screen_readers(models: Open) -> None:
    for button in models.view.findChildren(QAbstractButton):
        if button.isVisible():
            assert button.accessibleName() or button.text(), button.objectName()
    names = [b.accessibleName() for b in models.view.findChildren(QAbstractButton)]
    assert "Get: SeedVR2 3B FP8" in names


def test_all_buttons_are_reached_by_the_keyboard(models: Open) -> None:
    for button in models.view.findChildren(QAbstractButton):
        if button.isVisible() and not button.objectName().startswith("qt_"):
            assert button.focusPolicy() & Qt.FocusPolicy.TabFocus, button.objectName()


def test_a_file_to_import_is_chosen_and_how_it_is_taken(
    models: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mine.gguf"
    answers = ["", "copy"]
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    monkeypatch.setattr(models.view, "ask_mode", lambda _file: answers.pop(0))
    button = models.part("importModelFile")
    assert isinstance(button, QAbstractButton)
    button.click()
    assert models.bench.engine.asked(commands.ImportModelFile) == []
    button.click()
    assert [c.path for c in models.bench.engine.asked(commands.ImportModelFile)] == [file]


def test_a_file_of_another_program_cannot_be_removed(models: Open) -> None:
    files = models.engine.files
    files[DIT] = replace(files[DIT], state="here", path=Path("/comfy/x"), borrowed=True)
    models.put()
    more = models.part(f"more-{DIT}")
    assert isinstance(more, QToolButton)
    able = {action.text(): action.isEnabled() for action in more.menu().actions()}
    assert able == {
        "Use for the film": False,  # the VAE is not here
        "Check": True,
        "Show in folder": True,
        "Remove …": False,
    }


def test_enter_only_presses_the_button_that_has_the_focus(models: Open, qtbot: QtBot) -> None:
    models.button(DIT).setFocus()
    qtbot.keyClick(models.button(DIT), Qt.Key.Key_Return)
    models.bench.hear()
    assert asked(models.bench, commands.DownloadModelFile)[-1] == DIT
    before = len(models.bench.engine.commands)
    models.view.findChild(QScrollArea).setFocus()
    assert [b.objectName() for b in models.view.findChildren(QPushButton) if b.isDefault()] == [
        "closeModels"
    ]
    qtbot.keyClick(models.view, Qt.Key.Key_Return)
    assert len(models.bench.engine.commands) == before
    assert not models.view.isVisible()


def test_a_machine_without_a_card_is_told_before_gigabytes_are_fetched(models: Open) -> None:
    assert not models.part("noGpu").isVisible()  # nobody knows yet
    models.bench.engine.emit_telemetry()
    models.bench.hear()
    assert models.part("noGpu").isVisible()
    card = GpuReading(
        name="NVIDIA Test", total_mb=16384, ours_mb=0, others_mb=0, load_percent=0, temperature_c=40
    )
    models.bench.engine.emit_telemetry(card)
    models.bench.hear()
    assert not models.part("noGpu").isVisible()


def test_a_vae_of_wan_stands_alone_and_is_one_of_several(models: Open) -> None:
    said = models.texts().split("\n")
    assert said.index("Used by all of SeedVR2") < said.index("Wan 2x") < said.index("Wan 2.1 VAE")
    row = models.texts(models.part("model-file-wan21-vae-16bit"))
    assert row.startswith("16 bit\n")
    models.press("wan21-vae-16bit")
    assert asked(models.bench, commands.DownloadModelFile) == ["wan21-vae-16bit"]


def test_wan_2x_can_be_used_for_a_film_and_a_plain_vae_cannot(models: Open) -> None:
    models.bench.add()
    models.put("wan-2x-fp32", "wan21-vae-fp32")
    assert models.button("wan21-vae-fp32").text() == "Check"
    models.press("wan-2x-fp32")
    settings = models.bench.engine.asked(commands.ChangeJob)[-1].settings
    assert (settings.model, settings.vae) == ("wan-2x", "")


def test_a_decoder_of_the_users_own_is_used_as_a_file(models: Open, tmp_path: Path) -> None:
    own = replace(
        models.engine.files["wan-2x-fp32"],
        id="own-2",
        filename="mine.safetensors",
        repository="",
        state="here",
        path=tmp_path / "mine.safetensors",
    )
    models.engine.files[own.id] = own
    models.put()
    models.bench.window.choices.choose({"precision": "q4"})
    models.press("own-2")
    settings = models.bench.program.controller.settings
    assert (settings.model, settings.vae) == ("wan-2x", str(tmp_path / "mine.safetensors"))
    assert settings.precision == "q4"  # a wish about SeedVR2
