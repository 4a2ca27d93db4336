from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog

from app import labels
from app.latents.latent_sheet import LatentSheet
from app.preview.scene import Mode
from app.ui_state import UiState
from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, dropped, texts
from tests.helpers.fake_states import flat
from tests.helpers.fake_tasks import FILE
from tests.helpers.fakes import grey

VAE = "wan21-vae-fp32"
MEANT = "reading-normalised"


def drop(bench: Bench, *names: str) -> LatentSheet:
    bench.window.intake.take_drop(dropped(*(Path("/latents") / name for name in names)))
    bench.hear()
    return bench.program.latents.sheet


def added(bench: Bench) -> list[JobSettings]:
    return [command.settings for command in bench.asked(commands.AddJob)]


def test_a_dropped_latent_is_shown_before_it_is_queued(bench):
    sheet = drop(bench, "a.latent", "film.mp4")
    assert sheet.isVisible()
    assert [row.source.name for row in bench.program.queue.rows] == ["film.mp4"]
    assert [c.path for c in bench.asked(commands.ShowLatent)] == [Path("/latents/a.latent")]
    bench.press("latentAdd")
    assert not sheet.isVisible()
    assert [row.source.name for row in bench.program.queue.rows] == ["film.mp4", "a.latent"]


def test_latents_become_a_film_as_they_are_or_go_on_to_a_model(bench, tmp_path):
    bench.program.controller.settings = JobSettings(model="seedvr2-3b", scale=4)
    drop(bench, "a.latent")
    bench.press(MEANT)
    bench.press("latentAdd")
    settings = added(bench)[0]
    assert (settings.model, settings.latents, settings.latent_rate) == ("none", "normalised", 16.0)
    assert bench.program.controller.settings.model == "seedvr2-3b"  # the next film's own
    assert bench.program.controller.settings.latents == "auto"
    assert bench.program.queue.rows[0].picture == flat(200)
    bench.choose(codec="hevc")
    changed = bench.asked(commands.ChangeJob)[-1].settings
    assert (changed.codec, changed.latents) == ("hevc", "normalised")
    state = UiState(tmp_path / "kept.ini")
    state.choices = changed
    assert (state.choices.codec, state.choices.latents) == ("hevc", "auto")
    bench.program.controller.settings = JobSettings(model="seedvr2-3b", height=1080)
    drop(bench, "b.latent")
    bench.find("setting-latent_rate").setValue(24)
    bench.press("latentUpscale")
    settings = added(bench)[1]
    assert (settings.model, settings.height) == ("seedvr2-3b", 1080)
    assert (settings.latents, settings.latent_rate) == ("raw", 24.0)


def test_several_files_are_asked_about_one_after_the_other_until_escape(bench, qtbot):
    sheet = drop(bench, "a.latent", "b.latent", "c.latent")
    assert "1 of 3" in texts(sheet)
    bench.press("latentAdd")
    assert "2 of 3" in texts(sheet)
    bench.find(MEANT).click()
    bench.find("latentForAll").click()
    bench.press("latentAdd")
    assert not sheet.isVisible()
    assert [settings.latents for settings in added(bench)] == ["raw", "normalised", "normalised"]
    drop(bench, "d.latent", "e.latent")
    qtbot.keyClick(sheet, Qt.Key.Key_Escape)
    bench.hear()
    assert len(added(bench)) == 3
    assert drop(bench, "f.latent").path.name == "f.latent"


def test_a_file_that_is_no_latent_says_so_and_the_next_one_follows(bench):
    bench.engine.tasks.latents.refuse["a.latent"] = ErrorInfo(
        code="unreadable-media", case="empty-latent", params={"name": "a.latent"}
    )
    sheet = drop(bench, "a.latent", "b.latent")
    assert "a.latent contains an empty latent.\nSave it again from ComfyUI." in texts(sheet)
    drop(bench, "c.latent")  # waits for its turn
    assert bench.find("latentUpscale").text() == "Next file"
    bench.press("latentUpscale")
    assert sheet.path.name == "b.latent"
    assert added(bench) == []
    bench.press("latentAdd")
    assert sheet.path.name == "c.latent"


def test_a_missing_vae_is_fetched_and_then_both_pictures_are_shown(bench):
    bench.engine.tasks.latents.needs = VAE
    sheet = drop(bench, "a.latent")
    assert "The model is not installed yet" in texts(sheet)
    image = bench.find("reading-raw").parentWidget().image
    assert image.instead == "The image is shown once the VAE is available."
    assert bench.find("latentUpscale").isEnabled()
    bench.press("getLatentVae")
    bench.tasks.fail(FILE)
    assert "a.safetensors could not be downloaded from huggingface.co" in texts(sheet)
    assert bench.find("getLatentVae").text() == "Try again"
    bench.press("getLatentVae")
    assert [c.file for c in bench.asked(commands.DownloadModelFile)] == [VAE, VAE]
    bench.tasks.advance(FILE, 100)
    assert "100 of 507 MB" in texts(sheet)
    bench.tasks.finish(FILE)
    bench.hear()
    assert len(bench.asked(commands.ShowLatent)) == 2
    assert sheet.picture() == flat(60)
    assert "not installed" not in texts(sheet)


