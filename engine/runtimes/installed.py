"""NVIDIA runtimes on this machine, and whether they can be used; changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import RuntimeBusy, WeightsMissing
from engine.core.paths import runtimes_folder
from engine.files.artifacts import ArtifactFolder, ArtifactKind
from engine.files.transfer import RemoteFile
from engine.protocol.runtime_state import RuntimeState
from engine.runtimes import installation as folders
from engine.runtimes import start
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, Wheel, catalogue

KIND = ArtifactKind(
    reserve_bytes=256 * 10**6,
    busy=lambda name: RuntimeBusy("at-work", runtime=name),
    disk_full="runtime",
    unwritable="runtimes",
)


def pinned_wheels(runtime: Runtime) -> tuple[Wheel, ...]:
    """The wheels of a runtime; none while one of them is not pinned."""
    return runtime.wheels if runtime.is_pinned else ()


def remote_wheel(wheel: Wheel, known: RuntimeCatalogue) -> RemoteFile:
    """A wheel where it is published."""
    return RemoteFile(
        id=wheel.filename,
        name=wheel.filename,
        urls=(wheel.address(known.index),),
        sha256=wheel.sha256,
        bytes=wheel.bytes,
    )


def wheels_in(paths: Sequence[Path]) -> list[Path]:
    """Files as they are named, and of folders the wheels in them.

    Raises:
        WeightsMissing: There is no such file, or no wheel in a folder.
    """
    found: list[Path] = []
    for path in paths:
        wheels = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        if not wheels:
            raise WeightsMissing("no-wheel", folder=path)
        if not wheels[0].is_file():
            raise WeightsMissing("no-wheel-file", path=path)
        found += wheels
    return found


_DOWNLOADS = "downloads"
_GROWTH = 3  # size of an unpacked wheel to a packed one, where the catalogue does not have it


class InstalledRuntimes:
    """The folder of runtimes.

    Attributes:
        files: The folder itself: locks, space, errors of the disk.
        wheels: Its folder of downloaded wheels.
    """

    def __init__(self, known: RuntimeCatalogue | None = None) -> None:
        self._published = known
        self.files = ArtifactFolder(runtimes_folder(), KIND)
        self.folder = self.files.folder
        self.wheels = ArtifactFolder(self.folder / _DOWNLOADS, KIND)

    @property
    def published(self) -> RuntimeCatalogue:
        """The runtimes that this build knows; read at the first access."""
        if self._published is None:
            self._published = catalogue()
        return self._published

    @property
    def catalogue(self) -> RuntimeCatalogue:
        """The runtime with the wheels that the user has accepted."""
        return self.published.with_accepted(folders.accepted())

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
            suits_program=runtime.suits_this_python,
            is_chosen=folders.chosen() == folder.name,
            is_used=start.current().folder == folder,
        )
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
        done = self.wheel_bytes(runtime)
        if done:
            return dataclasses.replace(state, state="partial", done_bytes=done)
        return state

    def wheel_bytes(self, runtime: Runtime) -> int:
        """Bytes of a runtime's wheels that are downloaded."""
        wheels = (remote_wheel(wheel, self.published) for wheel in pinned_wheels(runtime))
        return sum(map(self.wheels.done_bytes, wheels))

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
