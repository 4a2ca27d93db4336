"""An installed runtime as it lies on the disk: what it is, whether it is whole, how it went.

    runtimes/chosen.json                  the one that the next start takes
    runtimes/<name>/runtime.json          written last: a folder without it is not installed
    runtimes/<name>/torch/...             on the module path while it is used
    runtimes/<name>/.loading-<process>-<n> torch is being loaded; stays behind when that crashes
    runtimes/<name>/broken.json           why it is not used any more

Several versions may lie beside each other.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core import atomic_file
from engine.core.errors import OutputUnwritable
from engine.core.paths import runtimes_folder
from engine.core.serialization import from_plain, to_plain

logger = logging.getLogger(__name__)

MANIFEST = "runtime.json"
_BROKEN, _CHOSEN, _LOADING = "broken.json", "chosen.json", ".loading-"
_LIBRARIES = (".dll", ".pyd", ".so")
_CRASHES = 2  # one may be a power cut, or a user who ended the program
_LONGEST_LOAD_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What a folder holds."""

    id: str
    torch: str
    cuda: str
    wheels: tuple[str, ...]  # SHA-256
    files: dict[str, int]  # bytes by path, with "/"

    @property
    def bytes(self) -> int:
        """On the disk."""
        return sum(self.files.values())


def read(folder: Path) -> Installed | None:
    """What a folder holds; None where nothing was installed to its end."""
    found = _read(folder / MANIFEST)
    try:
        return from_plain(Installed, found) if found is not None else None
    except (ValueError, TypeError, KeyError) as err:
        logger.warning("%s: %s", folder / MANIFEST, err)
        return None


def write(folder: Path, installed: Installed) -> None:
    """Say that everything is there; the last thing that an installation writes.

    Raises:
        OSError: The folder cannot be written.
    """
    atomic_file.write_json(folder / MANIFEST, to_plain(installed))


def first_wrong(folder: Path, installed: Installed, *, every: bool = False) -> str:
    """A file that is missing or of another length; "" where there is none.

    Args:
        folder: Where it is installed.
        installed: What should be there.
        every: Look at all files; else at the libraries and torch's first module, which a start
            has the time for.
    """
    for name, length in installed.files.items():
        if every or name == "torch/__init__.py" or name.endswith(_LIBRARIES):
            try:
                if (folder / name).stat().st_size != length:
                    return name
            except OSError:
                return name
    return ""


# --- how it went


def broken(folder: Path) -> str:
    """Why a runtime is not to be used any more; "" where nothing is known against it."""
    found = _read(folder / _BROKEN)
    if isinstance(found, dict):
        return str(found.get("why", "it did not load"))
    if sum(_has_ended(mark) for mark in folder.glob(f"{_LOADING}*")) >= _CRASHES:
        return "the program ended twice while it was being loaded"
    return ""


def note_broken(folder: Path, why: str) -> None:
    """Keep it from the next start; a folder that cannot be written stays as it is."""
    with contextlib.suppress(OSError):
        atomic_file.write_json(folder / _BROKEN, {"why": why})


def forgive(folder: Path) -> None:
    """Forget what is known against a runtime."""
    with contextlib.suppress(OSError):
        for mark in (*folder.glob(f"{_LOADING}*"), folder / _BROKEN):
            mark.unlink(missing_ok=True)


def begin_load(folder: Path) -> None:
    """Leave a mark while torch is being loaded."""
    with contextlib.suppress(OSError):
        _our_mark(folder).touch()


def end_load(folder: Path) -> None:
    """It loaded: nothing is held against earlier tries any more."""
    with contextlib.suppress(OSError):
        for mark in folder.glob(f"{_LOADING}*"):
            if mark == _our_mark(folder) or _has_ended(mark):
                mark.unlink(missing_ok=True)


_NUMBER = time.time_ns()  # of this process: Windows soon gives a process number to another one


def _our_mark(folder: Path) -> Path:
    return folder / f"{_LOADING}{os.getpid()}-{_NUMBER}"


def _has_ended(mark: Path) -> bool:
    """True where the process that left a mark does not load any more."""
    import psutil  # only where there is a mark

    number = mark.name.removeprefix(_LOADING).partition("-")[0]
    if number == str(os.getpid()):
        return mark != _our_mark(mark.parent)
    with contextlib.suppress(OSError):
        is_old = time.time() - mark.stat().st_mtime > _LONGEST_LOAD_S
        return is_old or not number.isdecimal() or not psutil.pid_exists(int(number))
    return False


# --- the one that is taken


def chosen() -> str:
    """Name of the folder that the next start takes; "" for the torch that came with the program."""
    found = _read(runtimes_folder() / _CHOSEN)
    name = found.get("runtime", "") if isinstance(found, dict) else ""
    return name if isinstance(name, str) and Path(name).name == name else ""


def choose(name: str) -> None:
    """Let the next start take this folder; "" for the torch that came with the program.

    Raises:
        OutputUnwritable: Our folder cannot be written.
    """
    folder = runtimes_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_file.write_json(folder / _CHOSEN, {"runtime": name})
    except OSError as err:
        raise OutputUnwritable(
            f"{folder} cannot be written: {err.strerror or err}.",
            hint="Give yourself the right to write there, or set UPREEL_DATA to another folder.",
            path=folder,
        ) from err


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        logger.warning("%s cannot be read: %s", path, err)
        return None