def test_a_vae_that_is_here_and_refused_is_not_asked_for_for_ever(bench):
    bench.engine.tasks.put(VAE, "here")
    bench.engine.tasks.list(FILE)
    bench.engine.tasks.latents.needs = "something-else"
    drop(bench, "a.latent")
    bench.tasks.list(FILE)
    assert len(bench.asked(commands.ShowLatent)) == 1


def test_answers_about_a_file_that_was_left_change_nothing(bench):
    bench.engine.tasks.latents.is_silent = True
    sheet = drop(bench, "a.latent", "b.latent")
    error = ErrorInfo(code="unreadable-media", case="not-latents", params={"name": "b.latent"})
    bench.emit(events.TaskFailed(kind=TaskKind.LATENT, subject="/b.latent", error=error))
    assert "is not a latent file" not in texts(sheet)


def test_a_refused_latent_is_tried_again_as_it_was_meant(bench):
    gone = ErrorInfo(code="source-missing", case="since-start", params={"name": "a.latent"})
    bench.engine.reject["a.latent"] = gone
    drop(bench, "a.latent")
    bench.press(MEANT)
    bench.press("latentAdd")
    bench.press("errorAction")
    assert [settings.latents for settings in added(bench)] == ["normalised", "normalised"]


def test_latents_without_a_picture_say_why_until_their_result_is_shown_alone(bench):
    job_id = bench.program.controller.add_file(Path("/latents/a.latent"))
    bench.hear()
    preview, scene = bench.window.preview, bench.window.preview.canvas.scene
    assert scene.missing_texts[0].startswith("Latents are decoded when")
    preview.pair.ask_now()
    about = {"job_id": job_id, "frame": 0, "seconds": preview.pair.asked_s}
    bench.emit(events.PreviewReady(**about, source=None, result=grey()))
    assert preview.canvas.mode is Mode.SECOND
    bench.program.controller.add_file(Path("film.mp4"))
    bench.select(bench.program.queue.rows[1].job_id)
    assert scene.missing_texts[0] == ""


def test_latents_are_found_by_dialog_and_in_a_folder(tmp_path, bench, qtbot):
    filters: list[str] = []
    chosen = (["/latents/a.latent"], "")
    bench.patch.setattr(
        QFileDialog, "getOpenFileNames", lambda *given: filters.append(given[3]) or chosen
    )
    bench.do("add_files")
    assert "*.latent" in filters[0]
    assert bench.program.latents.sheet.isVisible()
    for name in ("a.latent", "b.latent", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    with qtbot.waitSignal(bench.program.controller.latents_found, timeout=3000) as heard:
        bench.program.controller.add_paths([tmp_path])
    assert [path.name for path in heard.args[0]] == ["a.latent", "b.latent"]


def test_the_open_sheet_changes_its_language(bench):
    sheet = drop(bench, "a.latent")
    bench.use_language("zh_CN")
    assert "哪幅图像看起来正确？" in texts(sheet)
    assert bench.find("latentAdd").text() == "添加到队列"
    assert bench.find("reading-raw").text() == "原样"
    assert sheet.windowFlags() & Qt.WindowType.Dialog


def test_the_card_says_that_latents_are_being_decoded(bench):
    drop(bench, "a.latent")
    bench.press("latentAdd")
    bench.do("start")
    (row,) = bench.program.queue.rows
    about = {"job_id": row.job_id, "stage": "decode"}
    bench.engine.sink.emit(events.StageStarted(**about))
    bench.emit(events.StageProgress(**about, done=20, total=80))
    assert labels.state(row) == "Decoding the latent · 25 %"
    bench.advance(10)
    assert labels.state(row) == "Upscaling · 10 of 81"


def test_the_first_picture_of_latents_stays_until_there_is_a_better_one(bench):
    drop(bench, "a.latent")
    bench.press("latentAdd")
    preview, row = bench.window.preview, bench.program.queue.rows[0]
    seconds = preview.timeline.seconds_to_ask
    bench.emit(events.PreviewReady(job_id=row.job_id, frame=0, seconds=seconds, source=None))
    assert row.picture == flat(60)
    assert preview.canvas.mode is Mode.FIRST
