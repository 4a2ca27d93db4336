import ast
import gc
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from engine.hardware import process
from engine.hardware.process import at_work, below_normal_priority, keep_awake

ROOT = Path(__file__).parents[3]
NORMAL, BELOW, HIGH = 0x20, 0x4000, 0x80


class Priority:
    """A process of Windows."""

    def __init__(self, value: int, *, refuses: bool = False) -> None:
        self.value, self._refuses = value, refuses

    def nice(self, value: int | None = None) -> int | None:
        if value is None:
            return self.value
        if self._refuses:
            raise psutil.AccessDenied
        self.value = value
        return None


def test_the_priority_is_lower_inside_and_restored_after_an_error() -> None:
    cases = [(NORMAL, False, BELOW), (HIGH, False, HIGH), (NORMAL, True, NORMAL)]
    for priority, refuses, inside in cases:
        own = Priority(priority, refuses=refuses)
        with pytest.raises(KeyError), below_normal_priority(own):
            assert own.value == inside
            raise KeyError
        assert own.value == priority


def test_power_throttling_is_off_inside_and_restored_after() -> None:
    calls = []

    def set_information(_own: object, kind: int, state: Any, size: int) -> int:
        calls.append((kind, state._obj.version, state._obj.control, state._obj.state, size))
        return 1

    with process._full_speed(SimpleNamespace(SetProcessInformation=set_information)):
        assert calls == [(4, 1, 1, 0, 12)]
    assert calls[1:] == [(4, 1, 0, 0, 12)]
    with process._full_speed(object()):  # an old Windows
        pass


def test_elsewhere_nothing_changes() -> None:
    before = psutil.Process().nice()
    with at_work(on_processor=True):
        assert psutil.Process().nice() == before or process.sys.platform == "win32"
    assert psutil.Process().nice() == before


def test_started_programs_open_no_console() -> None:
    starts = ("run", "Popen", "call", "check_output", "check_call")
    found = 0
    for path in (path for room in ("engine", "app") for path in (ROOT / room).rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text if "subprocess" in text else "")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = ast.unparse(node.func)
                if name in {f"subprocess.{start}" for start in starts}:
                    found += 1
                    options = {word.arg for word in node.keywords}
                    assert "creationflags" in options, (path, node.lineno)
    assert found


@pytest.mark.parametrize("collects", [True, False])
def test_what_is_loaded_for_good_is_traversed_by_no_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collects: bool
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"heavy_{collects}".lower()
    (tmp_path / f"{name}.py").write_text("import gc\nseen, heap = gc.isenabled(), [{}]\n")
    (gc.enable if collects else gc.disable)()
    try:
        process.load_for_good(name)
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    module = sys.modules.pop(name)
    assert not module.seen, "collections while it loads"
    assert not any(one is module.heap for one in gc.get_objects())


linux_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has a call for it")


@linux_only
def test_the_system_stays_awake_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "systemd-inhibit"
    tool.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat\necho end > {tmp_path}/end\n'
    )
    tool.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(tool))
    with keep_awake("test"):
        assert not (tmp_path / "end").exists()
    assert (tmp_path / "end").exists()
    assert "--why=test" in (tmp_path / "arguments").read_text()


@linux_only
def test_a_tool_that_is_missing_or_does_not_start_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in (None, str(tmp_path / "missing")):
        monkeypatch.setattr(shutil, "which", lambda _, tool=tool: tool)
        with keep_awake():
            pass


SCRIPT = """
from engine.hardware.process import OwnProcesses

print("the script runs", flush=True)
process = OwnProcesses().Process(target=print, args=("the process runs",))
process.start()
process.join()
"""


@pytest.mark.extended
def test_a_process_does_not_run_the_script_again_that_starts_it(tmp_path):
    """Without "if __name__", as in short scripts; Python's own raises there, or starts more."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["the script runs", "the process runs"]
