"""Download and start: missing files come first, the program restarts, the video runs."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app import labels
from app.controllers import restart
from app.state.job_row import JobState
from engine.protocol import commands, events
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, texts
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.fake_states import OFFLINE, make_listed
from tests.helpers.fake_tasks import FILE, RUNTIME
from tests.helpers.plans import GPU, to_download

FILES = "seedvr2-3b-fp16,seedvr2-vae,seedvr2-text"
MODEL = to_download("model", files=FILES)
BOTH = to_download(
    "runtime-and-model",
    files=FILES,
    needs_runtime="cu130",
    size="9.2 GB",
    runtime_size="1.9 GB",
    runtime_bytes="1900000000",
)
RUNTIME_ONLY = to_download("runtime", file="", needs_runtime="cu130", size="1.9 GB")


def refused(bench: Bench, notice: Notice, name: str = "film.mp4", **choices: object) -> str:
    """A film whose plan lacks something, on a machine with a GPU."""
    bench.engine.tasks.runtimes = make_listed()
    bench.engine.tasks.list(RUNTIME)
    bench.engine.notices = (notice,)
    job_id = bench.add(name)
    if choices:
        bench.choose(**choices)
    return job_id


def primary(bench: Bench) -> str:
    return bench.find("primaryAction").text()


def finish_runtime(bench: Bench) -> None:
    bench.tasks.finish(RUNTIME)


def test_one_press_gets_the_model_and_the_film_starts(bench):
    job_id = refused(bench, MODEL)
    assert "Needs a download" in texts(bench.find("planCard"))
    assert "SeedVR2 3B must be downloaded first: 7.3 GB" in texts(bench.find("planCard"))
    assert primary(bench) == "Download and start · 7.3 GB"
    bench.press("primaryAction")
    fetched = [command.file for command in bench.asked(commands.DownloadModelFile)]
    assert sorted(fetched) == sorted(FILES.split(","))
    bench.engine.tasks.finish(FILE)
    bench.engine.tasks.finish(FILE)
    bench.tasks.advance(FILE, 684.0)
    shown = texts(bench.find("planCard"))
    for text in ("Downloading", "Downloading the model", "MB/s", "starts automatically"):
        assert text in shown
    assert primary(bench) == "Stop download"
    assert labels.state(bench.window.selected) == "Downloading", "the card in the queue, too"
    assert not bench.asked(commands.StartQueue)
    bench.engine.notices = ()
    bench.finish_files()
    assert bench.engine.running == job_id
    assert len(bench.asked(commands.StartQueue)) == 1
    assert not bench.program.restart.is_due


def test_a_runtime_and_a_model_come_together_and_the_next_start_goes_on(bench):
    refused(bench, BOTH, "a.mp4", scale=4)
    assert primary(bench) == "Download and start · 9.2 GB"
    bench.press("primaryAction")
    assert [c.runtime for c in bench.asked(commands.InstallRuntime)] == ["cu130"]
    bench.engine.notices = ()
    bench.add("b.mp4")
    bench.tasks.advance(RUNTIME, 684.0)
    bench.window.queue_column.view.select(bench.program.queue.rows[0].job_id)
    shown = texts(bench.find("planCard"))
    assert "Downloading the NVIDIA runtime" in shown
    assert "Upreel then restarts" in shown
    bench.engine.notices = (RUNTIME_ONLY,)  # what every plan before the new start says
    bench.finish_files()
    assert bench.window.isVisible()
    finish_runtime(bench)
    assert bench.program.restart.is_due
    assert not bench.asked(commands.StartQueue)
    films = restart.read().films
    assert [(f.source.name, f.settings.scale, f.downloads) for f in films] == [
        ("a.mp4", 4, True),
        ("b.mp4", 4, False),
    ]


def carried(bench: Bench, *notices: Notice) -> None:
    """The window after the new start, with a film that was waiting for downloads."""
    film = restart.WaitingFilm(
        job_id="old", source=restart.Path("films/a.mp4"), settings=JobSettings(), downloads=True
    )
    restart.write(restart.Waiting(films=(film,), starts=True))
    bench.engine.notices = notices
    restart.take_over(
        bench.program.controller, bench.program.queue, [], bench.program.downloads.expect
    )
    bench.hear()


def test_after_the_new_start_the_film_runs(bench):
    carried(bench)
    assert bench.engine.running == bench.program.queue.rows[0].job_id


def test_after_the_new_start_what_still_lacks_is_downloaded_first(bench):
    carried(bench, MODEL)
    assert len(bench.asked(commands.DownloadModelFile)) == 3
    assert not bench.asked(commands.StartQueue), "it would fail for what it lacks"
    bench.engine.notices = ()
    bench.finish_files()
    assert bench.engine.running is not None


def test_a_runtime_that_does_not_work_after_the_new_start_is_not_installed_again(bench):
    carried(bench, RUNTIME_ONLY)
    assert not bench.asked(commands.InstallRuntime)
    assert not bench.asked(commands.StartQueue)
    assert primary(bench).startswith("Download and start")


def test_stop_keeps_the_parts_and_nothing_starts(bench, two_presses):
    refused(bench, BOTH)
    bench.press("primaryAction")
    bench.tasks.advance(RUNTIME, 684.0)
    bench.press("primaryAction")
    bench.hear()
    stopped = bench.asked(commands.StopTask)
    assert {command.kind for command in stopped} == {FILE, RUNTIME}
    assert not bench.engine.tasks.waiting(FILE)
    assert bench.program.runtime_model.listed.runtimes[0].state == "partial"
    assert not bench.asked(commands.RemoveRuntime)
    assert primary(bench).startswith("Download and start")
    bench.press("primaryAction")
    assert len(bench.asked(commands.InstallRuntime)) == 2


def test_a_download_that_is_stopped_elsewhere_starts_nothing(bench):
    refused(bench, RUNTIME_ONLY)
    bench.press("primaryAction")
    bench.program.runtime.act("pause", "cu130")
    bench.hear()
    assert bench.program.download_model.films == {}
    assert primary(bench).startswith("Download and start")


@pytest.mark.parametrize("kind", [FILE, RUNTIME])
def test_a_failure_says_why_and_lite_is_one_press_away(bench, kind):
    job_id = refused(bench, BOTH)
    bench.press("primaryAction")
    bench.tasks.fail(kind, OFFLINE)
    shown = texts(bench.find("downloadProblem"))
    assert OFFLINE.message in shown
    title = "The model" if kind is FILE else "The NVIDIA runtime"
    assert f"{title} could not be" in shown
    assert OFFLINE.message not in texts(bench.program.runtime.card), "once is enough"
    assert not bench.engine.tasks.waiting(FILE)
    assert primary(bench).startswith("Download and start")
    assert bench.find("planOffer0").text() == "Use Lite for now"
    bench.engine.notices = ()
    bench.press("planOffer0")
    bench.hear()
    changed = bench.asked(commands.ChangeJob)[-1]
    assert (changed.job_id, changed.settings.model) == (job_id, "lite")
    assert not bench.find("downloadProblem").isVisible()
    assert (primary(bench), bench.find("primaryAction").isEnabled()) == ("Start", True)


def test_a_failure_is_not_about_other_choices(bench):
    refused(bench, MODEL)
    bench.press("primaryAction")
    bench.tasks.fail(FILE, OFFLINE)
    assert bench.find("downloadProblem").isVisible()
    bench.engine.notices = (to_download("model", files="seedvr2-7b-fp16", size="16.4 GB"),)
    bench.choose(model="seedvr2-7b")
    assert not bench.find("downloadProblem").isVisible()
    assert primary(bench) == "Download and start · 16.4 GB"


def test_lite_meanwhile_leaves_the_download_and_is_not_disturbed(bench):
    job_id = refused(bench, BOTH)
    bench.press("primaryAction")
    bench.engine.notices = ()
    bench.press("planOffer0")
    bench.hear()
    assert bench.program.download_model.films == {}
    assert bench.engine.tasks.waiting(RUNTIME) == ["cu130"], "the download goes on"
    bench.press("primaryAction")
    assert bench.engine.running == job_id
    bench.finish_files()
    finish_runtime(bench)
    assert bench.window.isVisible()
    assert bench.program.queue.active is not None
    assert not bench.program.restart.is_due


def test_a_film_that_runs_ends_before_the_new_start(bench):
    bench.start("lite.mp4")
    refused(bench, RUNTIME_ONLY, "next.mp4")
    bench.select(bench.program.queue.rows[1].job_id)
    assert primary(bench).startswith("Download and start")
    bench.press("primaryAction")
    assert primary(bench) == "Stop download"
    finish_runtime(bench)
    assert bench.window.isVisible()
    assert bench.program.restart.waits_for == "lite.mp4"
    bench.engine.queue.remove(bench.engine.queue[1])
    bench.finish()
    assert bench.program.restart.is_due
    waiting = restart.read()
    assert [(f.source.name, f.downloads) for f in waiting.films] == [("next.mp4", True)]
    assert waiting.starts


def test_no_new_start_after_all_starts_nothing_later(bench):
    bench.start("lite.mp4")
    refused(bench, RUNTIME_ONLY, "next.mp4")
    bench.window.queue_column.view.select(bench.program.queue.rows[1].job_id)
    bench.press("primaryAction")
    finish_runtime(bench)
    bench.program.restart.cancel()
    assert bench.program.download_model.films == {}
    assert not bench.program.restart.waits_for


def test_a_film_that_had_its_turn_too_early_runs_when_all_is_here(bench):
    job_id = refused(bench, MODEL)
    bench.press("primaryAction")
    error = replace(OFFLINE, code="weights-missing", case="model", params=MODEL.params)
    bench.emit(events.JobFailed(job_id=job_id, error=error))
    assert primary(bench) == "Stop download"
    bench.engine.notices = ()
    bench.finish_files()
    assert [c.job_id for c in bench.asked(commands.RetryJob)] == [job_id]
    assert bench.program.queue.rows[0].state is not JobState.FAILED


def test_a_film_that_is_removed_or_changed_waits_no_more(bench):
    job_id = refused(bench, MODEL)
    bench.press("primaryAction")
    bench.program.controller.remove([job_id])
    bench.hear()
    assert bench.program.download_model.films == {}
    assert not bench.engine.tasks.waiting(FILE)
    refused(bench, MODEL)
    bench.press("primaryAction")
    bench.engine.notices = (to_download("model", files="seedvr2-7b-fp16", model="seedvr2-7b"),)
    bench.choose(model="seedvr2-7b")
    assert bench.program.download_model.films == {}, "that was pressed for another model"


def test_a_pretended_gpu_downloads_and_starts_nothing(bench):
    refused(bench, MODEL)
    pretended = Notice(code="pretended-card", severity="refusal", params={"gpu": GPU})
    bench.engine.notices = (MODEL, pretended)
    bench.program.controller.plan_all_again()
    bench.hear()
    assert "start" not in primary(bench)
    bench.press("primaryAction")
    bench.engine.notices = (pretended,)
    bench.finish_files()
    assert not bench.asked(commands.StartQueue)


def test_the_keyboard_reaches_it_and_nothing_is_cut_off(bench, qtbot, two_presses):
    refused(bench, BOTH)
    button = bench.find("primaryAction")
    assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    bench.window.resize(1024, 640)
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        settle()
        assert list(cut_off(bench.find("decisionPanel"))) == []
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Space)
    bench.hear()
    bench.tasks.advance(RUNTIME, 684.0)
    assert QApplication.focusWidget() is button or not bench.window.isActiveWindow()
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        settle()
        assert list(cut_off(bench.find("decisionPanel"))) == []
    qtbot.keyClick(button, Qt.Key.Key_Space)
    bench.hear()
    assert bench.asked(commands.StopTask)


def test_no_other_film_starts_during_a_benchmark_either(bench):
    bench.add("one.mp4")
    bench.select(refused(bench, MODEL, "two.mp4"))
    start = bench.find("secondAction")
    assert (start.text(), start.isEnabled()) == ("Start one.mp4", True)
    bench.window.hold_start("A benchmark is running.")
    assert not start.isEnabled()
    bench.window.hold_start("")
    assert start.isEnabled()
