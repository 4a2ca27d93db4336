import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app import desktop
from app.controllers import restart
from app.controllers.restart import Waiting, WaitingFilm
from engine.core import paths
from engine.core.errors import DiskFull, SourceMissing, SourceUnreadable, UnreadableMedia
from engine.protocol import commands
from engine.settings.schema import JobSettings

FILM = WaitingFilm(job_id="a", source=Path("films/fresh.mp4"), settings=JobSettings(scale=4))


def kept(waiting: Waiting) -> list[tuple[str, JobSettings, bool]]:
    return [(film.source.name, film.settings, waiting.starts) for film in waiting.films]


def test_without_a_running_film_it_goes_at_once(bench):
    bench.add("a.mp4")
    bench.choose(scale=4)
    bench.program.restart.request()
    assert bench.program.restart.is_due
    assert not bench.window.isVisible()
    assert kept(restart.read()) == [("a.mp4", JobSettings(scale=4), False)]


def test_the_card_of_a_lost_gpu_starts_the_program_again(bench):
    bench.window.actions_["restart"].trigger()
    assert bench.program.restart.is_due


def test_a_running_film_ends_first_and_the_queue_goes_on_afterwards(bench):
    bench.add("a.mp4")
    bench.start("b.mp4")
    bench.program.restart.request()
    bench.hear()
    assert bench.window.isVisible()
    assert bench.asked(commands.StopQueue)
    bar = bench.program.runtime.card
    assert bar.isVisible()
    assert "when a.mp4 is finished" in bar.accessibleName()
    bench.finish()
    assert not bench.window.isVisible()
    assert [(name, starts) for name, _, starts in kept(restart.read())] == [("b.mp4", True)]


def test_a_film_that_fails_does_not_hold_it_up(bench):
    bench.start()
    bench.program.restart.request()
    bench.fail(DiskFull("folder", folder="/films").info())
    assert bench.program.restart.is_due


def test_not_after_all(bench):
    bench.start()
    bench.program.restart.request()
    bench.find("runtime-stay").click()
    assert isinstance(bench.engine.commands[-1], commands.StartQueue)
    bench.finish()
    assert bench.window.isVisible()
    assert not bench.program.restart.is_due


def test_now_leaves_the_film_to_the_engine_and_asks_no_more(bench):
    bench.patch.setattr(bench.window, "confirm_close", lambda: pytest.fail("asked again"))
    bench.start()
    bench.program.restart.request()
    bench.find("runtime-restart_now").click()
    assert bench.program.restart.is_due
    assert not bench.window.isVisible()
    assert not bench.asked(commands.CancelJob), "the engine's end leaves it to go on"
    assert restart.read() == Waiting()


def test_a_queue_that_cannot_be_kept_is_not_left(bench):
    (paths.data_folder() / "restart.json").mkdir(parents=True)  # nothing can be written there
    bench.add()
    bench.program.restart.request()
    assert bench.window.isVisible()
    assert not bench.program.restart.is_due


def test_films_come_back_with_their_choices_but_not_twice(bench):
    begun = replace(FILM, job_id="begun", source=Path("films/begun.mp4"))
    restart.write(Waiting(films=(begun, FILM), starts=True))
    restart.take_over(bench.program.controller, bench.program.queue, ["begun"], pytest.fail)
    bench.hear()
    (row,) = bench.program.queue.rows
    assert (row.source.name, row.settings.scale) == ("fresh.mp4", 4)
    assert bench.asked(commands.StartQueue), "it ran before"


def test_a_damaged_file_is_an_empty_queue():
    paths.data_folder().mkdir(parents=True, exist_ok=True)
    film = '{"films": [{"job_id": "a", "source": "b", "settings": {"crf": 999}}]}'
    for text in ("{", "[" * 9999, "[]", '{"films": 3}', '{"films": [{"job_id": 1}]}', film):
        (paths.data_folder() / "restart.json").write_text(text, "utf-8")
        assert restart.read() == Waiting(), text
        assert (paths.data_folder() / "restart.json.damaged").read_text("utf-8") == text
    restart.write(Waiting(films=(FILM,)))
    restart.write(Waiting())  # an older queue does not come back
    assert restart.read() == Waiting()


