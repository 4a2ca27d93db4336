"""Promised memory: pretended readings of Windows, and a real limit of a process."""

import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from engine.hardware import commit as module
from engine.hardware.commit import commit

GIB = 2**30
RAM = 32 * GIB
ROOT = Path(__file__).parents[3]
Disk = namedtuple("Disk", "total used free")
C, D = Path("C:\\"), Path("D:\\")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Windows with 32 GB of RAM and a drive of 500 GB, half of it free; 25 GB are promised."""
    monkeypatch.setattr(module.sys, "platform", "win32")
    state(monkeypatch, page_file=0)
    free(monkeypatch, 250 * GIB)
    lines(monkeypatch)
    return monkeypatch


def state(patch: pytest.MonkeyPatch, page_file: int) -> None:
    limit = RAM + page_file
    patch.setattr(module, "_memory_status", lambda: (RAM, limit, limit - 25 * GIB))


def free(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr(module.shutil, "disk_usage", lambda _: Disk(500 * GIB, 0, size))


def lines(patch: pytest.MonkeyPatch, *found: str) -> None:
    patch.setattr(module, "machine_value", lambda *_: list(found))


def test_without_a_page_file_no_more_is_promised_than_ram(windows: pytest.MonkeyPatch) -> None:
    for none in ((), ("",)):
        lines(windows, *none)
        found = commit()
        assert found is not None
        assert (found.limit_bytes, found.left_bytes, found.growth_bytes) == (RAM, 7 * GIB, 0)
        assert (found.cause, found.counts_vram) == ("no-page-file", True)


@pytest.mark.parametrize(
    ("line", "growth", "cause"),
    [
        (r"C:\pagefile.sys 4096 4096", 0, "fixed-page-file"),
        (r"C:\pagefile.sys 4096 8192", 4 * GIB, "fixed-page-file"),
        (r"C:\pagefile.sys 0 0", 58.5 * GIB, "managed-page-file"),  # 1 / 8 of the drive
        (r"?:\pagefile.sys", 58.5 * GIB, "managed-page-file"),
    ],
)
def test_a_page_file_grows_as_far_as_its_settings_say(
    line: str, growth: float, cause: str, windows: pytest.MonkeyPatch
) -> None:
    state(windows, 4 * GIB)
    lines(windows, line)
    found = commit()
    assert found is not None
    assert (found.growth_bytes, found.cause) == (growth, cause)
    assert found.left_bytes == 11 * GIB + growth


def test_a_full_drive_lets_no_page_file_grow(windows: pytest.MonkeyPatch) -> None:
    lines(windows, r"C:\pagefile.sys 0 0")
    for space, growth in ((3 * GIB, 2 * GIB), (GIB // 2, 0)):
        free(windows, space)
        found = commit()
        assert found is not None
        assert found.growth_bytes == growth


def test_page_files_are_read_by_drive_and_size(windows: pytest.MonkeyPatch) -> None:
    lines(windows, r"C:\pagefile.sys 16 1024", r"D:\page files\pagefile.sys 0 0", "", " ")
    assert module._page_files() == ((C, GIB), (D, 0))
    windows.setattr(module, "machine_value", lambda *_: r"C:\pagefile.sys 27 77")
    assert module._page_files() == ((C, 77 * 2**20),)
    windows.setattr(module, "machine_value", lambda *_: None)  # no such value
    assert module._page_files() == ()


def test_a_windows_that_does_not_answer_has_no_limit(windows: pytest.MonkeyPatch) -> None:
    windows.setattr(module, "_memory_status", lambda: None)
    assert commit() is None


def test_strict_accounting_of_linux_is_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "/proc/sys/vm/overcommit_memory": "2\n",
        "/proc/meminfo": "MemTotal: 9 kB\nCommitLimit:  8000 kB\nCommitted_AS: 3000 kB\nHuge: 0\n",
    }
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setattr(module, "_address_space", lambda: None)
    monkeypatch.setattr(Path, "read_text", lambda self, _: texts[str(self)])
    found = commit()
    assert found is not None
    assert (found.limit_bytes, found.left_bytes) == (8000 * 1024, 5000 * 1024)
    assert (found.cause, found.counts_vram) == ("overcommit", False)
    texts["/proc/sys/vm/overcommit_memory"] = "0\n"
    assert commit() is None


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's here")
def test_a_limit_of_address_space_is_found_and_shrinks_the_budget() -> None:
    """In a process with the limit: what it says is refused is refused."""
    script = f"""
import resource, mmap, tempfile
from pathlib import Path
from engine.hardware.budget import measure_budget
from engine.hardware.commit import commit
from engine.settings.schema import EngineSettings
assert commit() is None
here = Path(tempfile.gettempdir())
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 3 * {GIB},) * 2)
found = commit()
limited = measure_budget(EngineSettings(), here, here)
held = mmap.mmap(-1, found.left_bytes - 2**26)
try:
    mmap.mmap(-1, 2**27)
except (OSError, MemoryError):
    print(found.cause, found.left_bytes, limited.ram_beside(0), limited.commit.left_bytes)
"""
    text = subprocess.check_output([sys.executable, "-c", script], text=True, cwd=ROOT)
    cause, left, budget, promised = text.split()
    assert cause == "address-space"
    assert 2.9 * GIB < int(left) < 3.1 * GIB
    assert int(budget) <= int(promised) < int(left)  # its reserve is left to others
