from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.core.errors import RuntimeBroken
from engine.downloads.transfer import Listener as Tells
from engine.hardware.devices import Gpu
from engine.jobs import runtime_service
from engine.jobs.runtime_service import RuntimeDesk
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import RuntimeTrial
from engine.runtimes import installation as folders
from engine.runtimes import trial
from engine.runtimes.catalogue import catalogue
from engine.runtimes.store import RuntimeStore
from tests.helpers import runtimes
from tests.helpers.faulty_server import Fault, FaultyServer, faulty_server
from tests.helpers.listening import Listener

ENDS = (e.RuntimeDone, e.RuntimeFailed, e.RuntimeStopped)
CARD = Gpu(
    name="NVIDIA GeForce RTX 5070 Ti",
    total_bytes=2**34,
    free_bytes=2**34,
    driver="581.29",
    capability=(12, 0),
)


def works(folder: Path, control: Control) -> RuntimeTrial:
    return RuntimeTrial(torch=runtimes.VERSION, cuda="99.9", card="RTX 5070 Ti")


def fails(folder: Path, control: Control) -> RuntimeTrial:
    raise RuntimeBroken("It does not work here.", why="a library is missing")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return runtimes.wheel(tmp_path / "published")


@pytest.fixture
def server(wheel: Path) -> Iterator[FaultyServer]:
    with faulty_server() as server:
        server.files[f"/{runtimes.PLACE}"] = wheel.read_bytes()
        yield server


@pytest.fixture
def store(
    tmp_path: Path, wheel: Path, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RuntimeStore]:
    known = runtimes.catalogue(runtimes.runtime(wheel), index=server.url)
    folder = tmp_path / "resources"
    folder.mkdir()
    (folder / "runtime.toml").write_text(runtimes.as_toml(known), "utf-8")
    monkeypatch.setenv("UPREEL_RESOURCES", str(folder))  # for processes that are started
    catalogue.cache_clear()
    yield RuntimeStore(known)
    catalogue.cache_clear()


@pytest.fixture
def heard() -> Listener:
    return Listener()


@pytest.fixture
def desk(store: RuntimeStore, heard: Listener) -> Iterator[RuntimeDesk]:
    desk = RuntimeDesk(heard, store, works)
    yield desk
    desk.close(10.0)
    assert "runtime" not in {thread.name for thread in threading.enumerate()}


def phases(heard: Listener) -> list[str]:
    return list(dict.fromkeys(event.phase for event in heard.of(e.RuntimeProgress)))


def test_from_nothing_to_the_next_start(desk: RuntimeDesk, heard: Listener) -> None:
    desk.answer(c.InstallRuntime(runtime="cu999"))
    done = heard.wait(*ENDS)
    assert isinstance(done, e.RuntimeDone)
    assert "computes on RTX 5070 Ti" in done.message
    assert phases(heard) == ["download", "unpack", "try", "use"]
    (state,) = heard.wait(e.RuntimesListed).runtimes
    assert (state.state, state.is_chosen, state.is_used) == ("here", True, False)


def test_an_import_goes_the_same_way(desk: RuntimeDesk, heard: Listener, wheel: Path) -> None:
    desk.answer(c.ImportRuntime(paths=(wheel,)))
    done = heard.wait(*ENDS)
    assert isinstance(done, e.RuntimeDone)
    assert done.runtime == "cu999"
    assert phases(heard) == ["import", "unpack", "try", "use"]


def test_one_that_fails_its_trial_is_never_chosen(
    store: RuntimeStore, heard: Listener, wheel: Path
) -> None:
    desk = RuntimeDesk(heard, store, fails)
    desk.answer(c.ImportRuntime(paths=(wheel,)))
    failed = heard.wait(*ENDS)
    assert isinstance(failed, e.RuntimeFailed)
    assert failed.phase == "try"
    (state,) = heard.wait(e.RuntimesListed).runtimes
    assert (state.state, state.why, state.is_chosen) == ("broken", "a library is missing", False)
    assert folders.chosen() == ""
    desk.close(10.0)
    again = RuntimeDesk(heard, store, works)  # a newer driver, say
    again.answer(c.UseRuntime(runtime="cu999"))
    assert isinstance(heard.wait(*ENDS), e.RuntimeDone)
    assert folders.chosen() == store.folder_of("cu999").name
    again.close(10.0)


