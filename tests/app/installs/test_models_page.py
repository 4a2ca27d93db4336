from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QFileDialog,
    QLabel,
    QPushButton,
    QScrollArea,
    QWidget,
)

from app import desktop
from app.installs.models_page import ModelsPage
from engine.core.errors import DiskFull, ErrorInfo, NotSafetensors
from engine.core.messages import message
from engine.protocol import commands, events
from engine.protocol.plan import Notice
from tests.app.conftest import Bench, part, texts
from tests.app.test_gauges import GPU
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.fake_tasks import FILE

DIT, VAE, TEXT = "seedvr2-3b-fp8", "seedvr2-vae", "seedvr2-text"


class Open:
    """The list of models over a window."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.engine = bench, bench.engine.tasks
        bench.do("models")
        self.link = bench.program.models
        self.view: ModelsPage = self.link.view
        self.view.unfold()

    def part(self, name: str) -> Any:
        return part(self.view, name)

    def button(self, file: str) -> QAbstractButton:
        return self.part(f"do-{file}")

    def press(self, file: str) -> None:
        self.button(file).click()
        self.bench.hear()

    def menu(self, file: str) -> dict[str, Any]:
        """Entries of the menu of a row."""
        return {action.text(): action for action in self.part(f"more-{file}").menu().actions()}

    def trigger(self, file: str, entry: str) -> None:
        self.menu(file)[entry].trigger()
        self.bench.hear()

    def texts(self, file: str = "") -> str:
        """What the whole page says, or the row of a file."""
        return texts(self.part(f"row-{file}") if file else self.view)

    def put(self, *files: str, state: str = "here", **values: Any) -> None:
        for file in files:
            self.engine.put(file, state)
            self.engine.files[file] = replace(self.engine.files[file], **values)
        self.engine.list(FILE)
        self.bench.hear()

    def fail(self, error: ErrorInfo) -> None:
        self.engine.fail(FILE, error)
        self.bench.hear()

    def asked(self, kind: type[commands.Command]) -> list[str]:
        return [command.file for command in self.bench.asked(kind)]

    def stopped(self) -> list[str]:
        return [command.subject for command in self.bench.asked(commands.StopTask)]


@pytest.fixture
def models(bench: Bench, two_presses: None) -> Open:
    return Open(bench)


def test_the_list_opens_by_key_and_by_the_button_on_top(bench, qtbot):
    qtbot.keyClick(bench.window, Qt.Key.Key_M, Qt.KeyboardModifier.ControlModifier)
    assert bench.program.models.view.isVisible()
    bench.program.models.view.close()
    bench.press("modelsButton")
    assert bench.program.models.view.isVisible()
    bench.emit(events.ModelFilesListed(files=(), free_mb=1.0))
    assert "The list of models cannot be read. See the log." in texts(bench.program.models.view)


def test_every_file_has_its_words_size_licence_and_button(models):
    said = [
        "FP8",
        "Half size, slightly less exact",
        "3.4 GB",
        "Apache-2.0",
        "",
        "Not installed",
    ]
    assert models.texts(DIT).split("\n") == said
    assert models.button(DIT).text() == "Download"
    name = "Download: SeedVR2 3B FP8, seedvr2-3b-fp8.safetensors"
    assert models.button(DIT).accessibleName() == name
    assert "212 GB free on disk" in models.texts()
    assert "Used by all SeedVR2 models" in models.texts()


def test_progress_comes_in_megabytes_with_speed_and_time_left(models):
    models.put(VAE, TEXT)
    models.press(DIT)
    models.engine.advance(FILE, 1204)
    models.engine.advance(FILE, 1400)
    models.bench.hear()
    assert "1\u202f400 of 3\u202f400 MB · 12.5 MB/s · 2 min 40 s left" in models.texts(DIT)
    top = models.bench.find("modelsButton")
    assert top.text() == "Models · 41 %"
    models.engine.finish(FILE)
    models.bench.hear()
    assert top.text() == "Models"
    assert models.button(DIT).text() == "Use"


def test_a_double_click_on_get_does_not_stop_again(models):
    QApplication.setDoubleClickInterval(10_000)
    models.press(DIT)
    models.press(DIT)
    assert models.stopped() == []
    assert models.button(DIT).text() == "Stop"


def test_get_brings_vae_and_text_along_and_stop_offers_to_continue(models):
    models.press(DIT)
    assert models.asked(commands.DownloadModelFile) == [TEXT, VAE, DIT]
    assert models.button(DIT).text() == "Stop"
    models.press(DIT)
    assert set(models.stopped()) == {TEXT, VAE, DIT}
    models.engine.put(DIT, "partial", megabytes=1700)
    models.put()
    assert models.button(DIT).text() == "Continue"
    assert "50 % downloaded" in models.texts(DIT)


def test_an_error_stands_in_its_row_with_a_hint_and_another_try(models):
    models.put(VAE, TEXT)
    models.press(DIT)
    models.fail(DiskFull("models", folder="/models", free="1 GB", needed="3.4 GB").info())
    assert "The disk is full" in models.texts(DIT)
    assert "but 3.4 GB remain to be downloaded.\nFree some space" in models.texts(DIT)
    assert models.button(DIT).text() == "Try again"
    models.press(DIT)
    assert models.button(DIT).text() == "Stop"
    assert "The disk is full" not in models.texts(DIT)
    assert models.asked(commands.DownloadModelFile)[-1] == DIT


def test_a_damaged_file_is_fetched_again_and_a_busy_one_left_alone(models):
    models.put(VAE, state="busy")
    assert not models.button(VAE).isEnabled()
    assert "Another program uses it" in models.texts(VAE)
    models.put(DIT, state="damaged")
    settle()
    assert list(cut_off(models.part(f"row-{DIT}"))) == [], "its longest text"
    assert models.button(DIT).text() == "Download again"
    models.press(DIT)
    assert DIT in models.asked(commands.DownloadModelFile)


def test_a_borrowed_file_says_where_it_lies_and_is_used(models, tmp_path):
    folder = tmp_path / "ComfyUI" / "models" / "SEEDVR2"
    models.put(DIT, state="unverified", path=folder / "dit.safetensors", borrowed=True)
    able = {name: action.isEnabled() for name, action in models.menu(DIT).items()}
    without_vae, theirs = "Use for this video", "Remove …"
    assert able.pop("Convert …") is False, "it has no other format"
    assert able == {without_vae: False, "Verify": True, "Show in folder": True, theirs: False}
    models.put(VAE, TEXT)
    places = [label.toolTip() for label in models.view.findChildren(QLabel)]
    assert f"Used in place: {folder}" in places  # elided in the row itself
    assert "Installed, not verified" in models.texts(DIT)
    models.bench.add()
    models.press(DIT)
    settings = models.bench.asked(commands.ChangeJob)[-1].settings
    assert (settings.model, settings.precision) == ("seedvr2-3b", "fp8")
    assert not models.view.isVisible()


def test_use_is_for_the_next_films_while_one_runs(models):
    models.put(DIT, VAE, TEXT)
    models.bench.start()
    models.press(DIT)
    assert models.bench.asked(commands.ChangeJob) == []
    models.bench.add("next.mp4")
    assert models.bench.asked(commands.AddJob)[-1].settings.model == "seedvr2-3b"


def test_files_of_the_users_own_are_used_as_files(models, tmp_path):
    models.put(VAE, TEXT)
    file = tmp_path / "mine.safetensors"
    mine = {"filename": file.name, "repository": "", "licence": "", "state": "here", "path": file}
    for own, like in (("own-1", DIT), ("own-2", "wan-2x-fp32")):
        models.engine.files[own] = replace(models.engine.files[like], id=own, **mine)
    models.engine.files["own-1"] = replace(models.engine.files["own-1"], precision="fp16")
    models.put()
    assert "Your own file" in models.texts("own-1")
    models.press("own-1")
    settings = models.bench.program.controller.settings
    assert (settings.model, settings.precision, settings.dit) == ("seedvr2-3b", "auto", str(file))
    models.bench.choose(precision="q4")
    models.press("own-2")
    settings = models.bench.program.controller.settings
    assert (settings.model, settings.vae) == ("wan-2x", str(file))
    assert settings.precision == "q4"  # an option of SeedVR2


def test_check_show_in_folder_and_remove_are_in_the_menu(models):
    shown: list[Path] = []
    answers = [False, True]
    models.bench.patch.setattr(desktop, "show_in_folder", lambda path: shown.append(path) or True)
    models.bench.patch.setattr(models.link, "confirm_remove", lambda _file: answers.pop(0))
    models.put(DIT, VAE)
    models.trigger(VAE, "Verify")
    assert models.asked(commands.VerifyModelFile) == [VAE]
    models.trigger(DIT, "Show in folder")
    assert shown == [models.engine.files[DIT].path]
    for removed in ([], [DIT]):
        models.trigger(DIT, "Remove …")
        assert models.asked(commands.RemoveModelFile) == removed
    assert models.button(DIT).text() == "Download"


def test_a_file_that_could_not_be_removed_is_not_fetched_instead(models):
    models.put(DIT, VAE, TEXT)
    error = ErrorInfo(code="weights-busy")
    models.bench.emit(events.TaskFailed(kind=FILE, subject=DIT, phase="remove", error=error))
    models.bench.patch.setattr(models.link, "confirm_remove", lambda _file: True)
    models.press(DIT)
    assert models.asked(commands.RemoveModelFile) == [DIT]
    assert models.asked(commands.DownloadModelFile) == []


def test_an_import_shows_its_name_and_its_error_or_keeps_its_warning(models, tmp_path):
    file = tmp_path / "holiday.ckpt"
    models.link.take_file(file, "link")
    models.bench.hear()
    (request,) = models.bench.asked(commands.ImportModelFile)
    assert (request.path, request.mode) == (file, "link")
    assert "Importing holiday.ckpt" in models.texts()
    error = NotSafetensors("kind", name=file.name, kind=message("file-kind.pickle")).info()
    about = {"kind": FILE, "subject": str(file), "phase": "import"}
    models.bench.emit(events.TaskFailed(**about, error=error))
    assert error.message in models.texts()
    models.part("importButton").click()
    assert file.name not in models.texts()
    notice = Notice(code="own-weights", severity="warning", params={"title": "x.safetensors"})
    models.bench.emit(events.TaskDone(**about, result=models.engine.files[VAE], notice=notice))
    assert "x.safetensors is not one of the published files." in models.texts(VAE)


def test_rows_stay_while_figures_change(models):
    row = models.part(f"row-{DIT}")
    models.press(DIT)
    models.button(DIT).setFocus()
    models.engine.advance(FILE, 0.5)
    models.bench.hear()
    assert models.part(f"row-{DIT}") is row
    models.put(VAE)
    assert models.part(f"row-{DIT}") is row


def test_the_open_list_changes_its_language(models):
    models.put(VAE, TEXT)
    models.press(DIT)
    models.fail(DiskFull("folder", folder="/films").info())
    models.bench.use_language("zh_CN")
    said = models.texts()
    assert "磁盘已满" in said
    assert "未安装" in said
    assert models.button(DIT).text() == "重试"
    english = ("Not installed", "The disk is full", "Licence", "Used by all SeedVR2 models")
    assert not [text for text in english if text in said]


def test_a_file_to_import_is_chosen_and_how_it_is_taken(models, tmp_path):
    file = tmp_path / "mine.gguf"
    answers = [None, "copy"]
    models.bench.patch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    models.bench.patch.setattr(models.link, "ask_mode", lambda _file: answers.pop(0))
    for asked in ([], [file]):
        models.part("modelsFile").click()
        assert [c.path for c in models.bench.asked(commands.ImportModelFile)] == asked


def test_enter_only_presses_the_button_that_has_the_focus(models, qtbot):
    models.button(DIT).setFocus()
    qtbot.keyClick(models.button(DIT), Qt.Key.Key_Return)
    models.bench.hear()
    assert models.asked(commands.DownloadModelFile)[-1] == DIT
    before = len(models.bench.engine.commands)
    models.view.findChild(QScrollArea).setFocus()
    defaults = [b for b in models.view.findChildren(QPushButton) if b.isDefault()]
    assert [button.objectName() for button in defaults] == ["modelsClose"]
    qtbot.keyClick(models.view, Qt.Key.Key_Return)
    assert len(models.bench.engine.commands) == before
    assert not models.view.isVisible()


def test_a_machine_without_a_card_is_told_before_gigabytes_are_fetched(models):
    warning: QWidget = models.part("noGpu")
    assert not warning.isVisible()  # not known yet
    for gpu in (None, GPU):
        models.bench.measure(gpu)
        assert warning.isVisible() is (gpu is None)


def test_files_of_wan_stand_alone_and_only_its_upscaler_is_used(models):
    said = models.texts().split("\n")
    assert (
        said.index("Used by all SeedVR2 models") < said.index("Wan 2x") < said.index("Wan 2.1 VAE")
    )
    assert models.texts("wan21-vae-16bit").startswith("16 bit\n")
    models.press("wan21-vae-16bit")
    assert models.asked(commands.DownloadModelFile) == ["wan21-vae-16bit"]
    models.bench.add()
    models.put("wan-2x-fp32", "wan21-vae-fp32")
    assert models.button("wan21-vae-fp32").text() == "Verify"
    models.press("wan-2x-fp32")
    settings = models.bench.asked(commands.ChangeJob)[-1].settings
    assert (settings.model, settings.vae) == ("wan-2x", "")


def test_the_page_is_as_high_as_what_it_shows(bench):
    bench.do("models")
    view = bench.program.models.view
    assert view.height() < 450
    view.unfold()
    assert view.height() > 500
