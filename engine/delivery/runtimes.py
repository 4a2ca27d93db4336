"""NVIDIA runtimes on this computer: their state, downloading, installing, choosing, removing.

Only wheels are unpacked whose SHA-256 is in the catalogue of this build, and a folder gets its name
only when everything is in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from engine.core import atomic_file
from engine.core.errors import (
    HashMismatch,
    RuntimeBroken,
    RuntimeBusy,
    UnsuitableWheel,
    WeightsMissing,
)
from engine.core.paths import runtimes_folder
from engine.delivery.wheels import bytecode_bytes, long_path, needed_bytes, unpack
from engine.files.artifacts import ArtifactFolder, ArtifactKind, ensure, mismatch
from engine.files.hashing import OnProgress, hashed, sha256_of
from engine.files.transfer import Listener, RemoteFile
from engine.protocol.delivery import RuntimeState
from engine.runtimes import installation as folders
from engine.runtimes import start
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, Wheel, catalogue, own_tags
from engine.runtimes.installation import Installed

_KIND = ArtifactKind(
    reserve_bytes=256 * 10**6,
    busy=lambda name: RuntimeBusy("at-work", runtime=name),
    disk_full="runtime",
    unwritable="runtimes",
)
_DOWNLOADS = "downloads"
_GROWTH = 3  # size of an unpacked wheel to a packed one, where the catalogue does not have it
_TEMPORARY, _GONE = ".unpack-", ".gone-"
_HELD = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.ENOTEMPTY)


class RuntimeStore:
    """The folder of runtimes; every method works in the calling thread.

    A runtime is named by its id, and an unknown one raises UnknownRuntime.
    """

    def __init__(self, known: RuntimeCatalogue | None = None) -> None:
        self._known = known
        self.files = ArtifactFolder(runtimes_folder(), _KIND)
        self.folder = self.files.folder
        self.wheels = ArtifactFolder(self.folder / _DOWNLOADS, _KIND)  # until they are unpacked

    @property
    def catalogue(self) -> RuntimeCatalogue:
        """The runtimes that this build knows; read at the first access."""
        if self._known is None:
            self._known = catalogue()
        return self._known

    # --- state

    def states(self) -> tuple[RuntimeState, ...]:
        """Every runtime of this build, then installed ones that it does not know."""
        known = [self.state(runtime.id) for runtime in self.catalogue]
        names = {runtime.folder_name for runtime in self.catalogue}
        others = [path for path in self._installed() if path.name not in names]
        return (*known, *(self._other(path) for path in others))

    def state(self, runtime_id: str) -> RuntimeState:
        """State of one runtime of this build."""
        runtime = self.catalogue.runtime(runtime_id)
        folder = self.folder / runtime.folder_name
        state = RuntimeState(
            id=runtime.id,
            title=runtime.title,
            torch=runtime.torch,
            cuda=runtime.cuda,
            driver=runtime.driver,
            bytes=runtime.bytes,
            disk_bytes=_disk_bytes(runtime),
            suits_program=runtime.suits_this_python,
            is_chosen=folders.chosen() == folder.name,
            is_used=start.current().folder == folder,
        )
        if self.files.is_held(runtime.id):
            return dataclasses.replace(state, state="busy")
        installed = folders.read(folder)
        if installed is not None:
            why = start.unusable(folder.name, self.catalogue)
            is_refused = folders.was_blocked(folder) and not state.is_chosen  # then: tried again
            if why is not None:
                is_refused = folders.is_block(why)
            is_here = why is None and not is_refused
            return dataclasses.replace(
                state,
                state="here" if is_here else "blocked" if is_refused else "broken",
                why=why,
                path=folder,
                done_bytes=installed.bytes,
            )
        done = self.wheel_bytes(runtime)
        if done:
            return dataclasses.replace(state, state="partial", done_bytes=done)
        return state

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

    def _installed(self) -> list[Path]:
        """Folders that look installed, whole or not."""
        found = self.folder.glob(f"*/{folders.MANIFEST}")
        return sorted(path.parent for path in found if not path.parent.name.startswith("."))

    def is_whole(self, runtime_id: str) -> bool:
        """True where a runtime is installed and every file has its length."""
        folder = self.folder_of(runtime_id)
        installed = folders.read(folder)
        return installed is not None and not folders.first_wrong(folder, installed, every=True)

    def folder_of(self, runtime_id: str) -> Path:
        """Folder that a runtime of this build is installed in, whether it is or not."""
        return self.folder / self.catalogue.runtime(runtime_id).folder_name

    def wheel_bytes(self, runtime: Runtime) -> int:
        """Bytes of a runtime's wheels that are downloaded."""
        return sum(map(self.wheels.done_bytes, self._remote(runtime)))

    def _remote(self, runtime: Runtime) -> list[RemoteFile]:
        """The wheels where they are published."""
        return [
            RemoteFile(
                id=wheel.filename,
                name=wheel.filename,
                urls=(wheel.address(self.catalogue.index),),
                sha256=wheel.sha256,
                bytes=wheel.bytes,
            )
            for wheel in runtime.wheels
        ]

    # --- wheels

    def download(self, runtime_id: str, listener: Listener) -> Sequence[Path]:
        """Download the wheels of a runtime; after an error the next call continues there.

        Returns:
            Its wheels, for `install`.
        """
        runtime = _suited(self.catalogue.runtime(runtime_id))
        with self.files.held(runtime.id):
            self.files.need(runtime.bytes - self.wheel_bytes(runtime) + _disk_bytes(runtime))
            return [ensure(one, self.wheels, listener) for one in self._remote(runtime)]

    def recognise(
        self, paths: Sequence[Path], listener: Listener
    ) -> tuple[Runtime, Sequence[Path]]:
        """Identify the runtime that wheels belong to by reading them in full, where they are.

        Args:
            paths: Wheels, or folders with wheels in them.
            listener: Receives bytes of one after the other.
        """
        files = _wheels_in(paths)
        known = [wheel for runtime in self.catalogue for wheel in runtime.wheels]
        sizes = {wheel.bytes for wheel in known}
        found: dict[str, Path] = {}
        for path in files:
            if path.stat().st_size in sizes:  # others are not read: they have gigabytes
                digest = sha256_of(path, listener.on_progress, listener.control)
                found[digest] = path
        for runtime in self.catalogue:
            if all(digest in found for digest in runtime.hashes):
                return _suited(runtime), [found[digest] for digest in runtime.hashes]
        name = tuple(path.name for path in paths)
        wanted = tuple(wheel.filename for wheel in known)
        raise HashMismatch("no-known-wheel", name=name, wheels=wanted)

    # --- installation

    def install(self, runtime: Runtime, wheels: Sequence[Path], listener: Listener) -> None:
        """Unpack the wheels of a runtime; the folder appears in one step, complete.

        Each is opened once: what is unpacked is what was hashed. After an error, a cancel included,
        nothing of it stays.
        """
        target = self.folder / runtime.folder_name
        with self.files.held(runtime.id):
            self._sweep(runtime)
            if not self.is_whole(runtime.id):
                self._unpack(runtime, wheels, target, listener)
            folders.forgive(target)
            self._delete_wheels(runtime)  # gigabytes that can be downloaded again

    def _unpack(
        self, runtime: Runtime, wheels: Sequence[Path], target: Path, listener: Listener
    ) -> None:
        temporary = self.folder / f"{_TEMPORARY}{runtime.id}-{os.getpid()}"
        try:
            with self.files.writing(), contextlib.ExitStack() as stack:
                opened = [
                    stack.enter_context(_opened(path, wheel, listener))
                    for path, wheel in zip(wheels, runtime.wheels, strict=True)
                ]
                total, files = needed_bytes(opened), dict[str, int]()
                self.files.need(total + bytecode_bytes(opened))
                for file in opened:
                    on_progress = _shifted(sum(files.values()), total, listener.on_progress)
                    files |= unpack(file, temporary, on_progress, listener.control)
                about = Installed(
                    id=runtime.id,
                    torch=runtime.torch,
                    cuda=runtime.cuda,
                    wheels=runtime.hashes,
                    files=files,
                )
                folders.write(temporary, about)
            self._drop(target, runtime.id)
            with self.files.writing():
                atomic_file.rename(temporary, target)
        finally:
            shutil.rmtree(long_path(temporary), ignore_errors=True)

    def _drop(self, folder: Path, name: str) -> None:
        """Delete a folder; it is renamed first, so that half of it is never taken for a runtime."""
        if not folder.is_dir():
            return
        gone = self.folder / f"{_GONE}{folder.name}-{os.getpid()}"
        try:
            atomic_file.rename(folder, gone)
        except OSError as err:
            if err.errno in _HELD:
                raise RuntimeBusy("in-use", runtime=name) from err
            raise self.files.write_error(err) from err
        shutil.rmtree(long_path(gone), ignore_errors=True)

    def _sweep(self, runtime: Runtime) -> None:
        """Delete what killed installations left over; the caller holds the runtime."""
        for path in (
            *self.folder.glob(f"{_TEMPORARY}{runtime.id}-*"),
            *self.folder.glob(f"{_GONE}{runtime.id}-*"),
        ):
            shutil.rmtree(long_path(path), ignore_errors=True)

    def _delete_wheels(self, runtime: Runtime) -> None:
        for wheel in self._remote(runtime):
            self.wheels.delete(wheel.name)

    # --- choice and removal

    def use(self, runtime_id: str) -> Path:
        """Choose the runtime that the next start of the program uses; "" for its own torch.

        Returns:
            Its folder; that of all runtimes for "".
        """
        if not runtime_id:
            folders.choose("")
            return self.folder
        self.check(runtime_id)
        folders.choose(self.folder_of(runtime_id).name)
        return self.folder_of(runtime_id)

    def check(self, runtime_id: str) -> None:
        """Raise RuntimeBroken, with the reason, where the next start cannot use a runtime."""
        runtime = self.catalogue.runtime(runtime_id)
        why_not = start.unusable(runtime.folder_name, self.catalogue)
        if why_not is not None:
            raise RuntimeBroken("unusable", runtime=runtime.id, why=why_not)

    def remove(self, name: str) -> None:
        """Delete a runtime and its downloads, by its id or by its folder's name.

        One that this or another program uses stays: RuntimeBusy.
        """
        runtime = next((r for r in self.catalogue if r.id == name), None)
        folder = self.folder / (runtime.folder_name if runtime else name)
        if runtime is None and folder not in self._installed():
            self.catalogue.runtime(name)  # raises
        wheels = self._remote(runtime) if runtime else []
        if not folder.is_dir() and not any(self.wheels.files_of(one.name) for one in wheels):
            raise WeightsMissing("nothing-to-remove", name=name)
        if start.current().folder == folder:
            raise RuntimeBusy("in-use", runtime=name)
        with self.files.held(runtime.id if runtime else name):
            if runtime is not None:
                self._sweep(runtime)
            if folders.chosen() == folder.name:
                folders.choose("")
            self._drop(folder, name)
            if runtime is not None:
                self._delete_wheels(runtime)

    def forgive(self, runtime_id: str) -> None:
        """Forget what is known against an installed runtime."""
        folders.forgive(self.folder_of(runtime_id))


