"""Trial of an installed runtime in a process of its own, so that a crash does no harm."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from engine.core.control import Control
from engine.core.errors import RuntimeBroken
from engine.core.messages import Message, message
from engine.core.serialization import from_plain, read_json
from engine.protocol.report import RuntimeTrial

_LONGEST_S = 300.0  # a virus scanner reads gigabytes of new libraries at the first start
_CHECK_EVERY_S = 0.1
_LAST_LINES = 3


def try_runtime(folder: Path, control: Control) -> RuntimeTrial:
    """Load the torch of a runtime and compute with it, on the GPU too where there is one.

    Args:
        folder: Folder of the runtime.
        control: Cancels the trial.

    Raises:
        RuntimeBroken: It does not load or computes wrongly; with the last lines of its output.
        Cancelled: The control was cancelled.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        out, errors = Path(temporary) / "trial.json", Path(temporary) / "errors.txt"
        with errors.open("wb") as output:
            status = _run(
                [*_program(), "runtime", "try", "--out", str(out)], folder, output, control
            )
        found = _result(out)
        if found is not None and status == 0:
            return found
        text = errors.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    raise _broken(folder, " ".join(lines) or message("reason.runtime.trial-status", status=status))


def _broken(folder: Path, why: str | Message) -> RuntimeBroken:
    return RuntimeBroken("trial", runtime=folder.name, why=why)


def _program() -> list[str]:
    """The command line of this program."""
    if not getattr(sys, "frozen", False):
        return [sys.executable, "-m", "engine"]
    is_console = Path(sys.executable).stem.endswith("-cli")
    return [sys.executable] if is_console else [sys.executable, "--headless"]


def _run(command: list[str], folder: Path, output: BinaryIO, control: Control) -> int:
    environment = os.environ | {"UPREEL_RUNTIME": folder.name}
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW
    root = None if getattr(sys, "frozen", False) else Path(__file__).parents[2]
    child = subprocess.Popen(  # noqa: S603 - this program with words of its own
        command,
        env=environment,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        creationflags=flags,
    )
    end = time.monotonic() + _LONGEST_S
    try:
        while child.poll() is None:
            control.check()
            if time.monotonic() > end:
                raise _broken(
                    folder, message("reason.runtime.trial-timeout", seconds=f"{_LONGEST_S:.0f}")
                )
            time.sleep(_CHECK_EVERY_S)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    return child.returncode


def _result(out: Path) -> RuntimeTrial | None:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return from_plain(RuntimeTrial, read_json(out))
    return None
