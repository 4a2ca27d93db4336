"""The wheels of NVIDIA runtimes on their way: the downloader of model files does the work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from engine.core.errors import (
    DiskFull,
    EngineError,
    OutputUnwritable,
    WeightsMissing,
)
from engine.core.units import bytes_text
from engine.downloads import os_errors
from engine.model_files.catalogue import Catalogue, PublishedFile
from engine.model_files.store import Store
from engine.protocol.model_file_state import PublishedState
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, Wheel

_RESERVE_BYTES = 256 * 10**6  # left free on the disk


class WheelStore(Store):
    """The wheels of all runtimes as published files: our downloader does the rest."""

    def __init__(self, folder: Path, runtimes: RuntimeCatalogue) -> None:
        files = {
            wheel.filename: _published(wheel, runtime, runtimes.licence)
            for runtime in runtimes
            for wheel in runtime.wheels
            if wheel.is_pinned
        }
        template = runtimes.index.rstrip("/").replace("{", "{{").replace("}", "}}") + "/{filename}"
        hosts = {"index": template, "elsewhere": "{filename}"}
        super().__init__(folder, files=Catalogue(hosts=hosts, files=tuple(files.values())))

    def of(self, runtime: Runtime) -> list[PublishedState]:
        """Where the wheels of a runtime stand; [] for one that is not pinned."""
        wheels = runtime.wheels if runtime.is_pinned else ()
        return [self.standing_of(wheel.filename) for wheel in wheels]

    def loaded_bytes(self, runtime: Runtime) -> int:
        """What is there of the wheels of a runtime; damaged ones do not count."""
        return sum(w.done_bytes for w in self.of(runtime) if w.state == "partial" or w.is_here)

    def need(self, bytes_: int) -> None:
        """Refuse what the disk cannot take.

        Raises:
            DiskFull: Less than that, and a little more, is free.
        """
        need(self.folder, self.free_bytes(), bytes_)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """As any store, with our own words."""
        with writing(self.folder):
            yield


def wheels_in(paths: Sequence[Path]) -> list[Path]:
    """Files as they are named, of folders the wheels in them.

    Raises:
        WeightsMissing: There is no such file, or no wheel in a folder.
    """
    found: list[Path] = []
    for path in paths:
        mine = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        if not mine or not mine[0].is_file():
            what = f"no wheel in {path}" if path.is_dir() else f"no file {path}"
            raise WeightsMissing(f"There is {what}.", hint="Choose another one.", path=path)
        found += mine
    return found


def need(folder: Path, free: int, bytes_: int) -> None:
    """Refuse what a disk cannot take, before anything is written.

    Raises:
        DiskFull: Less than that, and a little more, is free.
    """
    if free < bytes_ + _RESERVE_BYTES:
        raise DiskFull(
            f"The disk of {folder} has {bytes_text(free)} free, "
            f"but the NVIDIA runtime needs {bytes_text(bytes_)}.",
            hint="Free some space, or put Upreel's data elsewhere with UPREEL_DATA.",
            path=folder,
            free=free,
            needed=bytes_,
        )


def writing(folder: Path) -> AbstractContextManager[None]:
    """Where our folder is written to: what the system refuses becomes an error for people."""
    return os_errors.writing(folder, unwritable)


def unwritable(folder: Path, error: OSError) -> EngineError:
    """What the system said, for people."""
    otherwise = OutputUnwritable(
        f"The folder of the NVIDIA runtimes, {folder}, cannot be written: "
        f"{error.strerror or error}.",
        hint="Another program may hold a file; or name another folder with UPREEL_DATA.",
        path=folder,
    )
    return os_errors.refusal(folder, error, otherwise)


def _published(wheel: Wheel, runtime: Runtime, licence: str) -> PublishedFile:
    place = wheel.place or wheel.filename
    return PublishedFile(
        id=wheel.filename,
        title=runtime.title,
        kind="wheel",
        models=(),
        precision="",
        repository="runtime",
        filename=wheel.filename,
        sha256=wheel.sha256,
        licence=licence,
        host="elsewhere" if "://" in place else "index",
        revision=runtime.id,
        bytes=wheel.bytes,
        place=place,
    )
