"""Playback through the window with the real engine: a film of Lite, seen and played by keys."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt

from app.state.job_row import JobState
from engine.core.errors import DiskFull
from tests.app.conftest import dropped
from tests.helpers.clips import make_clip

_PATIENCE_MS = 90_000


def test_space_plays_both_sides_of_a_finished_film(program, qtbot, tmp_path):
    window, playback = program.window, program.window.preview.playback
    film = make_clip(tmp_path / "film.mkv", frames=25, size=(64, 48), audio_tracks=1)
    window.intake.take_drop(dropped(film))
    qtbot.waitUntil(lambda: bool(program.queue.rows), timeout=_PATIENCE_MS)
    row = program.queue.rows[0]
    qtbot.waitUntil(lambda: row.plan is not None, timeout=_PATIENCE_MS)
    program.controller.choose(row.job_id, replace(row.settings, model="lite"), None)
    qtbot.waitUntil(lambda: row.plan.work.model == "lite", timeout=_PATIENCE_MS)
    playback.trim_chosen.emit({"start": "", "stop": "0.5"})
    qtbot.waitUntil(lambda: row.plan.stop is not None, timeout=_PATIENCE_MS)
    window.actions_["start"].trigger()
    ended = (JobState.DONE, JobState.FAILED)
    qtbot.waitUntil(lambda: row.state in ended, timeout=_PATIENCE_MS)
    assert (row.state, row.error) == (JobState.DONE, None)
    seen = []
    playback.pictures_changed.connect(
        lambda source, result: seen.append((source.size(), result.size()))
    )
    window.preview.timeline.set_step(0)
    window.preview.canvas.setFocus()
    window.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_Space)
    assert playback.is_playing
    qtbot.waitUntil(lambda: sum(not r.isEmpty() for _, r in seen) >= 3, timeout=_PATIENCE_MS)
    source, result = next(pair for pair in seen if not pair[1].isEmpty())
    assert not source.isEmpty()
    assert result.width() >= source.width()
    qtbot.waitUntil(lambda: not playback.is_playing, timeout=_PATIENCE_MS)


def test_pieces_of_a_failed_job_are_played_when_it_is_selected_again(bench):
    first = bench.start("first.mp4")
    bench.advance(5)
    bench.fail(DiskFull("folder", folder="/films").info())
    second = bench.add("second.mp4")
    view = bench.window.queue_column.view
    for job_id, result in ((second, ""), (first, "pieces")):
        view.select(job_id)
        bench.hear()
        assert bench.window.preview.playback._result == result
    assert bench.window.preview.timeline.strip.finished == 5


def test_a_finished_film_is_run_again_with_its_choices(bench):
    first = bench.add()
    bench.choose(model="lite")
    assert not bench.window.actions_["run_again"].isEnabled()
    bench.do("start")
    bench.finish()
    bench.choose(model="auto")
    assert bench.window.actions_["run_again"].isEnabled()
    bench.do("run_again")
    done, waiting = bench.program.queue.rows
    assert (done.job_id, done.state) == (first, JobState.DONE)
    assert bench.window.selected is waiting
    assert (waiting.source, waiting.settings) == (done.source, done.settings)
    assert waiting.state.can_change


def test_a_film_that_is_run_again_goes_to_the_folder_that_was_chosen_for_it(bench, tmp_path):
    for folder in (None, tmp_path):
        bench.program.controller.add_file(Path("film.mp4"), output=folder)
        bench.hear()
        bench.do("start")
        bench.finish()
        (done,) = bench.program.queue.rows
        bench.do("run_again")
        assert bench.window.selected is not done
        assert bench.window.selected.output == (folder and done.result.parent)
        bench.do("remove")
        bench.do("clear_finished")