def _disk_bytes(runtime: Runtime) -> int:
    """Approximate size of a runtime when it is installed."""
    return runtime.unpacked_bytes or _GROWTH * runtime.bytes


def _suited(runtime: Runtime) -> Runtime:
    """A runtime that this program can load."""
    for wheel in runtime.wheels:
        if not wheel.suits_this_python:
            raise UnsuitableWheel("python", name=wheel.filename, wanted=own_tags())
    return runtime


def _wheels_in(paths: Sequence[Path]) -> list[Path]:
    """Files as they are named, and of folders the wheels in them."""
    found: list[Path] = []
    for path in paths:
        wheels = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        if not wheels:
            raise WeightsMissing("no-wheel", folder=path)
        if not wheels[0].is_file():
            raise WeightsMissing("no-wheel-file", path=path)
        found += wheels
    return found


@contextlib.contextmanager
def _opened(path: Path, wheel: Wheel, listener: Listener) -> Iterator[BinaryIO]:
    with hashed(path, control=listener.control) as (file, digest):
        if digest != wheel.sha256:
            raise mismatch(path, wheel.filename, wheel.sha256)
        yield file


def _shifted(done: int, total: int, on_progress: OnProgress) -> OnProgress:
    """Progress of one wheel as a part of all."""
    return lambda some, _: on_progress(done + some, total)
