"""NVIDIA runtimes on this machine: which are here, and how one comes, is used and goes.

Nothing is unpacked whose SHA-256 does not stand in the catalogue of this build, and a folder gets
its name only when everything is in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import (
    HashMismatch,
    RuntimeBroken,
    RuntimeBusy,
    RuntimeNotInBuild,
    WeightsBusy,
    WeightsMissing,
)
from engine.downloads.hashing import Tell, sha256_of
from engine.downloads.transfer import Listener
from engine.model_files.download import download
from engine.runtimes import installation as folders
from engine.runtimes import start
from engine.runtimes.catalogue import Runtime
from engine.runtimes.installation import Installed
from engine.runtimes.installed import RuntimeShelf
from engine.runtimes.unpack_wheel import long_path, needed_bytes, unpack
from engine.runtimes.wheels import (
    need,
    unwritable,
    wheels_in,
    writing,
)

_TEMPORARY, _GONE = ".unpack-", ".gone-"
_HELD = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.ENOTEMPTY)


class RuntimeStore(RuntimeShelf):
    """Each of its verbs does one thing in the calling thread."""

    def download(self, runtime_id: str, listener: Listener) -> Sequence[Path]:
        """Fetch what a runtime is made of; what came stays, and the next call goes on there.

        Returns:
            Its wheels, for `install`.

        Raises:
            UnknownRuntime, RuntimeNotInBuild: There is no such runtime that could be verified.
            RuntimeBusy: Somebody is at it.
            DownloadFailed, HashMismatch, DiskFull, OutputUnwritable, Cancelled: As a download.
        """
        runtime = self._wanted(runtime_id)
        if not self.catalogue.index:
            raise _not_in_build(runtime)
        with self._held(runtime):
            standing = self.wheels.of(runtime)
            missing = runtime.bytes - self.wheels.loaded_bytes(runtime)
            self._need(missing + self.disk_bytes(runtime))
            for wheel in standing:
                download(self.wheels.catalogue.file(wheel.id), self.wheels, listener)
            return [self.wheels.path_of(wheel.id) for wheel in standing]

    def recognise(
        self, paths: Sequence[Path], listener: Listener
    ) -> tuple[Runtime, Sequence[Path]]:
        """Which runtime these wheels are; read in full, where they lie.

        Args:
            paths: Wheels, or folders with wheels in them.
            listener: Hears bytes of one after the other.

        Raises:
            WeightsMissing: There is no wheel.
            HashMismatch: They are not the wheels of a runtime of this build.
            RuntimeNotInBuild: This build knows none.
            WeightsUnreadable, Cancelled: As reading them.
        """
        pinned = [runtime for runtime in self.catalogue if runtime.is_pinned]
        if not pinned:
            raise _not_in_build(self.catalogue.runtimes[0])
        sizes = {wheel.bytes for runtime in pinned for wheel in runtime.wheels}
        found: dict[str, Path] = {}
        for path in wheels_in(paths):
            if path.stat().st_size in sizes:  # no other can be right: gigabytes are not read
                digest = sha256_of(path, listener.tell, listener.control)
                found[digest] = path
        for runtime in pinned:
            if all(digest in found for digest in runtime.hashes):
                return self._wanted(runtime.id), [found[digest] for digest in runtime.hashes]
        name = ", ".join(path.name for path in paths)
        wanted = ", ".join(wheel.filename for runtime in pinned for wheel in runtime.wheels)
        raise HashMismatch(
            f"{name} is none of the wheels that this build of Upreel knows.",
            hint=f"It takes {wanted}, as officially published.",
            path=name,
        )

    def install(self, runtime: Runtime, wheels: Sequence[Path], listener: Listener) -> None:
        """Unpack wheels that were verified; the folder appears in one step, whole.

        Raises:
            RuntimeBusy: Somebody is at it, or a broken one of that name is in use.
            UnsafeArchive: A wheel would do harm.
            DiskFull, OutputUnwritable, Cancelled: Nothing of it stays.
        """
        target = self.folder / runtime.folder_name
        with self._held(runtime):
            self._sweep(runtime)
            if not self.is_whole(runtime.id):
                self._unpack(runtime, wheels, target, listener)
            folders.forgive(target)
            for wheel in self.wheels.of(runtime):
                with contextlib.suppress(WeightsMissing):
                    self.wheels.remove(wheel.id)  # it can be had again; the space cannot

    def use(self, runtime_id: str) -> Path:
        """Let the next start of the program take an installed runtime; "" for its own torch.

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
        """Look whether the next start could take an installed runtime.

        Raises:
            UnknownRuntime: There is none.
            RuntimeBroken: It could not, and why.
        """
        runtime = self.catalogue.runtime(runtime_id)
        why_not = start.unusable(runtime.folder_name, self.catalogue)
        if why_not:
            raise RuntimeBroken(
                f"The NVIDIA runtime {runtime.id} cannot be used: {why_not}.",
                hint=f"`python -m engine runtime install {runtime.id}` repairs it.",
                runtime=runtime.id,
                why=why_not,
            )

    def remove(self, name: str) -> None:
        """Delete a runtime with all that was loaded of it, by its id or by its folder's name.

        Raises:
            UnknownRuntime, WeightsMissing: There is nothing of it.
            RuntimeBusy: This or another program uses it.
            OutputUnwritable: Our folder cannot be written.
        """
        runtime = next((r for r in self.catalogue if r.id == name), None)
        known = {path.name for path in self.installed()}
        folder = self.folder / (runtime.folder_name if runtime else name)
        if runtime is None and name not in known:
            self.catalogue.runtime(name)  # says that there is none
        begun = self.wheels.of(runtime) if runtime is not None else ()
        if not folder.is_dir() and not any(wheel.path for wheel in begun):
            raise WeightsMissing(f"There is nothing of {name} to be removed.", file=name)
        if start.current().folder == folder:
            raise _in_use(name)
        with self._held(runtime or name):
            if runtime is not None:
                self._sweep(runtime)
            if folders.chosen() == folder.name:
                folders.choose("")
            self._drop(folder, name)
            for wheel in begun:
                with contextlib.suppress(WeightsMissing):
                    self.wheels.remove(wheel.id)

    def forgive(self, runtime_id: str) -> None:
        """Forget what is known against an installed runtime."""
        folders.forgive(self.folder_of(runtime_id))

    # --- how

    def _unpack(
        self, runtime: Runtime, wheels: Sequence[Path], target: Path, listener: Listener
    ) -> None:
        total = needed_bytes(wheels)
        self._need(total)
        temporary = self.folder / f"{_TEMPORARY}{runtime.id}-{os.getpid()}"
        try:
            with writing(self.folder):
                files: dict[str, int] = {}
                for wheel in wheels:
                    tell = _behind(sum(files.values()), total, listener.tell)
                    files |= unpack(wheel, temporary, tell, listener.control)
                about = Installed(
                    id=runtime.id,
                    torch=runtime.torch,
                    cuda=runtime.cuda,
                    wheels=runtime.hashes,
                    files=files,
                )
                folders.write(temporary, about)
            self._drop(target, runtime.id)
            with writing(self.folder):
                atomic_file.rename(temporary, target)
        finally:
            shutil.rmtree(long_path(temporary), ignore_errors=True)

    def _drop(self, folder: Path, name: str) -> None:
        """Delete a folder: first its name goes, so that nobody finds half of it."""
        if not folder.is_dir():
            return
        gone = self.folder / f"{_GONE}{folder.name}-{os.getpid()}"
        try:
            atomic_file.rename(folder, gone)
        except OSError as err:
            if err.errno in _HELD:
                raise _in_use(name) from err
            raise unwritable(self.folder, err) from err
        shutil.rmtree(long_path(gone), ignore_errors=True)

    def _sweep(self, runtime: Runtime) -> None:
        """Delete what installations left that were killed; the caller holds the runtime."""
        for path in (
            *self.folder.glob(f"{_TEMPORARY}{runtime.id}-*"),
            *self.folder.glob(f"{_GONE}{runtime.id}-*"),
        ):
            shutil.rmtree(long_path(path), ignore_errors=True)

    def _wanted(self, runtime_id: str) -> Runtime:
        """A runtime that this build can verify and this program load."""
        runtime = self.catalogue.runtime(runtime_id)
        if not runtime.is_pinned:
            raise _not_in_build(runtime)
        if not runtime.suits_this_python:
            raise RuntimeNotInBuild(
                f"The NVIDIA runtime {runtime.id} is made for another Python or system.",
                hint="Where Upreel runs in a Python of your own, install torch there.",
                runtime=runtime.id,
            )
        return runtime

    @contextlib.contextmanager
    def _held(self, runtime: Runtime | str) -> Iterator[None]:
        name = runtime if isinstance(runtime, str) else runtime.id
        with contextlib.ExitStack() as stack:
            try:
                with writing(self.folder):
                    stack.enter_context(self.locks.held(name))
            except WeightsBusy as err:
                raise RuntimeBusy(
                    f"Upreel is at work on the NVIDIA runtime {name} already.",
                    hint="Wait until that has finished, or stop it.",
                    runtime=name,
                ) from err
            yield

    def _need(self, bytes_: int) -> None:
        need(self.folder, self.wheels.free_bytes(), bytes_)


def _behind(done: int, total: int, tell: Tell) -> Tell:
    """Tells of one wheel as a part of all."""
    return lambda some, _: tell(done + some, total)


def _not_in_build(runtime: Runtime) -> RuntimeNotInBuild:
    return RuntimeNotInBuild(
        f"The NVIDIA runtime {runtime.id} is not in this build of Upreel.",
        hint="This build does not know the SHA-256 of its files, and takes no others: "
        "get a released Upreel.",
        runtime=runtime.id,
    )


def _in_use(name: str) -> RuntimeBusy:
    return RuntimeBusy(
        f"The NVIDIA runtime {name} is in use.",
        hint="`python -m engine runtime use bundled`, close every Upreel, then try again.",
        runtime=name,
    )
