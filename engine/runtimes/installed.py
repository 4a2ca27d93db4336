"""NVIDIA runtimes on this machine, and whether they can be used; changes nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine.core.paths import runtimes_folder
from engine.protocol.runtime_state import RuntimeState
from engine.runtimes import installation as folders
from engine.runtimes import start
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, catalogue
from engine.runtimes.wheels import RuntimeFolder

_DOWNLOADS = "downloads"
_GROWTH = 3  # size of an unpacked wheel to a packed one, where the catalogue does not have it


class InstalledRuntimes:
    """The folder of runtimes.

    Attributes:
        files: The folder itself: locks, space, errors of the disk.
        wheels: Its folder of downloaded wheels.
    """

    def __init__(self, known: RuntimeCatalogue | None = None) -> None:
        self._catalogue = known
        self.files = RuntimeFolder(runtimes_folder())
        self.folder = self.files.folder
        self.wheels = RuntimeFolder(self.folder / _DOWNLOADS)

    @property
    def catalogue(self) -> RuntimeCatalogue:
        """The runtimes that this build knows; read at the first access."""
        if self._catalogue is None:
            self._catalogue = catalogue()
        return self._catalogue

    def states(self) -> tuple[RuntimeState, ...]:
        """Every runtime of this build, then installed ones that it does not know."""
        known = [self.state(runtime.id) for runtime in self.catalogue]
        names = {runtime.folder_name for runtime in self.catalogue if runtime.is_pinned}
        others = [path for path in self.installed() if path.name not in names]
        return (*known, *(self._other(path) for path in others))

    def state(self, runtime_id: str) -> RuntimeState:
        """One runtime of this build by its id.

        Raises:
            UnknownRuntime: There is none.
        """
        runtime = self.catalogue.runtime(runtime_id)
        folder = self.folder / runtime.folder_name
        state = RuntimeState(
            id=runtime.id,
            title=runtime.title,
            torch=runtime.torch,
            cuda=runtime.cuda,
            driver=runtime.driver,
            bytes=runtime.bytes,
            about_bytes=runtime.about_bytes,
            disk_bytes=self.disk_bytes(runtime),
            can_download=self.catalogue.is_here(runtime),
            suits_program=runtime.suits_this_python,
            is_chosen=folders.chosen() == folder.name,
            is_used=start.current().folder == folder,
        )
        if not runtime.is_pinned:
            return dataclasses.replace(state, state="not-in-build")
        if self.files.is_held(runtime.id):
            return dataclasses.replace(state, state="busy")
        installed = folders.read(folder)
        if installed is not None:
            why = start.unusable(folder.name, self.catalogue)
            return dataclasses.replace(
                state,
                state="here" if why is None else "broken",
                why=why,
                path=folder,
                done_bytes=installed.bytes,
            )
        done = self.wheels.wheel_bytes(runtime)
        if done:
            return dataclasses.replace(state, state="partial", done_bytes=done)
        return state

    def is_whole(self, runtime_id: str) -> bool:
        """True where a runtime is installed and every file has its length."""
        folder = self.folder_of(runtime_id)
        installed = folders.read(folder)
        return installed is not None and not folders.first_wrong(folder, installed, every=True)

    def folder_of(self, runtime_id: str) -> Path:
        """Folder that a runtime of this build is installed in, whether it is or not.

        Raises:
            UnknownRuntime: There is none.
        """
        return self.folder / self.catalogue.runtime(runtime_id).folder_name

    def disk_bytes(self, runtime: Runtime) -> int:
        """Approximate size of a runtime when it is installed."""
        return runtime.unpacked_bytes or _GROWTH * (runtime.bytes or runtime.about_bytes)

    def installed(self) -> list[Path]:
        """Folders that look installed, whole or not."""
        found = self.folder.glob(f"*/{folders.MANIFEST}")
        return sorted(path.parent for path in found if not path.parent.name.startswith("."))

    def _other(self, folder: Path) -> RuntimeState:
        """A runtime that another version of the program installed."""
        installed = folders.read(folder)
        return RuntimeState(
            id=folder.name,
            title=f"NVIDIA runtime {folder.name}",
            torch=installed.torch if installed else "",
            cuda=installed.cuda if installed else "",
            state="broken",
            why=start.unusable(folder.name, self.catalogue),
            path=folder,
            done_bytes=installed.bytes if installed else 0,
            is_chosen=folders.chosen() == folder.name,
            is_used=start.current().folder == folder,
        )
