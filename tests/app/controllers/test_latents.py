from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtWidgets import QFileDialog, QLabel
from pytestqt.qtbot import QtBot

from app import labels
from app.latents.latent_sheet import LatentSheet
from app.preview.scene import Mode
from app.ui_state import UiState
from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench
from tests.helpers.fake_states import flat
from tests.helpers.fake_tasks import FILE
from tests.helpers.fakes import grey

VAE = "wan21-vae-fp32"


def drop(bench: Bench, *names: str) -> LatentSheet:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(Path("/latents") / name)) for name in names])
    bench.window.intake.take_drop(mime)
    bench.hear()
    return bench.program.latents.sheet


def press(bench: Bench, name: str) -> None:
    bench.button(name).click()
    bench.hear()


def added(bench: Bench) -> list[JobSettings]:
    return [command.settings for command in bench.engine.asked(commands.AddJob)]


def texts(sheet: LatentSheet) -> str:
    return "\n".join(label.text() for label in sheet.findChildren(QLabel) if label.isVisible())


def test_a_dropped_latent_is_shown_before_it_is_queued(bench: Bench) -> None:
    sheet = drop(bench, "a.latent", "film.mp4")
    assert sheet.isVisible()
    assert [row.source.name for row in bench.program.queue.rows] == ["film.mp4"]
    assert [c.path for c in bench.engine.asked(commands.ShowLatent)] == [Path("/latents/a.latent")]
    press(bench, "latentAdd")
    assert not sheet.isVisible()
    assert [row.source.name for row in bench.program.queue.rows] == ["film.mp4", "a.latent"]


def test_a_film_of_latents_has_its_picture_and_no_upscaling(bench: Bench) -> None:
    bench.program.controller.settings = JobSettings(model="seedvr2-3b", scale=4)
    drop(bench, "a.latent")
    bench.find("reading-normalised").click()
    press(bench, "latentAdd")
    settings = added(bench)[0]
    assert (settings.model, settings.latents, settings.latent_rate) == ("none", "normalised", 16.0)
    assert bench.program.controller.settings.model == "seedvr2-3b"  # the next film's own
    assert bench.program.controller.settings.latents == "auto"
    assert bench.program.queue.rows[0].picture == flat(200)


def test_latents_can_go_straight_on_to_a_model(bench: Bench) -> None:
    bench.program.controller.settings = JobSettings(model="seedvr2-3b", height=1080)
    drop(bench, "a.latent")
    press(bench, "segment-24")
    press(bench, "latentUpscale")
    settings = added(bench)[0]
    assert (settings.model, settings.height) == ("seedvr2-3b", 1080)
    assert (settings.latents, settings.latent_rate) == ("raw", 24.0)


def test_several_files_are_asked_about_one_after_the_other(bench: Bench) -> None:
    sheet = drop(bench, "a.latent", "b.latent", "c.latent")
    assert "1 of 3" in texts(sheet)
    press(bench, "latentAdd")
    assert "2 of 3" in texts(sheet)
    bench.find("reading-normalised").click()
    bench.find("latentForAll").click()
    press(bench, "latentAdd")
    assert not sheet.isVisible()
    assert [settings.latents for settings in added(bench)] == ["raw", "normalised", "normalised"]


def test_escape_forgets_what_is_left(bench: Bench, qtbot: QtBot) -> None:
    sheet = drop(bench, "a.latent", "b.latent")
    press(bench, "latentAdd")
    qtbot.keyClick(sheet, Qt.Key.Key_Escape)
    bench.hear()
    assert len(added(bench)) == 1
    assert drop(bench, "c.latent").path.name == "c.latent"


def test_more_files_that_are_dropped_meanwhile_wait_for_their_turn(bench: Bench) -> None:
    sheet = drop(bench, "a.latent")
    drop(bench, "b.latent")
    assert sheet.path.name == "a.latent"
    press(bench, "latentAdd")
    assert sheet.path.name == "b.latent"


def test_a_file_that_is_no_latent_says_so_and_the_next_one_follows(bench: Bench) -> None:
    bench.engine.tasks.latents.refuse["a.latent"] = ErrorInfo(
        code="unreadable-media", case="empty-latent", params={"name": "a.latent"}
    )
    sheet = drop(bench, "a.latent", "b.latent")
    assert "a.latent holds an empty latent.\nSave it again from ComfyUI." in texts(sheet)
    assert bench.button("latentUpscale").text() == "Next file"
    press(bench, "latentUpscale")
    assert sheet.path.name == "b.latent"
    assert added(bench) == []


def test_a_missing_vae_is_fetched_and_then_both_pictures_are_shown(bench: Bench) -> None:
    bench.engine.tasks.latents.needs = VAE
    sheet = drop(bench, "a.latent")
    assert "The model is not on this machine yet" in texts(sheet)
    press(bench, "getLatentVae")
    assert [c.file for c in bench.engine.asked(commands.DownloadModelFile)] == [VAE]
    bench.engine.tasks.advance(FILE, 100)
    bench.hear()
    assert "100 of 507 MB" in texts(sheet)
    bench.engine.tasks.finish(FILE)
    bench.hear()
    bench.hear()
    assert len(bench.engine.asked(commands.ShowLatent)) == 2
    assert sheet.picture() == flat(60)
    assert "not on this machine" not in texts(sheet)


def test_a_download_that_fails_can_be_tried_again(bench: Bench) -> None:
    bench.engine.tasks.latents.needs = VAE
    sheet = drop(bench, "a.latent")
    press(bench, "getLatentVae")
    bench.engine.tasks.fail(FILE)
    bench.hear()
    assert "huggingface.co does not deliver a.safetensors" in texts(sheet)
    assert bench.button("getLatentVae").text() == "Try again"
    press(bench, "getLatentVae")
    assert len(bench.engine.asked(commands.DownloadModelFile)) == 2


