"""The watched folder in the window: what comes into the queue by itself, and what starts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QThreadPool

from app.controllers import restart, unattended
from app.controllers.restart import Waiting, WaitingFilm
from app.state.job_row import JobState
from engine.api import UnfinishedJob
from engine.core import paths
from engine.core.errors import DiskFull, UnreadableMedia
from engine.protocol import commands
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, part, real_program, texts
from tests.helpers.clips import Clip, make_clip


class Watched:
    """A window that watches a folder, with what tests do to both."""

    def __init__(self, bench: Bench, wait_until: Callable[..., None], folder: Path) -> None:
        self.bench, self.wait_until, self.folder = bench, wait_until, folder
        self.line, self.switch = bench.find("watchLine"), bench.find("watchSwitch")
        self._looks = 0
        bench.program.watch._looked.connect(self._count)

    def _count(self, _look: object) -> None:
        self._looks += 1

    def put(self, *names: str) -> None:
        for name in names:
            (self.folder / name).write_text(name)

    def choose(self, **settings: object) -> None:
        self.bench.program.settings.change(**settings)
        self.bench.hear()

    def look(self, times: int = 3) -> list[str]:
        """Names in the queue after some looks."""
        for _ in range(times):
            before = self._looks
            self.wait_until(lambda before=before: self._looks > before, timeout=5000)
            self.bench.hear()
        return [row.source.name for row in self.bench.program.queue.rows]

    def states(self) -> list[JobState]:
        return [row.state for row in self.bench.program.queue.rows]


@pytest.fixture
def watched(bench: Bench, qtbot: SimpleNamespace, tmp_path: Path) -> Iterator[Watched]:
    bench.patch.setattr(unattended, "_EVERY_MS", 10)
    bench.patch.setattr(unattended, "_SHARE", 0)
    folder = tmp_path / "Incoming"
    folder.mkdir()
    made = Watched(bench, qtbot.waitUntil, folder)
    bench.program.watch.begin()
    made.choose(watch_folder=str(folder))
    yield made
    made.choose(watch_folder="")
    QThreadPool.globalInstance().waitForDone()
    bench.hear()


def watched_film(name: str) -> WaitingFilm:
    return WaitingFilm(
        job_id=name, source=Path(f"{name}.mp4"), settings=JobSettings(), is_watched=True
    )


def test_films_come_with_the_choices_of_new_films_and_wait(watched):
    watched.bench.choose(scale=4)
    watched.put("a.mp4", "b.mp4")
    assert watched.look() == ["a.mp4", "b.mp4"]
    added = watched.bench.asked(commands.AddJob)
    assert [one.settings for one in added] == [JobSettings(scale=4)] * 2
    assert all(one.is_automatic for one in added), "what ended the program twice is not read again"
    assert watched.states() == [JobState.WAITING] * 2
    assert not watched.bench.asked(commands.StartQueue)
    watched.put("c.mp4")
    assert watched.look() == ["a.mp4", "b.mp4", "c.mp4"]


def test_a_film_that_comes_takes_the_view_from_no_other(watched):
    watched.bench.start("mine.mp4")
    watched.bench.finish()
    watched.put("a.mp4")
    assert watched.look() == ["mine.mp4", "a.mp4"]
    assert watched.bench.window.selected.source.name == "mine.mp4"


def test_in_a_running_queue_they_have_their_turn(watched):
    watched.bench.start("mine.mp4")
    watched.put("a.mp4")
    watched.look()
    watched.bench.finish()
    assert watched.states() == [JobState.DONE, JobState.RUNNING]


def test_they_start_at_once_where_that_is_chosen_and_nothing_else_does(watched):
    watched.choose(watch_starts=True)
    watched.bench.add("mine.mp4")
    watched.look()
    assert not watched.bench.asked(commands.StartQueue), "a film of the user's waits for Start"
    watched.put("a.mp4", "b.mp4")
    assert watched.look(4) == ["a.mp4", "mine.mp4", "b.mp4"]
    assert watched.states() == [JobState.RUNNING, JobState.WAITING, JobState.WAITING]
    assert watched.bench.find("stopsAfterThis").isChecked(), "the user's film does not follow"
    watched.bench.finish()  # a look may come at once, and start the next one of the folder
    assert watched.look() == ["a.mp4", "b.mp4", "mine.mp4"]
    assert watched.states() == [JobState.DONE, JobState.RUNNING, JobState.WAITING]
    watched.bench.finish()
    assert watched.states() == [JobState.DONE, JobState.DONE, JobState.WAITING]
    watched.bench.do("start")
    assert watched.states()[-1] is JobState.RUNNING


def test_what_follows_the_queue_follows_films_that_ran_by_themselves(watched, qtbot):
    ended = []
    watched.bench.program.controller.queue_ended.connect(lambda: ended.append(True))
    watched.choose(watch_starts=True)
    watched.put("a.mp4", "b.mp4")
    watched.look(4)
    watched.bench.finish()
    assert not ended
    watched.look()
    watched.bench.finish()
    assert ended == [True]


def test_after_cancel_they_wait_for_start_also_where_they_start_at_once(watched):
    watched.choose(watch_starts=True)
    watched.put("a.mp4", "b.mp4")
    watched.look(4)
    watched.bench.do("cancel")
    watched.put("c.mp4")
    watched.look(4)
    assert watched.states() == [JobState.CANCELLED, JobState.WAITING, JobState.WAITING]
    watched.bench.do("start")
    watched.bench.finish()
    watched.bench.finish()
    watched.put("d.mp4")
    watched.look(4)
    assert watched.states()[-1] is JobState.RUNNING


def test_nothing_starts_while_the_window_holds_it(watched):
    watched.choose(watch_starts=True)
    watched.bench.window.hold_start("The NVIDIA runtime is being tried.")
    watched.put("a.mp4")
    watched.look(4)
    assert watched.states() == [JobState.WAITING]
    watched.bench.window.hold_start("")
    watched.look(2)
    assert watched.states() == [JobState.RUNNING]


def test_a_film_that_fails_stops_no_other_and_is_not_tried_again(watched):
    watched.choose(watch_starts=True)
    watched.bench.engine.reject["bad.mp4"] = UnreadableMedia("undecodable", name="bad.mp4").info()
    watched.put("a.mp4", "b.mp4", "bad.mp4")
    watched.look(4)
    watched.bench.fail(DiskFull("folder", folder="/films").info())
    watched.look()
    watched.bench.finish()
    assert watched.states() == [JobState.FAILED, JobState.DONE, JobState.REJECTED]
    assert len(watched.look(5)) == 3
    assert watched.states() == [JobState.FAILED, JobState.DONE, JobState.REJECTED]


def test_the_queue_holds_some_of_many_and_the_rest_follows(watched):
    watched.bench.patch.setattr(unattended, "_MOST_WAITING", 2)
    watched.put("a.mp4", "b.mp4", "c.mp4")
    assert watched.look(4) == ["a.mp4", "b.mp4"]
    watched.bench.do("start")
    assert watched.look(4) == ["a.mp4", "b.mp4", "c.mp4"]


def test_the_line_names_the_folder_and_its_switch_stops_and_goes_on(watched):
    assert "Watched: Incoming" in texts(watched.line)
    dialog = watched.bench.program.settings.dialog
    watched.bench.press("watchSwitch")
    assert watched.bench.program.ui_state.engine_settings.watch_folder == ""
    assert dialog.settings.watch_folder == "", "the settings show the same"
    assert part(dialog, "setting-watch_folder").text() == ""
    watched.put("a.mp4")
    QThreadPool.globalInstance().waitForDone()
    watched.bench.hear()
    assert watched.bench.program.queue.rowCount() == 0
    assert "Not watched: Incoming" in texts(watched.line)
    watched.bench.press("watchSwitch")
    assert watched.look() == ["a.mp4"]
    assert "Watched: Incoming" in texts(watched.line)
    watched.bench.use_language("zh_CN")
    assert "监视中：Incoming" in texts(watched.line)


def test_what_was_taken_right_before_the_switch_is_written_down(watched):
    looked = watched.bench.program.watch._looked
    looked.connect(lambda look: look.films and watched.choose(watch_folder=""))
    watched.put("a.mp4")
    record = paths.data_folder() / "watched.txt"
    watched.wait_until(lambda: record.exists() and "a.mp4" in record.read_text(), timeout=5000)
    assert [row.source.name for row in watched.bench.program.queue.rows] == ["a.mp4"]


def test_without_a_folder_there_is_no_line(bench):
    bench.program.watch.begin()
    assert not bench.find("watchLine").isVisible()


def test_a_folder_that_has_gone_is_said_once_and_goes_on_when_it_is_back(watched, caplog):
    watched.look()
    away = watched.folder.rename(watched.folder.with_name("away"))
    watched.look(4)
    assert "Not available: " in texts(watched.line)
    assert "Continues when" in watched.line.toolTip()
    said = [one for one in caplog.records if "watched folder" in one.message]
    assert len(said) == 1
    caplog.clear()
    away.rename(watched.folder)
    watched.put("a.mp4")
    assert watched.look() == ["a.mp4"]
    assert "Watched: " in texts(watched.line)


def test_what_came_from_the_folder_is_kept_as_that_and_what_runs_only_at_a_proper_end(watched):
    watched.put("a.mp4", "b.mp4")
    watched.look()
    watched.bench.add("mine.mp4")
    watched.bench.do("start")
    running = watched.bench.program.queue.active.job_id
    for ends, begun in ((False, ()), (True, (running,)), (False, ())):
        watched.bench.program.restart.keep(ends=ends)
        kept = restart.read()
        names = [(film.source.name, film.is_watched) for film in kept.films]
        assert (names, kept.begun) == ([("b.mp4", True), ("mine.mp4", False)], begun)


@pytest.mark.parametrize("starts", [True, False])
def test_after_a_new_start_films_of_the_folder_go_on_where_new_ones_start(watched, starts):
    watched.choose(watch_folder="", watch_starts=starts)
    films = (replace(watched_film("mine"), is_watched=False), watched_film("fresh"))
    restart.write(Waiting(films=films, begun=("begun", "finished since")))
    watched.choose(watch_folder=str(watched.folder))
    own, other = (
        UnfinishedJob(job_id=name, source=Path(name), output=Path(name))
        for name in ("begun", "other")
    )
    watched.bench.program.take_up((own, other), is_kept=True)
    watched.look(2)
    bench = watched.bench
    films = {row.source.name: row.state for row in bench.program.queue.rows[starts:]}
    state = JobState.RUNNING if starts else JobState.WAITING
    assert films == {"fresh.mp4": state, "mine.mp4": JobState.WAITING}
    assert [one.job_id for one in bench.asked(commands.AdoptJob)] == ["begun"] * starts
    assert bench.find("unfinishedBanner").isVisible(), "the other one waits for an answer"


def test_after_a_new_start_films_of_the_user_wait(watched):
    watched.choose(watch_starts=True)
    restart.write(Waiting(films=(replace(watched_film("mine"), is_watched=False),)))
    watched.bench.program.take_up((), is_kept=True)
    watched.look()
    assert watched.states() == [JobState.WAITING]


@pytest.mark.slow
def test_results_in_the_watched_folder_start_nothing_again_also_after_a_new_start(
    qapp, qtbot, tmp_path, monkeypatch
):
    monkeypatch.setattr(unattended, "_EVERY_MS", 50)
    folder = tmp_path / "Incoming"
    folder.mkdir()
    make_clip(folder / "film.mkv", Clip(frames=10))
    queues: list[list[tuple[str, JobState]]] = []
    for _ in range(2):
        looks: list[object] = []
        with real_program(qapp, tmp_path) as program:
            program.watch._looked.connect(looks.append)
            program.controller.settings = JobSettings(model="lite", crf=30)
            program.settings.change(
                name_pattern="a result", watch_folder=str(folder), watch_starts=True
            )
            program.watch.begin()
            qtbot.waitUntil((folder / "a result.mkv").exists, timeout=60_000)
            qtbot.waitUntil(lambda: program.queue.active is None, timeout=20_000)
            at = len(looks)
            qtbot.waitUntil(lambda at=at, looks=looks: len(looks) > at + 4, timeout=20_000)
            queue = [(row.source.name, row.state) for row in program.queue.rows]
            queues.append(queue)
            program.settings.change(watch_folder="")
            QThreadPool.globalInstance().waitForDone()
            qapp.processEvents()
    assert queues == [[("film.mkv", JobState.DONE)], []]
    assert sorted(file.name for file in folder.iterdir()) == ["a result.mkv", "film.mkv"]
