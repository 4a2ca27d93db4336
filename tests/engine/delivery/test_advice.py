import dataclasses
import sys
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.core.messages import message
from engine.delivery.runtimes import RuntimeStore
from engine.files.transfer import Listener
from engine.hardware import budget, devices
from engine.hardware.budget import gpu_here
from engine.runtimes import advice as advice_module
from engine.runtimes import bytecode, start
from engine.runtimes import installation as folders
from engine.runtimes.advice import advice, lines, needed_runtime
from engine.runtimes.catalogue import catalogue
from tests.helpers import runtimes

GPU = devices.Gpu(
    name="RTX 5070 Ti",
    total_bytes=2**34,
    free_bytes=2**34,
    driver="581.29",
    capability=(12, 0),
)


@pytest.fixture
def store(wheel: Path) -> RuntimeStore:
    store = RuntimeStore(runtimes.catalogue(runtimes.runtime(wheel)))
    store.install(*store.recognise([wheel], Listener()), Listener())
    return store


CHOSEN = message("torch-choice.chosen", runtime="cu999")
UNUSED = message("torch-choice.not-used", runtime="cu130", why="c10.dll")


def test_what_suits_a_machine() -> None:
    """The update of a driver, then 1.9 GB, comes before 2.6 GB with slower convolutions."""
    update = "to 580.0 or newer; the NVIDIA runtime is then a download of 1.9 GB."
    older = "The runtime cu126 works with this driver, but is larger (2.6 GB) and slower."
    for name, driver, capability, runtime, needed, words in (
        ("", "", None, "", "", "no NVIDIA GPU: no runtime is needed."),
        ("RTX 5070", "581.29", (12, 0), "cu130", "", "one for RTX 5070 with driver 581.29."),
        ("RTX 3060", "581.29", (8, 6), "cu130", "", "one for RTX 3060 with driver 581.29."),
        ("RTX 5070", "576.88", (12, 0), "", "580.0", f"of RTX 5070 from 576.88 {update}"),
        ("RTX 3060", "566.36", (8, 6), "", "580.0", f"RTX 3060 from 566.36 {update} {older}"),
        ("RTX 2060", "520.1", (7, 5), "", "580.0", f"of RTX 2060 from 520.1 {update}"),
        ("GTX 1080", "581.29", (6, 1), "", "", "runs on the CPU."),
    ):
        gpu = dataclasses.replace(GPU, name=name, driver=driver, capability=capability)
        found = advice(gpu if name else None, catalogue())
        assert (found.runtime, found.driver) == (runtime, needed)
        assert str(found.text).endswith(words)


def test_a_runtime_is_needed_where_torch_cannot_use_the_gpu(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = GPU
    known = runtimes.catalogue(runtimes.runtime(wheel))
    monkeypatch.setattr(advice_module, "catalogue", lambda: known)
    for gpus, torch_has_cuda, follows_choice, runtime in (
        ((gpu,), False, True, "cu999"),
        ((), False, True, ""),
        ((gpu,), True, True, ""),
        ((gpu,), False, False, ""),  # a checkout of the sources
        ((dataclasses.replace(gpu, driver="500.0"),), False, True, ""),
    ):
        monkeypatch.setattr(devices, "gpus", lambda found=gpus: found)
        monkeypatch.setattr(budget, "torch_has_cuda", lambda found=torch_has_cuda: found)
        monkeypatch.setattr(start, "follows_choice", lambda found=follows_choice: found)
        needed = needed_runtime()
        assert (needed.id if needed else "") == runtime
        assert needed is None or needed.bytes == wheel.stat().st_size
        assert bool(gpu_here(awaited=needed is not None)[0]) == bool(runtime or torch_has_cuda)


def test_the_self_test_reports_the_torch_in_use_and_why(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = lines(GPU)
    assert (line.state, str(line.message)) == ("ok", str(start.current().why))
    folder = store.folder_of("cu999")
    used = start.TorchChoice(why=CHOSEN, folder=folder, runtime="cu999")
    monkeypatch.setattr(start, "_choice", used)
    line, slow = lines(GPU)
    assert (slow.state, "3 modules are not compiled" in str(slow.message)) == ("warning", True)
    assert "runtime use cu999" in str(slow.hint)
    list(bytecode.compile_modules(folder, folders.read(folder), Control()))
    (line,) = lines(GPU)
    assert line.state == "ok"
    assert str(line.message) == f"{CHOSEN} torch {runtimes.VERSION}, 6 files, complete."
    (folder / "torch/version.py").unlink()
    (line,) = lines(GPU)
    assert (line.state, "torch/version.py" in str(line.message)) == ("problem", True)
    broken = start.TorchChoice(why=UNUSED, runtime="cu130", is_fallback=True)
    monkeypatch.setattr(start, "_choice", broken)
    (line,) = lines(None)
    assert (line.state, str(line.message)) == ("warning", str(UNUSED))
    assert "runtime install cu130" in str(line.hint)


def test_the_self_test_says_what_helps_where_windows_refuses_a_runtime(
    store: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = folders.note_blocked(store.folder_of("cu999"), "c10_cuda.dll")
    unused = message("torch-choice.not-used", runtime="cu999", why=why)
    blocked = start.TorchChoice(why=unused, runtime="cu999", is_fallback=True)
    monkeypatch.setattr(start, "_choice", blocked)
    (line,) = lines(None)
    assert line.state == "warning"
    assert "c10_cuda.dll" in str(line.message)
    assert "runtime install" not in str(line.hint)
    assert "allow the folder" in str(line.hint)


def test_a_packaged_program_with_a_gpu_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    line = list(lines(GPU))[-1]
    assert "the right one for RTX 5070 Ti" in str(line.message)
    assert "runtime install cu130" in str(line.hint)