def test_a_vae_that_is_here_and_refused_all_the_same_is_not_asked_for_for_ever(
    bench: Bench,
) -> None:
    bench.engine.tasks.put(VAE, "here")
    bench.engine.tasks.list(FILE)
    bench.engine.tasks.latents.needs = "something-else"
    drop(bench, "a.latent")
    bench.engine.tasks.list(FILE)
    bench.hear()
    assert len(bench.engine.asked(commands.ShowLatent)) == 1


def test_answers_about_a_file_that_was_left_change_nothing(bench: Bench) -> None:
    bench.engine.tasks.latents.is_silent = True
    sheet = drop(bench, "a.latent", "b.latent")
    error = ErrorInfo(code="unreadable-media", case="not-latents", params={"name": "b.latent"})
    late = events.TaskFailed(kind=TaskKind.LATENT, subject="/b.latent", error=error)
    bench.engine.sink.emit(late)
    bench.hear()
    assert "is not a file of latents" not in texts(sheet)


def test_how_latents_are_meant_belongs_to_their_own_job(bench: Bench, tmp_path: Path) -> None:
    drop(bench, "a.latent")
    bench.find("reading-normalised").click()
    press(bench, "latentAdd")
    bench.window.choices.choose({"codec": "hevc"})
    bench.hear()
    changed = bench.engine.asked(commands.ChangeJob)[-1].settings
    assert (changed.codec, changed.latents) == ("hevc", "normalised")
    assert bench.program.controller.settings.latents == "auto"
    state = UiState(tmp_path / "kept.ini")
    state.choices = changed
    assert (state.choices.codec, state.choices.latents) == ("hevc", "auto")


def test_a_refused_latent_is_tried_again_as_it_was_meant(bench: Bench) -> None:
    gone = ErrorInfo(code="source-missing", case="latents", params={"file": "a.latent"})
    bench.engine.reject["a.latent"] = gone
    drop(bench, "a.latent")
    bench.find("reading-normalised").click()
    press(bench, "latentAdd")
    press(bench, "errorAction")
    assert [settings.latents for settings in added(bench)] == ["normalised", "normalised"]


def test_latents_without_a_picture_say_why(bench: Bench) -> None:
    bench.program.controller.add_file(Path("/latents/a.latent"))
    bench.hear()
    scene = bench.window.preview.canvas.scene
    assert scene.no_source_text.startswith("Latents are decoded when")
    bench.program.controller.add_file(Path("film.mp4"))
    bench.window.queue_column.view.select(bench.program.queue.rows[1].job_id)
    bench.hear()
    assert scene.no_source_text == ""


def test_a_result_without_its_source_is_shown_alone(bench: Bench) -> None:
    job_id = bench.program.controller.add_file(Path("/latents/a.latent"))
    bench.hear()
    preview = bench.window.preview
    preview._ask_now()
    seconds = preview._asked_seconds
    assert seconds is not None
    bench.engine.sink.emit(
        events.PreviewReady(job_id=job_id, frame=0, seconds=seconds, source=None, result=grey())
    )
    bench.hear()
    assert preview.canvas.mode is Mode.RESULT


def test_the_file_dialog_knows_latents(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    filters: list[str] = []

    def choose(*arguments: str) -> tuple[list[str], str]:
        filters.append(arguments[3])
        return ["/latents/a.latent"], ""

    monkeypatch.setattr(QFileDialog, "getOpenFileNames", choose)
    bench.do("add_files")
    assert "*.latent" in filters[0]
    assert bench.program.latents.sheet.isVisible()


def test_a_folder_of_latents_is_found(tmp_path: Path, bench: Bench, qtbot: QtBot) -> None:
    for name in ("a.latent", "b.latent", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    with qtbot.waitSignal(bench.program.controller.latents_found, timeout=3000) as heard:
        bench.program.controller.add_paths([tmp_path])
    assert [path.name for path in heard.args[0]] == ["a.latent", "b.latent"]


def test_the_open_sheet_changes_its_language(bench: Bench) -> None:
    sheet = drop(bench, "a.latent")
    bench.program.use_language("zh_CN")
    bench.hear()
    assert "哪幅画面看起来正确？" in texts(sheet)
    assert bench.button("latentAdd").text() == "添加到队列"
    assert bench.find("reading-raw").accessibleName() == "原样"
    assert sheet.windowFlags() & Qt.WindowType.Dialog


def test_the_card_says_that_latents_are_being_decoded(bench: Bench) -> None:
    drop(bench, "a.latent")
    press(bench, "latentAdd")
    bench.do("start")
    row = bench.program.queue.rows[0]
    bench.engine.sink.emit(events.StageStarted(job_id=row.job_id, stage="decode"))
    bench.engine.sink.emit(
        events.StageProgress(job_id=row.job_id, stage="decode", done=20, total=80)
    )
    bench.hear()
    assert labels.state(row) == "Decoding the latent · 25 %"
    bench.engine.advance(10)
    bench.hear()
    assert labels.state(row) == "Upscaling · 10 of 81"


def test_the_first_picture_of_latents_stays_until_there_is_a_better_one(bench: Bench) -> None:
    drop(bench, "a.latent")
    press(bench, "latentAdd")
    preview, row = bench.window.preview, bench.program.queue.rows[0]
    seconds = preview.timeline.seconds_to_ask
    bench.engine.sink.emit(
        events.PreviewReady(job_id=row.job_id, frame=0, seconds=seconds, source=None)
    )
    bench.hear()
    assert row.picture == flat(60)
    assert preview.canvas.mode is Mode.ORIGINAL
