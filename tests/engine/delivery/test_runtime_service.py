import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.core.errors import RuntimeBlocked, RuntimeBroken
from engine.delivery import runtime_service as service_module
from engine.delivery import runtime_service as trial
from engine.delivery.runtime_service import RuntimeService
from engine.delivery.runtimes import RuntimeStore
from engine.files.transfer import Listener as Tells
from engine.hardware import devices
from engine.hardware.devices import Gpu
from engine.jobs.task_runner import Task, TaskRunner
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import RuntimeTrial
from engine.protocol.tasks import TaskKind
from engine.runtimes import bytecode
from engine.runtimes import installation as folders
from engine.runtimes.start import blocked
from tests.helpers import runtimes
from tests.helpers.jobs import TASK_ENDS, Listener
from tests.helpers.servers import Fault, FaultyServer

Start = Callable[..., None]
GPU = Gpu(
    name="NVIDIA GeForce RTX 5070 Ti",
    total_bytes=2**34,
    free_bytes=2**34,
    driver="581.29",
    capability=(12, 0),
)


def works(folder: Path, control: Control) -> RuntimeTrial:
    return RuntimeTrial(torch=runtimes.VERSION, cuda="99.9", card="RTX 5070 Ti")


def fails(folder: Path, control: Control) -> RuntimeTrial:
    raise RuntimeBroken("trial", runtime=folder.name, why="a library is missing")


def compiles(folder: Path, listener: Tells) -> None:
    installed = folders.read(folder)
    total = bytecode.module_bytes(installed)
    for done in bytecode.compile_modules(folder, installed, listener.control):
        listener.on_progress(done, total)


@pytest.fixture
def store(resources: Path, store: RuntimeStore) -> RuntimeStore:
    """Its catalogue is that of processes that are started, too."""
    (resources / "runtime.toml").write_text(runtimes.as_toml(store.catalogue), "utf-8")
    return store


@pytest.fixture
def start(store: RuntimeStore, heard: Listener) -> Iterator[Start]:
    """Starts the task of a command."""
    runner = TaskRunner(heard)

    def start(command: c.RuntimeCommand, try_: service_module.Try = works) -> None:
        task = RuntimeService(store, try_, compiles).answer(command)
        assert isinstance(task, Task)
        runner.start(task)

    start.stop = lambda: runner.stop(TaskKind.RUNTIME)
    yield start
    runner.close(10.0)


def phases(heard: Listener) -> list[str]:
    return list(dict.fromkeys(event.phase for event in heard.of(e.TaskProgress)))


def test_from_nothing_to_the_next_start(start: Start, heard: Listener) -> None:
    start(c.InstallRuntime(runtime="cu999"))
    done = heard.done()
    assert "works on RTX 5070 Ti" in done.notice.message
    assert phases(heard) == ["download", "unpack", "compile", "try", "use"]
    (state,) = heard.of(e.RuntimesListed)[-1].runtimes
    assert (state.state, state.is_chosen, state.is_used) == ("here", True, False)
    installed = folders.read(state.path)
    assert bytecode.module_bytes(installed) > 0
    assert bytecode.missing(state.path, installed) == 0


def test_an_import_is_tried_and_removed(start: Start, heard: Listener, wheel: Path) -> None:
    start(c.ImportRuntime(paths=(wheel,)))
    done = heard.done()
    assert done.subject == "cu999"
    assert phases(heard) == ["import", "unpack", "compile", "try", "use"]
    for command in (c.UseRuntime(runtime=""), c.RemoveRuntime(runtime="cu999")):
        start(command)
        heard.done()
    assert folders.chosen() == ""
    start(c.RemoveRuntime(runtime="cu999"))
    gone = heard.failed()
    assert gone.error.code == "weights-missing"


def test_one_that_fails_its_trial_is_never_chosen(
    start: Start, store: RuntimeStore, heard: Listener, wheel: Path
) -> None:
    start(c.ImportRuntime(paths=(wheel,)), fails)
    failed = heard.failed()
    assert failed.phase == "try"
    (state,) = heard.of(e.RuntimesListed)[-1].runtimes
    assert (state.state, str(state.why), state.is_chosen) == (
        "broken",
        "a library is missing",
        False,
    )
    assert folders.chosen() == ""
    start(c.UseRuntime(runtime="cu999"))  # with a newer driver, say
    heard.done()
    assert folders.chosen() == store.folder_of("cu999").name


