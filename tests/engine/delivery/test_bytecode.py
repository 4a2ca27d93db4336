"""Bytecode of a runtime: every module has it, and a program that writes none reads it."""

import importlib.util
import logging
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled, DiskFull
from engine.delivery import runtime_service as service
from engine.delivery.runtimes import RuntimeStore
from engine.delivery.wheels import bytecode_bytes
from engine.files.artifacts import ArtifactFolder
from engine.files.transfer import Listener
from engine.runtimes import bytecode, start
from engine.runtimes import installation as folders
from engine.runtimes.installation import Installed
from tests.helpers import runtimes

MODULES = ["torch/__init__.py", "torch/version.py", "torchgen/__init__.py"]


@pytest.fixture(autouse=True)
def beside_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytecode lies where a program reads it, and not in a folder that the tests' process has."""
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setattr(sys, "pycache_prefix", None)


@pytest.fixture
def store(resources: Path, wheel: Path) -> RuntimeStore:
    """Its catalogue is that of processes that are started, too."""
    store = RuntimeStore(runtimes.catalogue(runtimes.runtime(wheel)))
    (resources / "runtime.toml").write_text(runtimes.as_toml(store.catalogue), "utf-8")
    store.install(*store.recognise([wheel], Listener()), Listener())
    return store


@pytest.fixture
def folder(store: RuntimeStore) -> Path:
    return store.folder_of("cu999")


@pytest.fixture
def installed(folder: Path) -> Installed:
    found = folders.read(folder)
    assert found is not None
    return found


def cached(module: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(module)))


def test_the_process_of_an_installation_gives_every_module_bytecode(
    folder: Path, installed: Installed, caplog: pytest.LogCaptureFixture
) -> None:
    modules = [folder / name for name in installed.files if name.endswith(".py")]
    assert bytecode.missing(folder, installed) == len(modules) > 0
    seen: list[tuple[int, int]] = []
    service.compile_runtime(folder, Listener(on_progress=lambda *one: seen.append(one)))
    assert all(cached(module).is_file() for module in modules)
    assert bytecode.missing(folder, installed) == 0
    assert not caplog.records
    assert all(total == bytecode.module_bytes(installed) for _, total in seen)
    sources = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    assert {str(module.relative_to(folder)) for module in modules} == sources


def test_a_program_that_writes_no_bytecode_reads_it_wherever_the_folder_is_and_however_old(
    folder: Path, installed: Installed, tmp_path: Path
) -> None:
    list(bytecode.compile_modules(folder, installed, Control()))
    copy = shutil.copytree(folder, tmp_path / "kopierte 库", copy_function=shutil.copyfile)
    code = "import torch; print(torch.ones.__matmul__.__code__.co_filename)"
    command = [sys.executable, "-X", "utf8", "-B", "-v", "-c"]
    command += [f"import sys; sys.path[0] = sys.argv[1]; {code}", str(copy)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    module = copy / "torch/__init__.py"
    assert done.stdout.strip() == str(module), "its place now, not then"
    assert f"code object from {str(module)!r}" not in done.stderr, "compiled again"
    assert f"code object from {str(cached(module))!r}" in done.stderr


def test_damaged_or_foreign_bytecode_is_replaced_and_right_one_stays(
    folder: Path, installed: Installed
) -> None:
    list(bytecode.compile_modules(folder, installed, Control()))
    first, second = (cached(folder / name) for name in MODULES[:2])
    right, before = first.read_bytes(), second.stat().st_mtime_ns
    for damage in (right[:40], b"", bytes(len(right)), b"x" + right[1:], right[:16] + b"\xff" * 9):
        first.write_bytes(damage)
        list(bytecode.compile_modules(folder, installed, Control()))
        assert first.read_bytes() == right
    assert second.stat().st_mtime_ns == before
    (folder / MODULES[0]).write_text("another = 1\n")
    list(bytecode.compile_modules(folder, installed, Control()))
    assert first.read_bytes() != right


def test_a_module_that_cannot_be_compiled_leaves_the_others(
    folder: Path, installed: Installed, caplog: pytest.LogCaptureFixture
) -> None:
    first = folder / MODULES[0]
    whole = first.read_bytes()
    first.write_text("print 'for Python 2'\n")
    with caplog.at_level(logging.INFO):
        done = list(bytecode.compile_modules(folder, installed, Control()))
    assert done[-1] == bytecode.module_bytes(installed)
    assert MODULES[0] in caplog.text
    assert not cached(first).exists()
    assert bytecode.missing(folder, installed) == 0, "there is nothing to do at the next start"
    refused = folder / bytecode.REFUSED
    refused.write_text(refused.read_text().replace(sys.implementation.cache_tag, "cpython-27"))
    assert bytecode.missing(folder, installed) == 1, "this Python has not tried"
    first.write_bytes(whole)
    list(bytecode.compile_modules(folder, installed, Control()))
    assert cached(first).exists()
    refused.write_text("{")
    assert bytecode.missing(folder, installed) == 0


def test_a_cancel_stops_between_two_modules(folder: Path, installed: Installed) -> None:
    control = Control()
    compiling = bytecode.compile_modules(folder, installed, control)
    next(compiling)
    control.cancel()
    with pytest.raises(Cancelled):
        next(compiling)
    assert bytecode.missing(folder, installed) == len(MODULES) - 1
    with pytest.raises(Cancelled):
        service.compile_runtime(folder, Listener(control=control))


def test_room_for_it_is_counted_before_anything_is_unpacked(
    store: RuntimeStore, folder: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wheel.open("rb") as file:
        reserved = bytecode_bytes([file])
    modules = sum(len(text) for name, text in runtimes.MEMBERS.items() if ".py" in name)
    assert reserved == round(1.3 * modules)
    shutil.rmtree(folder)
    asked: list[int] = []

    def need(_folder: ArtifactFolder, bytes_: int) -> None:
        asked.append(bytes_)
        raise DiskFull("runtime", folder="x", free="1 MB", needed="2 MB")

    monkeypatch.setattr(ArtifactFolder, "need", need)
    with pytest.raises(DiskFull):
        store.install(*store.recognise([wheel], Listener()), Listener())
    assert asked[0] > reserved + 20_000, "the files and the bytecode"


def test_one_of_an_older_version_is_compiled_after_the_start_that_uses_it(
    folder: Path, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = start.TorchChoice(why=start.current().why, folder=folder, runtime="cu999")
    monkeypatch.setattr(start, "_choice", used)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    service.compile_in_background()
    assert "runtime bytecode" not in {thread.name for thread in threading.enumerate()}
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    service.compile_in_background()
    end = time.monotonic() + 60
    while bytecode.missing(folder, installed):
        assert time.monotonic() < end
        time.sleep(0.05)
    for thread in threading.enumerate():
        if thread.name == "runtime bytecode":
            thread.join()


def test_its_failure_is_only_logged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code = "import sys; sys.exit('no such verb')"
    monkeypatch.setattr(service, "_program", lambda: [sys.executable, "-c", code])
    service.compile_runtime(folder, Listener())
    assert "no such verb" in caplog.text