def test_one_at_a_time_and_stop(
    desk: RuntimeDesk, heard: Listener, server: FaultyServer, store: RuntimeStore
) -> None:
    server.always = Fault(drip=1000)
    desk.answer(c.InstallRuntime(runtime="cu999"))
    heard.wait(e.RuntimeProgress)
    desk.answer(c.RemoveRuntime(runtime="cu999"))
    refused = heard.wait(*ENDS)
    assert isinstance(refused, e.RuntimeFailed)
    assert refused.error.code == "runtime-busy"
    desk.answer(c.StopRuntime())
    assert isinstance(heard.wait(*ENDS), e.RuntimeStopped)
    assert store.state("cu999").state == "partial"


def test_the_end_of_one_wish_may_be_answered_by_the_next(
    store: RuntimeStore, server: FaultyServer
) -> None:
    """A window hears "stopped" while the last words of the thread are still to come."""
    server.always = Fault(drip=1000)
    ended = []

    def answer(event: e.Event) -> None:
        if isinstance(event, e.RuntimeStopped) and not ended:
            ended.append(event)
            desk.answer(c.RemoveRuntime(runtime="cu999"))

    heard = Listener(answer)
    desk = RuntimeDesk(heard, store, works)
    desk.answer(c.InstallRuntime(runtime="cu999"))
    while not (progress := heard.wait(e.RuntimeProgress)).done_mb:
        assert progress.phase == "download"
    desk.answer(c.StopRuntime())
    assert isinstance(heard.wait(*ENDS), e.RuntimeStopped)
    assert isinstance(heard.wait(*ENDS), e.RuntimeDone)
    assert store.state("cu999").state == "missing"
    desk.close(10.0)


def test_back_to_the_programs_own_and_away(desk: RuntimeDesk, heard: Listener, wheel: Path) -> None:
    for command in (
        c.ImportRuntime(paths=(wheel,)),
        c.UseRuntime(runtime=""),
        c.RemoveRuntime(runtime="cu999"),
    ):
        desk.answer(command)
        assert isinstance(heard.wait(*ENDS), e.RuntimeDone)
        heard.wait(e.RuntimesListed)
        desk.close(10.0)
    assert folders.chosen() == ""
    desk.answer(c.RemoveRuntime(runtime="cu999"))
    gone = heard.wait(*ENDS)
    assert isinstance(gone, e.RuntimeFailed)
    assert gone.error.code == "weights-missing"


@pytest.mark.parametrize(
    ("driver", "suited", "words"),
    [("581.29", "cu999", "suits NVIDIA GeForce RTX"), ("560.1", "", "needs driver 580.0")],
)
def test_the_list_says_what_suits_the_card(
    desk: RuntimeDesk,
    heard: Listener,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    suited: str,
    words: str,
) -> None:
    card = dataclasses.replace(CARD, driver=driver)
    monkeypatch.setattr(runtime_service.devices, "gpus", lambda: (card,))
    desk.answer(c.ListRuntimes())
    listed = heard.wait(e.RuntimesListed)
    assert listed.suited == suited
    assert words in listed.advice
    assert (listed.card, listed.driver) == (CARD.name, driver)
    assert listed.driver_needed == ("" if suited else "580.0")
    assert not listed.follows_choice, "a checkout has its own torch"
    assert listed.runtimes[0].suits_card is bool(suited)


# --- the trial itself


def test_a_trial_runs_the_programs_own_command_line(
    store: RuntimeStore, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # both texts have one size and one second
    store.install(*store.recognise([wheel], Tells()), Tells())
    folder = store.folder_of("cu999")
    found = trial.tried(folder, Control())
    assert (found.torch, found.cuda, found.card) == (runtimes.VERSION, "99.9", "")
    module = folder / "torch/__init__.py"
    module.write_text("raise OSError('no such library')".ljust(module.stat().st_size))
    with pytest.raises(RuntimeBroken, match="no such library"):
        trial.tried(folder, Control())


@pytest.mark.parametrize(
    ("executable", "words"),
    [("upreel", ["--headless"]), ("upreel-cli", [])],
)
def test_a_packed_program_tries_with_itself(
    monkeypatch: pytest.MonkeyPatch, executable: str, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", executable)
    assert trial._program() == [executable, *words]
