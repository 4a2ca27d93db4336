"""Start with one build of torch: puts it on the module path before anything imports it.

`UPREEL_RUNTIME` selects it: "bundled" for the torch that came with the program, "installed" for the
chosen runtime, or the id of an installed one. Without it the packaged program uses the chosen one,
and a checkout of the sources that of its own Python.
"""

from __future__ import annotations

import importlib.machinery
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.core.errors import (
    EngineError,
    RuntimeBlocked,
    RuntimeBroken,
    is_code_refusal,
    is_memory_refusal,
)
from engine.core.messages import Message, message
from engine.core.paths import runtimes_folder
from engine.runtimes import installation as folders
from engine.runtimes.catalogue import RuntimeCatalogue, catalogue

logger = logging.getLogger(__name__)

BUNDLED, INSTALLED = "bundled", "installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchChoice:
    """The build of torch of a process."""

    why: Message
    folder: Path | None = None  # None: the torch that came with the program
    runtime: str = ""  # id of the runtime, also of one that was requested and is not used
    torch: str = ""
    is_fallback: bool = False  # the requested runtime cannot be used


_choice = TorchChoice(why=message("torch-choice.nothing-chosen-yet"))


def activate() -> None:
    """Choose once, and make `import torch` find the chosen build."""
    global _choice
    if "torch" in sys.modules or _choice.folder is not None:
        return
    _choice = choice()
    if _choice.folder is not None:
        sys.path.insert(0, str(_choice.folder))
        sys.meta_path.insert(0, _TorchFinder(_choice.folder))


def current() -> TorchChoice:
    """The build of torch of this process, and why."""
    return _choice


def choice() -> TorchChoice:
    """The build of torch that a process started now would use."""
    wanted = os.environ.get("UPREEL_RUNTIME", "")
    if wanted == BUNDLED:
        return TorchChoice(why=message("torch-choice.requested-bundled"))
    if not wanted and not follows_choice():
        return TorchChoice(why=message("torch-choice.sources"))
    name = folders.chosen() if wanted in ("", INSTALLED) else _named(wanted)
    if not name:
        return TorchChoice(why=message("torch-choice.none-chosen"))
    return _checked(name)


def follows_choice() -> bool:
    """True where the next start of this program uses the chosen runtime."""
    wanted = os.environ.get("UPREEL_RUNTIME", "")
    return wanted == INSTALLED or (not wanted and bool(getattr(sys, "frozen", False)))


def unusable(name: str, known: RuntimeCatalogue) -> Message | None:
    """Why an installed runtime cannot be used by this program; None where it can."""
    folder = runtimes_folder() / name
    installed = folders.read(folder)
    if installed is None:
        return message("reason.runtime.not-installed")
    if all(r.id != installed.id or r.hashes != installed.wheels for r in known):
        return message("reason.runtime.other-version")
    if not known.runtime(installed.id).suits_this_python:
        return message("reason.runtime.other-python")
    wrong = folders.first_wrong(folder, installed)
    if wrong:
        return message("reason.runtime.file-damaged", name=wrong)
    return folders.broken(folder) or folders.blocked(folder)


def _named(wanted: str) -> str:
    """Folder of a runtime by its id or its own name."""
    try:
        known = {runtime.id: runtime.folder_name for runtime in catalogue()}
    except EngineError:
        known = {}
    return known.get(wanted, Path(wanted).name)


def _checked(name: str) -> TorchChoice:
    folder = runtimes_folder() / name
    installed = folders.read(folder)
    runtime = installed.id if installed else name
    try:
        why_not = unusable(name, catalogue())
    except EngineError as err:
        why_not = err.as_message
    if why_not is not None or installed is None:
        logger.warning("the NVIDIA runtime %s is not used: %s", name, why_not)
        why = message("torch-choice.not-used", runtime=runtime, why=why_not)
        return TorchChoice(why=why, runtime=runtime, is_fallback=True)
    return TorchChoice(
        why=message("torch-choice.chosen", runtime=runtime),
        folder=folder,
        runtime=runtime,
        torch=installed.torch,
    )


class _TorchFinder(MetaPathFinder):
    """Finds torch in the folder of the runtime and nowhere else, and records how its load ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Spec of torch; None for other modules. Removes itself."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, [str(self._folder)])
        if spec is None or spec.loader is None:
            raise _broken(self._folder, message("reason.runtime.no-torch"))
        spec.loader = _MarkedLoader(spec.loader, self._folder)
        return spec


class _MarkedLoader(Loader):
    """The loader of torch; a mark is on the disk while it runs."""

    def __init__(self, inner: Any, folder: Path) -> None:
        self._inner = inner
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Calls the original loader."""
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Calls the original loader; an exception excludes this runtime from the next start.

        Raises:
            RuntimeBlocked: Windows refuses a library. The runtime is not broken: the next start
                does without it only as long as the same policy holds.
            RuntimeBroken: It does not load; after a lack of memory the next start tries again.
        """
        folders.begin_load(self._folder)
        try:
            self._inner.exec_module(module)
        except (Exception, SystemExit) as err:
            why = f"{type(err).__name__}: {err}"
            if is_code_refusal(err):
                raise blocked("at-start", self._folder, why) from err
            if is_memory_refusal(err):  # it may pass: nothing is marked
                text = message("reason.runtime.does-not-load", why=why)
                raise RuntimeBroken("at-start", runtime=self._folder.name, why=text) from err
            raise _broken(self._folder, message("reason.runtime.does-not-load", why=why)) from err
        finally:
            folders.end_load(self._folder)
        folders.note_loaded(self._folder)
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner


def blocked(case: str, folder: Path, why: str) -> RuntimeBlocked:
    """Mark a runtime as refused by Windows; the error that reports it.

    Args:
        case: Case of the error.
        folder: Folder of the runtime.
        why: Words of the system.
    """
    found = folders.note_blocked(folder, why)
    return RuntimeBlocked(case, runtime=folder.name, why=found, advice=found.hint)


def _broken(folder: Path, why: Message) -> RuntimeBroken:
    """Exclude a runtime from the next start; the error that reports it."""
    folders.note_broken(folder, why)
    return RuntimeBroken("at-start", runtime=folder.name, why=why)
