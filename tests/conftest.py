"""Quiet, closed-off tests: no network, own folders, fixed seeds, no stray errors in the log."""

import gc
import hashlib
import importlib.util
import ipaddress
import itertools
import logging
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Tiny models have few channels, which the tiles of AMX are filled up from: bytes that no published
# model takes. With less than this, oneDNN has no products of fp8, which torch asks it for where the
# processor has AMX.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers whose teams of threads spin on the same cores wait for each other for minutes.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A machine with a GPU may have neither: there only files with GPU tests are collected.
_BARE = any(importlib.util.find_spec(name) is None for name in ("av", "PySide6"))

if not _BARE:
    import app  # noqa: F401 - it takes away the import hook of PySide, which pytest-qt has loaded

_PRETENDED = "tests.pretended_gpu.plugin"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore what has no GPU tests where something is missing; None: as usual."""
    if not _BARE or collection_path.name == "tests":
        return None
    is_folder = collection_path.is_dir()
    files = collection_path.rglob("test_*.py") if is_folder else [collection_path]
    return None if any("mark.gpu" in file.read_text("utf-8") for file in files) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collect tests without garbage collection: all that is made stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_unconfigure() -> None:
    """Leave everything out of the garbage collections of Python's end, seconds of each process."""
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for a sample of the selected tests, as .ci/run takes one of the extended tests."""
    parser.addoption("--one-in", type=int, default=1, metavar="N", help="run one test in N")
    parser.addoption("--salt", default="", metavar="TEXT", help="another text, another sample")


@pytest.hookimpl(trylast=True)  # after those that are not wanted were left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reduce the tests to the sample asked for; skip GPU tests where there is no GPU."""
    one_in, salt = config.getoption("one_in"), config.getoption("salt")
    left_out = [item for item in items if _digest(f"{salt} {item.nodeid}") % one_in]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _digest(f"{salt} {item.nodeid}") % one_in == 0]
    mine = [item for item in items if item.get_closest_marker("gpu")]
    if mine and not config.pluginmanager.has_plugin(_PRETENDED) and not _has_gpu():
        for item in mine:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU that torch can use"))


# Started by the product or the standard library where installed; both do without elsewhere.
_OPTIONAL_PROGRAMS = {"systemd-inhibit", "file", "gcc", "ld", "ldconfig", "ldd", "uname"}
_started_programs: set[str] = set()


@pytest.fixture(scope="session", autouse=True)
def _programs_are_noted() -> Iterator[None]:
    real = subprocess.Popen.__init__

    def noting(self: Any, args: Any, *more: Any, **options: Any) -> None:
        path = Path(os.fsdecode(args if isinstance(args, str | os.PathLike) else args[0]))
        is_installed = not path.is_absolute() or path.is_relative_to("/usr")
        if is_installed and not path.name.startswith("python"):
            _started_programs.add(path.name)
        real(self, args, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", noting)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose programs are not installed."""
    # Functions, not fixtures, do what thousands of tests need: each fixture costs 0.1 ms a test.
    _keep_collections_quick(item)
    _started_programs.clear()
    missing = sorted(name for name in _programs_of(item) if shutil.which(name) is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """What a test logs is sent from a worker as UTF-8, which has no code for half a character."""
    report: Any = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def _programs_of(item: pytest.Item) -> set[str]:
    return {name for mark in item.iter_markers("programs") for name in mark.args}


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that starts a program its mark does not name: it would fail on a bare system."""
    unmarked = _started_programs - _OPTIONAL_PROGRAMS - _programs_of(item)
    assert not unmarked, f"mark this test with pytest.mark.programs: {sorted(unmarked)}"


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


class NetworkForbidden(RuntimeError):
    """A test wanted to talk to another machine."""


_numbers = itertools.count()


@pytest.fixture(scope="session")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of this process for those of its tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPREEL_COMFYUI", "")  # neither this machine's model files
        for name in ("UPREEL_MODELS", "UPREEL_MIRROR", "HF_ENDPOINT", "http_proxy", "HTTP_PROXY"):
            patch.delenv(name, raising=False)  # nor its ways into the network
        yield tmp_path_factory.mktemp("upreel")


@pytest.fixture(autouse=True)
def _own_folders(_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _folders / str(next(_numbers))
    folder.mkdir()
    monkeypatch.setenv("UPREEL_DATA", str(folder / "data"))
    monkeypatch.setenv("UPREEL_CACHE", str(folder / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(folder / "hub"))


_frozen: list[object] = []


def _keep_collections_quick(item: pytest.Item) -> None:
    """Leave what was imported out of garbage collection: jobs ask for 200 of them, 0.5 s each."""
    now = [item.path, len(sys.modules) // 50]
    if now != _frozen:
        _frozen[:] = now
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    random.seed(20260101)
    np.random.seed(20260101)
    torch = sys.modules.get("torch")  # never loaded here: most tests do without it
    if torch is not None and not torch.__spec__._initializing:  # a thread may be loading it
        torch.default_generator.manual_seed(20260101)
        if torch.cuda.is_initialized():  # else the seed waits, with a traceback of each test
            torch.cuda.manual_seed_all(20260101)
        torch.set_num_threads(1)  # tensors are tiny: a second thread waits longer than it works


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address[0]):
            raise NetworkForbidden(f"A test tried to reach {address}.")
        real(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_disks() -> Iterator[None]:
    """Replace fsync: no test needs files to survive a power failure, and it takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        yield


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)


@pytest.fixture(autouse=True)
def expected_log_errors() -> Iterator[list[str]]:
    """Fails a test that logs an error; a test that means to appends a part of its message here."""
    handler, expected = _Errors(), list[str]()
    logging.getLogger().addHandler(handler)
    yield expected
    logging.getLogger().removeHandler(handler)
    texts = [f"{record.name}: {record.getMessage()}" for record in handler.seen]
    stray = [text for text in texts if not any(part in text for part in expected)]
    assert not stray, f"unexpected errors in the log: {stray}"


@pytest.fixture(scope="module")
def figures_of_published_vaes() -> Iterator[None]:
    """Plans small jobs of a module without measuring their VAEs.

    Not for a package: one without an __init__.py ends with the last test of all.
    """
    from tests.helpers.figures import figures_of_published_vaes  # loads torch

    with figures_of_published_vaes():
        yield


@pytest.fixture
def samples() -> Path:
    """Folder of the sample clip that comes with the program."""
    return Path(__file__).parents[1] / "resources" / "samples"
