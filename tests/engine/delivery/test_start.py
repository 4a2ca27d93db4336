"""Which torch a new process has: each test starts one, with a stand-in for the runtime."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine.core import paths
from engine.core.messages import message
from engine.delivery.runtimes import RuntimeStore
from engine.files.transfer import Listener
from engine.runtimes import environment, start
from engine.runtimes import installation as folders
from engine.settings.optimisations import RunSwitches
from tests.helpers import runtimes

ROOT = Path(__file__).parents[3]
LOOK = """
import json, sys
import engine
from engine.runtimes import start
choice = start.current()
import torch
found = {"why": str(choice.why), "file": torch.__file__, "version": torch.__version__}
print(json.dumps(found | {"loader": type(torch.__loader__).__name__}))
"""


@pytest.fixture
def store(resources: Path, wheel: Path) -> RuntimeStore:
    known = runtimes.catalogue(runtimes.runtime(wheel))
    (resources / "runtime.toml").write_text(runtimes.as_toml(known), "utf-8")
    store = RuntimeStore(known)
    store.install(*store.recognise([wheel], Listener()), Listener())
    return store


def process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-c", code],  # a module may change twice within one second
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def look(**environment: str) -> dict[str, Any]:
    done = process(LOOK, **environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_checkout_has_its_own_torch_until_it_is_asked(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.use("cu999")
    assert "from source" in str(start.choice().why)
    found = look(UPREEL_RUNTIME="installed")
    assert "cu999" in found["why"]
    assert found["version"] == runtimes.VERSION
    assert Path(found["file"]).parents[1] == folder
    assert found["loader"] == "SourceFileLoader", "others see the usual loader"
    assert look(UPREEL_RUNTIME="cu999")["version"] == runtimes.VERSION
    monkeypatch.setenv("UPREEL_RUNTIME", "bundled")
    assert "selects the built-in torch" in str(start.choice().why)


def test_a_packaged_program_takes_the_chosen_one(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wanted, is_packaged, follows in (
        ("", False, False),
        ("installed", False, True),
        ("bundled", True, False),
        ("cu999", True, False),
        ("", True, True),
    ):
        monkeypatch.setattr(sys, "frozen", is_packaged, raising=False)
        monkeypatch.setenv("UPREEL_RUNTIME", wanted)
        assert start.follows_choice() is follows
    assert start.choice().folder is None
    folder = store.use("cu999")
    assert start.choice().folder == folder
    store.use("")
    assert start.choice() == start.TorchChoice(why=message("torch-choice.none-chosen"))


def test_a_damaged_runtime_is_not_used(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.use("cu999")
    monkeypatch.setenv("UPREEL_RUNTIME", "installed")
    for name in ("torch/__init__.py", "torch/lib/c10.dll", folders.MANIFEST):
        path = folder / name
        whole = path.read_bytes()
        for damage in (path.unlink, lambda path=path: path.write_text("cut")):
            damage()
            choice = start.choice()
            assert (choice.folder, choice.is_fallback) == (None, True)
            assert folder.name.startswith(choice.runtime)
            assert ("only partly" if name == folders.MANIFEST else name) in str(choice.why)
            path.write_bytes(whole)


def test_one_that_does_not_load_is_not_tried_again(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_RUNTIME", "installed")
    folder = store.use("cu999")
    module = folder / "torch/__init__.py"
    good = module.read_bytes()
    module.write_bytes(b"import no_such_library".ljust(len(good)))
    done = process("import engine; import torch")
    assert "RuntimeBroken" in done.stderr
    assert "Restart Upreel" not in done.stdout
    assert "no_such_library" in str(start.choice().why)
    folders.forgive(folder)
    module.write_bytes(b"raise ImportError('Cannot allocate memory')".ljust(len(good)))
    assert "RuntimeBroken" in process("import engine, torch").stderr
    assert folders.broken(folder) is None, "a lack of memory passes"
    module.write_bytes(b"import os; os._exit(3)".ljust(len(good)))
    for _ in range(2):  # it ends the program
        assert process("import engine, torch").returncode == 3
    assert "crashed twice" in str(start.choice().why)
    module.write_bytes(good)
    folders.forgive(folder)
    assert look()["version"] == runtimes.VERSION
    assert not list(folder.glob(".loading-*"))


BLOCKED = """
error = OSError('[WinError 4551] blocked. Error loading "c10_cuda.dll"')
error.winerror = 4551
raise error
"""


def test_one_that_windows_refuses_is_not_broken_and_tried_again_when_the_policy_changes(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_RUNTIME", "installed")
    folder = store.use("cu999")
    module = folder / "torch/__init__.py"
    good = module.read_bytes()
    module.write_bytes(BLOCKED.encode().ljust(len(good)))
    done = process("import engine; import torch")
    assert "RuntimeBlocked" in done.stderr
    assert not (folder / "broken.json").exists()
    fallback = start.choice()
    assert fallback.is_fallback, "the start after it has the program's own torch"
    assert "a security policy of Windows blocks" in str(fallback.why)
    state = store.state("cu999")
    assert (state.state, "c10_cuda.dll" in str(state.why)) == ("blocked", True)
    assert "downloading it again does not help" in str(state.why.hint)
    monkeypatch.setattr(folders, "smart_app_control", lambda: "off")
    assert start.unusable(folder.name, store.catalogue) is None, "another policy than then"
    assert store.state("cu999").state == "here"
    monkeypatch.setattr(folders, "smart_app_control", lambda: "on")
    assert "Smart App Control" in str(folders.note_blocked(folder, "x"))
    module.write_bytes(good)
    assert look()["version"] == runtimes.VERSION
    assert not folders.was_blocked(folder), "it has loaded"


def test_a_process_that_is_loading_now_is_no_crash(store: RuntimeStore) -> None:
    folder = store.use("cu999")
    folders.begin_load(folder)
    (folder / ".loading-999999999").touch()
    assert folders.broken(folder) is None, "one crash, and this process is alive"
    folders.forgive(folder)
    for earlier in (1, 2):  # had our number, as Windows gives it again
        (folder / f".loading-{os.getpid()}-{earlier}").touch()
    assert folders.broken(folder) == message("reason.runtime.crashed")
    folders.begin_load(folder)
    folders.end_load(folder)
    assert not list(folder.glob(".loading-*"))


def test_a_clock_that_is_set_makes_no_crash_of_a_process_that_is_loading(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, now = store.use("cu999"), time.time()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as loading:
        marks = [folder / f".loading-{loading.pid}-{number}" for number in (1, 2)]
        for mark in marks:
            mark.touch()
        monkeypatch.setattr(time, "time", lambda: now + 7200)
        assert folders.broken(folder) is None
        for mark in marks:
            os.utime(mark, (now - 3600,) * 2)  # of an ended process that had this number
        assert folders.broken(folder) == message("reason.runtime.crashed")
        loading.communicate(b"\n")


def test_one_of_another_build_is_not_used(
    store: RuntimeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = store.use("cu999").name
    other = runtimes.runtime(runtimes.wheel(tmp_path / "b", {"torch/__init__.py": ""}))
    assert start.unusable(name, store.catalogue) is None
    for known in (runtimes.catalogue(other), runtimes.catalogue()):
        assert start.unusable(name, known) == message("reason.runtime.other-version")


def test_a_damaged_choice_is_none() -> None:
    paths.runtimes_folder().mkdir(parents=True)
    for content in ("{", "[]", '{"runtime": 3}', '{"runtime": "../elsewhere"}'):
        (paths.runtimes_folder() / "chosen.json").write_text(content)
        assert folders.chosen() == ""


WHOLE_BLOCKS = "max_split_size_mb:24"
NAMES = ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "PYTORCH_ALLOC_CONF")


def variables(code: str = "", **environ: str) -> list[str]:
    """Those of a new process that imports the engine and then runs some code."""
    inherited = {k: v for k, v in os.environ.items() if k not in NAMES and "UPREEL_RUN" not in k}
    code = (
        f"import os, sys, engine\nfrom engine import environment\n{code}\n"
        f"print([os.environ.get(name, '') for name in {NAMES}], 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=inherited | environ,
    )
    found, _, torch = done.stdout.strip().rpartition(" ")
    assert torch == "False"
    return [part.strip(" '") for part in found.strip("[]").split(",")]


def test_the_environment_and_then_the_settings_choose() -> None:
    assert variables() == ["PASSIVE", "0", WHOLE_BLOCKS]
    off = variables(UPREEL_RUN_PASSIVE_THREADS="off", UPREEL_RUN_ALLOCATOR="async")
    assert off == ["", "", "backend:cudaMallocAsync"]
    found = variables(
        OMP_WAIT_POLICY="ACTIVE", PYTORCH_ALLOC_CONF="x:1", UPREEL_RUN_ALLOCATOR="async"
    )
    assert found == ["ACTIVE", "0", "backend:cudaMallocAsync"], "what is for other programs goes"
    code = "environment.choose('run.allocator=native,run.passive_threads=off')"
    assert variables(code, UPREEL_RUN_ALLOCATOR="async") == ["", "", WHOLE_BLOCKS]
    assert variables(UPREEL_RUN_ALLOCATOR="magic") == ["PASSIVE", "0", WHOLE_BLOCKS], "unreadable"


def test_with_torch_loaded_nothing_is_changed_and_the_difference_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    before = {name: os.environ.get(name) for name in NAMES}
    environment.choose("run.allocator=async")
    assert {name: os.environ.get(name) for name in NAMES} == before
    assert environment.too_late(RunSwitches(allocator="async")) == ("allocator",)
    assert environment.too_late(RunSwitches(passive_threads=False)) == ("passive_threads",)
    assert environment.too_late(RunSwitches(tf32=True)) == ()