def test_one_that_windows_refuses_in_its_trial_is_neither_broken_nor_chosen(
    start: Start,
    store: RuntimeStore,
    heard: Listener,
    wheel: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_module, "smart_app_control", lambda: "on")
    monkeypatch.setattr(folders, "smart_app_control", lambda: "on")

    def refused(folder: Path, control: Control) -> RuntimeTrial:
        raise blocked("trial", folder, "WinError 4551")

    start(c.ImportRuntime(paths=(wheel,)), refused)
    error = heard.failed().error
    assert error.code == "runtime-blocked"
    assert "Smart App Control" in error.message
    assert "turn off Smart App Control" in error.hint
    listed = heard.of(e.RuntimesListed)[-1]
    (state,) = listed.runtimes
    assert listed.smart_app_control == "on"
    assert (state.state, state.is_chosen) == ("blocked", False)
    monkeypatch.setattr(folders, "smart_app_control", lambda: "off")
    assert store.state("cu999").state == "blocked", "until the user tries it again"
    start(c.UseRuntime(runtime="cu999"))
    heard.done()
    assert store.state("cu999").state == "here"


def test_a_second_command_is_refused_and_a_stopped_download_stays(
    start: Start, heard: Listener, server: FaultyServer, store: RuntimeStore
) -> None:
    server.always = Fault(drip=1000)
    start(c.InstallRuntime(runtime="cu999"))
    while not (progress := heard.wait(e.TaskProgress)).done:
        assert progress.phase == "download"
    start(c.RemoveRuntime(runtime="cu999"))
    refused = heard.failed()
    assert (refused.error.code, refused.error.params) == ("runtime-busy", {"runtime": "cu999"})
    start.stop()
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)
    assert store.state("cu999").state == "partial"


def test_the_list_has_the_suited_runtime(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for driver, suited, words in (
        ("581.29", "cu999", "is the right one for NVIDIA GeForce RTX"),
        ("560.1", "", "from 560.1 to 580.0 or newer"),
    ):
        gpu = dataclasses.replace(GPU, driver=driver)
        monkeypatch.setattr(devices, "gpus", lambda gpu=gpu: (gpu,))
        (listed,) = RuntimeService(store).answer(c.ListRuntimes())
        assert listed.suited == suited
        assert words in str(listed.advice)
        assert (listed.card, listed.driver) == (GPU.name, driver)
        assert listed.driver_needed == ("" if suited else "580.0")
        assert not listed.follows_choice, "a checkout has its own torch"
        assert listed.runtimes[0].suits_card is bool(suited)


def test_a_trial_runs_the_programs_own_command_line(
    store: RuntimeStore, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # both texts have one size and one second
    store.install(*store.recognise([wheel], Tells()), Tells())
    folder = store.folder_of("cu999")
    found = trial.try_runtime(folder, Control())
    assert (found.torch, found.cuda, found.card) == (runtimes.VERSION, "99.9", "")
    module = folder / "torch/__init__.py"
    module.write_text("raise OSError('no such library')".ljust(module.stat().st_size))
    with pytest.raises(RuntimeBroken, match="no such library"):
        trial.try_runtime(folder, Control())


def test_a_trial_tells_a_refusal_by_windows_from_a_broken_runtime(
    store: RuntimeStore, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.install(*store.recognise([wheel], Tells()), Tells())
    folder = store.folder_of("cu999")
    module = folder / "torch/__init__.py"
    late = "raise OSError('[WinError 4551] An Application Control policy has blocked this file')"
    module.write_text(late.ljust(module.stat().st_size))
    with pytest.raises(RuntimeBlocked, match="4551"):
        trial.try_runtime(folder, Control())
    assert folders.broken(folder) is None
    for code in (
        "import sys; sys.exit(print('[WinError 4551] cublas64.dll', file=sys.stderr) or 1)",
        "import os; os._exit(3)",
    ):
        folders.forgive(folder)
        monkeypatch.setattr(trial, "_program", lambda code=code: [sys.executable, "-c", code])
        monkeypatch.setattr(trial, "is_refused_process", lambda status: status == 3)
        with pytest.raises(RuntimeBlocked):
            trial.try_runtime(folder, Control())
        assert folders.was_blocked(folder)


def test_a_packaged_program_tries_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    for program in (["upreel", "--headless"], ["upreel-cli"]):
        monkeypatch.setattr(sys, "executable", program[0])
        assert trial._program() == program


def test_a_trial_that_crashes_after_its_report_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = (
        "import pathlib, sys; pathlib.Path(sys.argv[-1]).write_text("
        """'{"torch": "2.9", "cuda": "13.0"}'); sys.exit(3)"""
    )
    monkeypatch.setattr(trial, "_program", lambda: [sys.executable, "-c", crash])
    with pytest.raises(RuntimeBroken, match="status 3"):
        trial.try_runtime(tmp_path, Control())
