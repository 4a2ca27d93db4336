"""Files of an installed runtime: description, check, marks of failed loads, the chosen one.

    runtimes/chosen.json                  the one that the next start uses
    runtimes/<name>/runtime.json          written last: a folder without it is not installed
    runtimes/<name>/torch/...             on the module path while it is used
    runtimes/<name>/.loading-<process>-<n> torch is being loaded; remains after a crash
    runtimes/<name>/broken.json           why it is not used any more
    runtimes/<name>/uncompiled.json       modules that this Python cannot compile
    runtimes/<name>/blocked.json          Windows refused to load it, and under which policy

Several versions may be installed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core import atomic_file
from engine.core.errors import OutputUnwritable
from engine.core.messages import Message, message
from engine.core.paths import runtimes_folder
from engine.core.serialization import from_plain, read_json, to_plain
from engine.hardware.code_policy import smart_app_control

logger = logging.getLogger(__name__)

MANIFEST = "runtime.json"
_BROKEN, _CHOSEN, _LOADING = "broken.json", "chosen.json", ".loading-"
_BLOCKED, _BLOCKED_REASON = "blocked.json", "reason.runtime.blocked."
_LIBRARIES = (".dll", ".pyd", ".so")
_CRASHES = 2  # one may be a power cut, or a user who ended the program
_CLOCK_S = 2.0  # by which times of files and of processes may differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """Description of an installed runtime."""

    id: str
    torch: str
    cuda: str
    wheels: tuple[str, ...]  # SHA-256
    files: dict[str, int]  # bytes by path, with "/"

    @property
    def bytes(self) -> int:
        """Size on the disk."""
        return sum(self.files.values())


def read(folder: Path) -> Installed | None:
    """Description of the runtime in a folder; None where no installation was completed."""
    found = _read(folder / MANIFEST)
    try:
        return from_plain(Installed, found) if found is not None else None
    except (ValueError, TypeError, KeyError) as err:
        logger.warning("%s: %s", folder / MANIFEST, err)
        return None


def write(folder: Path, installed: Installed) -> None:
    """Mark an installation as complete; its last step."""
    atomic_file.write_json(folder / MANIFEST, to_plain(installed))


def first_wrong(folder: Path, installed: Installed, *, every: bool = False) -> str:
    """A file that is missing or of another length; "" where there is none.

    Args:
        folder: Folder of the runtime.
        installed: Its description.
        every: Check all files; else the libraries and torch's first module, as at a start.
    """
    for name, length in installed.files.items():
        if every or name == "torch/__init__.py" or name.endswith(_LIBRARIES):
            try:
                if (folder / name).stat().st_size != length:
                    return name
            except (OSError, ValueError):  # of an impossible name
                return name
    return ""


# --- marks of failed loads


def broken(folder: Path) -> Message | None:
    """Why a runtime must not be used any more; None while it works."""
    found = _read(folder / _BROKEN)
    if isinstance(found, dict):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            return from_plain(Message, found["message"])
        return message("reason.runtime.marked", why=found.get("why", "it could not be loaded"))
    if sum(_has_ended(mark) for mark in folder.glob(f"{_LOADING}*")) >= _CRASHES:
        return message("reason.runtime.crashed")
    return None


def note_broken(folder: Path, why: Message) -> None:
    """Exclude a runtime from the next start; a read-only folder stays as it is."""
    with contextlib.suppress(OSError):
        about = {"why": str(why), "message": to_plain(why)}  # `why` is for older versions
        atomic_file.write_json(folder / _BROKEN, about)


def note_blocked(folder: Path, why: str) -> Message:
    """Mark a runtime that Windows refuses to load, and the policy under which it does.

    Args:
        folder: Folder of the runtime; a read-only one stays as it is.
        why: Words of the system.

    Returns:
        The reason, whose hint says what helps.
    """
    policy = smart_app_control()
    case = "smart-app-control" if policy in ("on", "evaluation") else "policy"
    found = message(f"{_BLOCKED_REASON}{case}", why=why)
    with contextlib.suppress(OSError):
        about = {"policy": policy, "message": to_plain(found)}
        atomic_file.write_json(folder / _BLOCKED, about)
    return found


def blocked(folder: Path) -> Message | None:
    """Why Windows refuses a runtime; None where it did not, or under another policy than now's.

    So the next start tries again by itself once Smart App Control was turned off.
    """
    found = _read(folder / _BLOCKED)
    if not isinstance(found, dict) or found.get("policy") != smart_app_control():
        return None
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return from_plain(Message, found["message"])
    return message(f"{_BLOCKED_REASON}policy", why="")


def was_blocked(folder: Path) -> bool:
    """True from a refusal by Windows until the runtime loads, or is to be tried again."""
    return (folder / _BLOCKED).is_file()


def is_block(why: Message) -> bool:
    """True for a reason of `note_blocked`."""
    return why.code.startswith(_BLOCKED_REASON)


def forgive(folder: Path) -> None:
    """Delete the marks of failed loads."""
    with contextlib.suppress(OSError):
        for mark in (*folder.glob(f"{_LOADING}*"), folder / _BROKEN, folder / _BLOCKED):
            mark.unlink(missing_ok=True)


def note_loaded(folder: Path) -> None:
    """Forget that Windows ever refused a runtime: it has just loaded."""
    with contextlib.suppress(OSError):
        (folder / _BLOCKED).unlink(missing_ok=True)


def begin_load(folder: Path) -> None:
    """Create a mark that exists while torch is being loaded."""
    with contextlib.suppress(OSError):
        _our_mark(folder).touch()


def end_load(folder: Path) -> None:
    """Delete the marks of this load and of earlier ones that failed."""
    with contextlib.suppress(OSError):
        for mark in folder.glob(f"{_LOADING}*"):
            if mark == _our_mark(folder) or _has_ended(mark):
                mark.unlink(missing_ok=True)


_NUMBER = time.time_ns()  # of this process: Windows soon uses the id of an ended process again


def _our_mark(folder: Path) -> Path:
    return folder / f"{_LOADING}{os.getpid()}-{_NUMBER}"


def _has_ended(mark: Path) -> bool:
    """True where the process of a mark does not load torch any more.

    No time of now is used: the clock may have been set since.
    """
    import psutil  # only where there is a mark

    number = mark.name.removeprefix(_LOADING).partition("-")[0]
    if number == str(os.getpid()):
        return mark != _our_mark(mark.parent)
    try:
        began: float = psutil.Process(int(number)).create_time()
        return began > mark.stat().st_mtime + _CLOCK_S
    except (ValueError, psutil.NoSuchProcess):
        return True
    except (OSError, psutil.Error):
        return False


# --- the chosen runtime


def chosen() -> str:
    """Name of the folder that the next start uses; "" for the program's own torch."""
    found = _read(runtimes_folder() / _CHOSEN)
    name = found.get("runtime", "") if isinstance(found, dict) else ""
    return name if isinstance(name, str) and Path(name).name == name else ""


def choose(name: str) -> None:
    """Choose the folder that the next start uses; "" for the program's own torch."""
    _write(_CHOSEN, {"runtime": name})


def _write(name: str, data: Any) -> None:
    folder = runtimes_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_file.write_json(folder / name, data)
    except OSError as err:
        reason = err.strerror or err
        raise OutputUnwritable("data", folder=folder, reason=reason) from err


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        logger.warning("%s cannot be read: %s", path, err)
        return None
