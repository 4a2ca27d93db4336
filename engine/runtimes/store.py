"""NVIDIA runtimes on this machine: downloading, installing, choosing and removing them.

Only wheels are unpacked whose SHA-256 is in the catalogue of this build or was accepted by the
user, and a folder gets its name only when everything is in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

from engine.core import atomic_file
from engine.core.errors import (
    HashMismatch,
    RuntimeBroken,
    RuntimeBusy,
    UnsuitableWheel,
    WeightsMissing,
)
from engine.files.artifacts import ensure, mismatch
from engine.files.hashing import OnProgress, hashed, sha256_of
from engine.files.transfer import Listener
from engine.runtimes import installation as folders
from engine.runtimes import official_wheels, start
from engine.runtimes.catalogue import Runtime, Wheel, own_tags
from engine.runtimes.installation import Installed
from engine.runtimes.installed import InstalledRuntimes, pinned_wheels, remote_wheel, wheels_in
from engine.runtimes.unpack_wheel import long_path, needed_bytes, unpack

_TEMPORARY, _GONE = ".unpack-", ".gone-"
_HELD = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.ENOTEMPTY)


class RuntimeStore(InstalledRuntimes):
    """Changes the folder of runtimes; every method works in the calling thread."""

    def find(self, runtime_id: str, listener: Listener) -> Runtime:
        """A runtime with all of its wheels pinned: by this build, else by the index.

        Raises:
            UnknownRuntime: There is none.
            UnsuitableWheel: It is made for another system, or the index does not have it.
            DownloadFailed, Cancelled: As asking the index.
        """
        runtime = self._suited(self.catalogue.runtime(runtime_id))
        if runtime.is_pinned:
            return runtime
        return official_wheels.from_index(runtime, self.catalogue.index, listener.control)

    def is_accepted(self, runtime: Runtime) -> bool:
        """True where this build or the user has pinned exactly these wheels."""
        return self.catalogue.runtime(runtime.id).hashes == runtime.hashes

    def accept(self, runtime: Runtime) -> None:
        """Take the wheels of a runtime as if this build had pinned them.

        Raises:
            OutputUnwritable: Our folder cannot be written.
        """
        folders.accept(*runtime.wheels)

    def download(self, runtime_id: str, listener: Listener) -> Sequence[Path]:
        """Download the pinned wheels of a runtime; after an error the next call continues there.

        Returns:
            Its wheels, for `install`.

        Raises:
            UnknownRuntime: There is none.
            UnsuitableWheel: It is made for another Python or system.
            RuntimeBusy: Another thread or process is working on it.
            HashMismatch: What came is another file; an accepted sum of it is forgotten.
            DownloadFailed, DiskFull, OutputUnwritable, Cancelled: As a download.
            ValueError: It is not pinned; a mistake in the caller.
        """
        runtime = self._suited(self.catalogue.runtime(runtime_id))
        if not runtime.is_pinned:
            raise ValueError(f"nothing is known that {runtime.id} could be compared with")
        with self.files.held(runtime.id):
            missing = runtime.bytes - self.wheel_bytes(runtime)
            self.files.need(missing + self.disk_bytes(runtime))
            wheels = [remote_wheel(wheel, self.catalogue) for wheel in runtime.wheels]
            try:
                return [ensure(wheel, self.wheels, listener) for wheel in wheels]
            except HashMismatch:
                folders.accept(instead_of=runtime.wheels)
                raise

    def recognise(
        self, paths: Sequence[Path], listener: Listener
    ) -> tuple[Runtime, Sequence[Path]]:
        """Identify the runtime that wheels belong to by reading them in full, where they are.

        What this build pins is known by its SHA-256, everything else by its name.

        Args:
            paths: Wheels, or folders with wheels in them.
            listener: Receives bytes of one after the other.

        Raises:
            WeightsMissing: There is no wheel.
            HashMismatch: They are not the wheels of a runtime of this build.
            UnsuitableWheel: A name says that it is another wheel.
            WeightsUnreadable, Cancelled: As reading them.
        """
        files = wheels_in(paths)
        pinned = [runtime for runtime in self.published if runtime.is_pinned]
        sizes = {wheel.bytes for runtime in pinned for wheel in runtime.wheels}
        found: dict[str, Path] = {}
        for path in files:
            if path.stat().st_size in sizes:  # others are not read: they have gigabytes
                digest = sha256_of(path, listener.on_progress, listener.control)
                found[digest] = path
        for runtime in pinned:
            if all(digest in found for digest in runtime.hashes):
                return self._suited(runtime), [found[digest] for digest in runtime.hashes]
        if len(pinned) < len(self.published.runtimes):
            return self._named({unquote(path.name): path for path in files}, listener)
        name = tuple(path.name for path in paths)
        wanted = tuple(wheel.filename for runtime in pinned for wheel in runtime.wheels)
        raise HashMismatch("no-known-wheel", name=name, wheels=wanted)

    def install(self, runtime: Runtime, wheels: Sequence[Path], listener: Listener) -> None:
        """Unpack the wheels of a runtime; the folder appears in one step, complete.

        Each is opened once: what is unpacked is what was hashed.

        Raises:
            HashMismatch: A file is none of its wheels.
            WeightsUnreadable: A file cannot be read, or was changed meanwhile.
            RuntimeBusy: Another thread or process is working on it, or a broken one is in use.
            UnsafeArchive: A wheel would do harm.
            DiskFull, OutputUnwritable, Cancelled: Nothing of it stays.
        """
        target = self.folder / runtime.folder_name
        with self.files.held(runtime.id):
            self._sweep(runtime)
            if not self.is_whole(runtime.id):
                self._unpack(runtime, wheels, target, listener)
            folders.forgive(target)
            self._delete_wheels(runtime)  # gigabytes that can be downloaded again

    def use(self, runtime_id: str) -> Path:
        """Choose the runtime that the next start of the program uses; "" for its own torch.

        Returns:
            Its folder; that of all runtimes for "".

        Raises:
            UnknownRuntime: There is none.
            RuntimeBroken: It cannot be used.
            OutputUnwritable: Our folder cannot be written.
        """
        if not runtime_id:
            folders.choose("")
            return self.folder
        self.check(runtime_id)
        folders.choose(self.folder_of(runtime_id).name)
        return self.folder_of(runtime_id)

    def check(self, runtime_id: str) -> None:
        """Check whether the next start can use an installed runtime.

        Raises:
            UnknownRuntime: There is none.
            RuntimeBroken: It cannot, and why.
        """
        runtime = self.catalogue.runtime(runtime_id)
        why_not = start.unusable(runtime.folder_name, self.catalogue)
        if why_not is not None:
            raise RuntimeBroken("unusable", runtime=runtime.id, why=why_not)

    def remove(self, name: str) -> None:
        """Delete a runtime and its downloads, by its id or by its folder's name.

        Raises:
            UnknownRuntime, WeightsMissing: No part of it is here.
            RuntimeBusy: This or another program uses it.
            OutputUnwritable: Our folder cannot be written.
        """
        runtime = next((r for r in self.catalogue if r.id == name), None)
        known = {path.name for path in self.installed()}
        folder = self.folder / (runtime.folder_name if runtime else name)
        if runtime is None and name not in known:
            self.catalogue.runtime(name)  # raises
        has_wheels = runtime is not None and any(map(self._files_of, pinned_wheels(runtime)))
        if not folder.is_dir() and not has_wheels:
            raise WeightsMissing("nothing-to-remove", name=name)
        if start.current().folder == folder:
            raise _in_use(name)
        with self.files.held(runtime.id if runtime else name):
            if runtime is not None:
                self._sweep(runtime)
            if folders.chosen() == folder.name:
                folders.choose("")
            self._drop(folder, name)
            if runtime is not None:
                self._delete_wheels(runtime)
                folders.accept(instead_of=runtime.wheels)

    def forgive(self, runtime_id: str) -> None:
        """Forget what is known against an installed runtime."""
        folders.forgive(self.folder_of(runtime_id))

    # --- steps

    def _named(
        self, files: Mapping[str, Path], listener: Listener
    ) -> tuple[Runtime, Sequence[Path]]:
        """The runtime that this build does not pin and whose wheels these are by their names."""
        known = [runtime for runtime in self.published if not runtime.is_pinned]
        for runtime in known:
            if all(wheel.filename in files for wheel in runtime.wheels):
                paths = [files[wheel.filename] for wheel in self._suited(runtime).wheels]
                wheels = (
                    dataclasses.replace(
                        wheel,
                        bytes=path.stat().st_size,
                        sha256=sha256_of(path, listener.on_progress, listener.control),
                        place=f"{runtime.id}/{quote(wheel.filename)}",
                    )
                    for wheel, path in zip(runtime.wheels, paths, strict=True)
                )
                return dataclasses.replace(runtime, wheels=tuple(wheels)), paths
        for name in files:
            official_wheels.check_name(name, known)
        raise WeightsMissing("no-wheel", folder=next(iter(files.values())).parent)

    def _files_of(self, wheel: Wheel) -> set[Path]:
        return self.wheels.files_of(wheel.filename)

    def _delete_wheels(self, runtime: Runtime) -> None:
        for wheel in pinned_wheels(runtime):
            self.wheels.delete(wheel.filename)

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
                self.files.need(total)
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
                raise _in_use(name) from err
            raise self.files.write_error(err) from err
        shutil.rmtree(long_path(gone), ignore_errors=True)

    def _sweep(self, runtime: Runtime) -> None:
        """Delete what killed installations left over; the caller holds the runtime."""
        for path in (
            *self.folder.glob(f"{_TEMPORARY}{runtime.id}-*"),
            *self.folder.glob(f"{_GONE}{runtime.id}-*"),
        ):
            shutil.rmtree(long_path(path), ignore_errors=True)

    def _suited(self, runtime: Runtime) -> Runtime:
        """A runtime that this program can load."""
        for wheel in runtime.wheels:
            if not wheel.suits_this_python:
                raise UnsuitableWheel("python", name=wheel.filename, wanted=own_tags())
        return runtime


@contextlib.contextmanager
def _opened(path: Path, wheel: Wheel, listener: Listener) -> Iterator[BinaryIO]:
    with hashed(path, control=listener.control) as (file, digest):
        if digest != wheel.sha256:
            raise mismatch(path, wheel.filename, wheel.sha256)
        yield file


def _shifted(done: int, total: int, on_progress: OnProgress) -> OnProgress:
    """Progress of one wheel as a part of all."""
    return lambda some, _: on_progress(done + some, total)


def _in_use(name: str) -> RuntimeBusy:
    return RuntimeBusy("in-use", runtime=name)
