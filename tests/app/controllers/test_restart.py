"""A new start waits for the film that runs and keeps those that wait."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from app.controllers import restart
from app.controllers.restart import RestartController, Waiting, WaitingFilm
from engine.core import paths
from engine.core.errors import DiskFull
from engine.protocol import commands
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench


def again(bench: Bench) -> RestartController:
    return bench.program.restart


def kept(waiting: Waiting) -> list[tuple[str, JobSettings, bool]]:
    return [(film.source.name, film.settings, waiting.starts) for film in waiting.films]


def test_without_a_running_film_it_goes_at_once(bench: Bench) -> None:
    bench.add("a.mp4")
    bench.window.choices.choose({"scale": 4})
    bench.hear()
    again(bench).request()
    assert again(bench).is_due
    assert not bench.window.isVisible()
    assert kept(restart.read()) == [("a.mp4", JobSettings(scale=4), False)]
    assert restart.read() == Waiting(), "read once"


def test_a_running_film_ends_first_and_the_queue_goes_on_afterwards(bench: Bench) -> None:
    bench.add("a.mp4")
    bench.add("b.mp4")
    bench.do("start")
    again(bench).request()
    bench.hear()
    assert bench.window.isVisible()
    assert bench.engine.asked(commands.StopQueue)
    bar = bench.program.runtime.bar
    assert bar.isVisible()
    assert "when a.mp4 is done" in bar.accessibleName()
    bench.engine.queue.remove(bench.engine.queue[1])  # the queue was stopped: no other one starts
    bench.engine.finish()
    bench.hear()
    assert not bench.window.isVisible()
    assert [(name, starts) for name, _, starts in kept(restart.read())] == [("b.mp4", True)]


def test_a_film_that_fails_does_not_hold_it_up(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    again(bench).request()
    bench.engine.fail(DiskFull("folder", folder="/films").info())
    bench.hear()
    assert again(bench).is_due


def test_not_after_all(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    again(bench).request()
    bench.button("runtime-stay").click()
    assert isinstance(bench.engine.commands[-1], commands.StartQueue)
    bench.engine.finish()
    bench.hear()
    assert bench.window.isVisible()
    assert not again(bench).is_due


def test_now_leaves_the_film_to_the_engine_and_asks_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.window, "confirm_close", lambda: pytest.fail("asked again"))
    bench.add()
    bench.do("start")
    again(bench).request()
    bench.button("runtime-restart_now").click()
    assert again(bench).is_due
    assert not bench.window.isVisible()
    assert not bench.engine.asked(commands.CancelJob), "the engine's end leaves it to go on"
    assert restart.read() == Waiting()


def test_a_queue_that_cannot_be_kept_is_not_left(bench: Bench) -> None:
    paths.data_folder().mkdir(parents=True, exist_ok=True)
    (paths.data_folder() / "restart.json").mkdir()  # nothing can be written there
    bench.add()
    again(bench).request()
    assert bench.window.isVisible()
    assert not again(bench).is_due


def test_films_come_back_with_their_choices_but_not_twice(bench: Bench) -> None:
    films = tuple(
        WaitingFilm(job_id=name, source=Path(f"films/{name}.mp4"), settings=JobSettings(scale=4))
        for name in ("begun", "fresh")
    )
    restart.write(Waiting(films=films, starts=True))
    restart.take_over(bench.program.controller, ["begun"])
    bench.hear()
    (row,) = bench.program.queue.rows
    assert (row.source.name, row.settings.scale) == ("fresh.mp4", 4)
    assert bench.engine.asked(commands.StartQueue), "it ran before"
    restart.take_over(bench.program.controller, [])
    assert len(bench.program.queue.rows) == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"films": 3}', '{"films": [{"job_id": 1}]}'])
def test_a_damaged_file_is_an_empty_queue(text: str) -> None:
    paths.data_folder().mkdir(parents=True, exist_ok=True)
    (paths.data_folder() / "restart.json").write_text(text, "utf-8")
    assert restart.read() == Waiting()


def test_an_older_queue_does_not_come_back() -> None:
    film = WaitingFilm(job_id="a", source=Path("a.mp4"), settings=JobSettings())
    restart.write(Waiting(films=(film,)))
    restart.write(Waiting())
    assert restart.read() == Waiting()


def test_the_program_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    python, main = restart.command()
    assert (python, Path(main).name) == (sys.executable, "main.py")
    assert Path(main).is_file()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert restart.command() == [sys.executable]


def test_what_is_started_outlives_us_with_its_environment(tmp_path: Path) -> None:
    out = tmp_path / "片段 a.txt"
    code = (
        "import os, sys; open(sys.argv[1], 'w').write(os.environ['PYINSTALLER_RESET_ENVIRONMENT'])"
    )
    assert restart.start_again([sys.executable, "-c", code, str(out)])
    end = time.monotonic() + 20
    while not (out.exists() and out.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    assert out.read_text() == "1"
    assert not restart.start_again([str(tmp_path / "nothing")])