def test_the_program_starts_itself_and_it_outlives_us_with_its_environment(monkeypatch, tmp_path):
    python, main = restart.command()
    assert (python, Path(main).name) == (sys.executable, "main.py")
    assert Path(main).is_file()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert restart.command() == [sys.executable]
    out = tmp_path / "片段 a.txt"
    code = (
        "import os, sys; open(sys.argv[1], 'w').write(os.environ['PYINSTALLER_RESET_ENVIRONMENT'])"
    )
    assert desktop.start_program([sys.executable, "-c", code, str(out)])
    end = time.monotonic() + 20
    while not (out.exists() and out.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    assert out.read_text() == "1"
    assert not desktop.start_program([str(tmp_path / "nothing")])


def test_films_that_wait_and_their_order_survive_a_crash(bench):
    bench.program.restart.keep_from_now()
    for name in ("one.mp4", "two.mp4"):
        bench.add(name)
    bench.choose(scale=4)  # for the selected film, the last
    bench.do("move_up")
    bench.program.restart.keep()
    kept = [(film.source.name, film.settings.scale) for film in restart.read().films]
    assert kept == [(row.source.name, row.settings.scale) for row in bench.program.queue.rows]
    assert len(kept) == 2
    assert restart.read().films, "a crash while they are read loses nothing"


def test_a_change_is_written_before_it_is_seen_as_a_crash_may_follow_at_once(bench):
    program = bench.program
    program.restart.keep_from_now()
    a, b, c = (bench.add(f"{name}.mp4") for name in "abc")

    def kept() -> list[tuple[str, int | None]]:
        return [(film.source.stem, film.settings.scale) for film in restart.read().films]

    usual = JobSettings().scale
    program.controller.choose(b, JobSettings(scale=4), None)
    assert kept() == [("a", usual), ("b", 4), ("c", usual)]
    program.controller.move(c, -1)
    assert kept() == [("a", usual), ("c", usual), ("b", 4)]
    program.controller.remove([a])
    assert kept() == [("c", usual), ("b", 4)]
    program.controller.removals.undo()
    assert kept() == [("a", usual), ("c", usual), ("b", 4)]
    program.controller.remove([a, b, c])
    assert kept() == []


def test_many_changes_are_written_together_soon(bench, monkeypatch):
    writes = []
    monkeypatch.setattr(restart, "write", lambda waiting: writes.append(len(waiting.films)) or "")
    bench.program.restart.keep_from_now()
    for number in range(50):
        bench.program.controller.add_file(Path(f"films/{number}.mp4"))
    assert len(writes) < 50
    deadline = time.monotonic() + 5
    while writes[-1:] != [50] and time.monotonic() < deadline:
        bench.hear()
    assert writes[-1] == 50


def test_films_whose_file_cannot_be_read_now_are_kept(bench):
    unsafe = SourceUnreadable("ended-program", name="one.mp4", count="2")
    for name, error in (
        ("one.mp4", unsafe),
        ("two.mp4", SourceMissing("since-start", name="two.mp4")),
    ):
        bench.engine.reject[name] = error.info()
        bench.add(name)
    bench.engine.reject["letter.txt"] = UnreadableMedia("undecodable", name="letter.txt").info()
    bench.add("letter.txt")
    bench.program.restart.keep()
    assert [film.source.name for film in restart.read().films] == ["one.mp4", "two.mp4"]
    restart.take_over(bench.program.controller, bench.program.queue, [], pytest.fail)
    assert [one.is_automatic for one in bench.asked(commands.AddJob)][-2:] == [True, True]
    bench.hear()
    bench.window.queue_column.view.select(bench.program.queue.rows[-1].job_id)
    bench.do("retry")
    assert not bench.asked(commands.AddJob)[-1].is_automatic, "the user has asked for it"
