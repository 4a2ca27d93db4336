"""Ends of a Windows session, with a system that only writes down what it is told."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from app import desktop
from app.controllers import restart
from app.controllers.restart import Waiting, WaitingFilm
from app.start_options import parse
from engine.api import UnfinishedJob
from engine.protocol import commands, events
from engine.settings.schema import EngineSettings, JobSettings
from tests.app.conftest import Bench
from tests.helpers.plans import a_media


class System:
    """Windows, as far as it shuts down: the reason it shows, and what it starts again."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reason, self.arguments = "", [""]
        self.arguments.clear()
        patch.setattr(desktop, "explain_shutdown", self._explain)
        patch.setattr(desktop, "restart_after_update", self._register)

    def _explain(self, window_id: int, reason: str) -> bool:
        assert window_id
        self.reason = reason
        return bool(reason)

    def _register(self, arguments: list[str]) -> bool:
        self.arguments = list(arguments)
        return bool(arguments)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    return System(monkeypatch)


def may_end(bench: Bench) -> bool:
    refused: list[bool] = []
    bench.program.session.decide(SimpleNamespace(cancel=lambda: refused.append(True)))
    return not refused


def want(bench: Bench, *, resume: bool = True) -> None:
    settings = EngineSettings(resume_after_update=resume)
    bench.program.ui_state.engine_settings = settings
    bench.program.settings.changed.emit(settings)


def test_a_running_film_holds_a_shutdown_up_and_says_why(system, bench):
    assert may_end(bench)
    assert not system.reason
    bench.start("a.mp4")
    assert system.reason == "a.mp4 is still being processed."
    assert not may_end(bench)
    assert not system.arguments, "off by default"
    bench.finish()
    assert not system.reason
    assert may_end(bench)


def test_elsewhere_than_on_windows_nothing_is_held_up(bench):
    bench.start()
    assert may_end(bench)


def test_with_the_setting_windows_may_restart_and_starts_the_program_again(system, bench):
    bench.start()
    want(bench)
    assert system.arguments == [*restart.command()[1:], "--resume"]
    assert parse(["upreel", system.arguments[-1]]).resume
    assert may_end(bench)
    want(bench, resume=False)
    assert not system.arguments
    assert not may_end(bench)
    want(bench)
    bench.finish()
    assert not system.arguments, "nothing to come back for"


def test_where_the_user_has_stopped_the_queue_nothing_starts_by_itself(system, bench):
    want(bench)
    bench.start()
    assert system.arguments
    bench.program.controller.stop()
    assert not system.arguments
    assert not may_end(bench)


def test_a_request_that_windows_refuses_holds_the_shutdown_up(system, bench, monkeypatch):
    monkeypatch.setattr(desktop, "restart_after_update", lambda _: False)
    want(bench)
    bench.start()
    assert not may_end(bench)


@pytest.mark.parametrize("is_wanted", [True, False])
def test_the_restarted_program_goes_on_where_it_is_still_wanted(bench, is_wanted):
    film = WaitingFilm(job_id="b", source=Path("films/b.mp4"), settings=JobSettings())
    restart.write(Waiting(films=(film,)))
    want(bench, resume=is_wanted)
    begun = UnfinishedJob(job_id="begun", source=Path("a.mp4"), output=Path("a.mkv"))
    bench.program.take_up((begun,), is_kept=True, resumes=True)
    bench.hear()
    assert [one.job_id for one in bench.asked(commands.AdoptJob)] == ["begun"] * is_wanted
    for one in bench.asked(commands.AdoptJob):
        bench.engine.sink.emit(events.JobQueued(job_id=one.job_id, media=a_media()))
    bench.hear()
    assert bool(bench.asked(commands.StartQueue)) == is_wanted
    assert bench.find("unfinishedBanner").isVisible() is not is_wanted


def test_waiting_films_go_on_too_where_the_restart_came_between_two(bench):
    film = WaitingFilm(job_id="b", source=Path("films/b.mp4"), settings=JobSettings())
    restart.write(Waiting(films=(film,)))
    want(bench)
    bench.program.take_up((), is_kept=True, resumes=True)
    assert bench.asked(commands.StartQueue)


def test_the_queue_is_written_when_a_session_ends(bench, qapp):
    bench.add("a.mp4")
    bench.program.restart.keep_from_now()
    bench.program.keep_queue()
    assert [film.source.name for film in restart.read().films] == ["a.mp4"]
