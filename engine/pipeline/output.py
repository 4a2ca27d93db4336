"""Place of the result: checked before the start, published only when it is complete."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.core import atomic_file, paths
from engine.core.errors import (
    OutputExists,
    OutputIsInput,
    OutputNameUnusable,
    OutputUnwritable,
)
from engine.core.file_access import is_folder, reason_of, write_error, writing
from engine.protocol.media import MediaInfo
from engine.protocol.report import Report

_CLOCK_NS = 2 * 10**9  # some drives keep times to two seconds only


def part_path(output: Path, job_id: str) -> Path:
    """Name of the unfinished result: next to the final one, never mistaken for it."""
    return output.with_name(atomic_file.part_name(job_id, output.suffix))


def check_output(
    media: MediaInfo, output: Path, *, overwrite: bool, pictures: Iterable[str] = ()
) -> None:
    """Refuse a result that cannot be written or would cost the user something.

    Args:
        media: The source.
        output: File or folder of the result.
        overwrite: A file of that name may be replaced.
        pictures: Names of files in the folder of the result.

    Raises:
        OutputNameUnusable: Windows would make something else of its name, or the drive takes none
            like it.
        OutputIsInput: It is the source itself, even through a link.
        OutputExists: Something of that name is there and may not be replaced.
        OutputUnwritable: The folder is missing or not writable.
        DiskFull: Not even an empty file fits.
    """
    _check_name(output)
    _check_not_source(media, output)
    if os.path.lexists(output) and (not overwrite or is_folder(output)):
        raise OutputExists("before-start", name=output.name, path=output)
    folder = output.parent
    if not is_folder(folder):
        raise OutputUnwritable("no-folder", folder=paths.shown(folder), path=folder)
    with writing(folder), tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"upreel")
    _try_names(folder, (output.name, *pictures))


def publish(part: Path, output: Path, *, overwrite: bool) -> None:
    """Give the finished file its name, in one step.

    Raises:
        OutputExists: A file appeared there meanwhile; the finished part stays.
        OutputUnwritable: The folder went away.
    """
    try:
        if overwrite and not part.is_dir():
            atomic_file.replace(part, output)
        else:
            atomic_file.rename(part, output)
    except FileExistsError as err:
        raise OutputExists("meanwhile", name=output.name, part=part.name, path=output) from err
    except OSError as err:
        raise write_error(err, output) from err


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A finished result that is to get its name; written down before it does."""

    part: Path
    output: Path
    overwrite: bool
    bytes: int
    modified_ns: int
    report: Report

    @classmethod
    def of(cls, part: Path, report: Report, *, overwrite: bool) -> Publication:
        """Record of a finished part.

        Raises:
            OutputError: It has gone.
        """
        with writing(part):
            about = part.stat()
        return cls(
            part=part,
            output=report.output,
            overwrite=overwrite,
            bytes=about.st_size,
            modified_ns=about.st_mtime_ns,
            report=report,
        )

    def finish(self) -> bool:
        """Give the part its name, if an interrupted run has not done so.

        Returns:
            False where there is no such part and no such result any more.

        Raises:
            OutputError: Raised by `publish`.
        """
        if self._is_at(self.part):
            publish(self.part, self.output, overwrite=self.overwrite)
            return True
        return self.is_published

    @property
    def is_published(self) -> bool:
        """Whether the file of the final name is this result."""
        return self._is_at(self.output)

    def _is_at(self, path: Path) -> bool:
        try:
            about = path.stat()
        except OSError:
            return False
        is_same_time = abs(about.st_mtime_ns - self.modified_ns) <= _CLOCK_NS
        return about.st_size == self.bytes and is_same_time


def _check_name(output: Path) -> None:
    problem = paths.name_problem(output.name)
    if problem is not None:
        raise OutputNameUnusable(problem.case, **problem.params, path=output)


def _try_names(folder: Path, names: Iterable[str]) -> None:
    """Make empty files of those names, out of sight, and delete them.

    Raises:
        OutputNameUnusable: The drive takes none of such a name.
        OutputError: Another refusal.
    """
    place = partial(tempfile.TemporaryDirectory, dir=folder, ignore_cleanup_errors=True)
    with writing(folder), place(prefix="upreel-", suffix=".part") as trial:
        for name in names:
            try:
                Path(trial, name).touch()
            except OSError as err:
                if err.errno == errno.EINVAL:
                    reason = reason_of(err)
                    raise OutputNameUnusable("refused", name=name, reason=reason) from err
                raise write_error(err, folder / name) from err


def _check_not_source(media: MediaInfo, output: Path) -> None:
    try:
        same = output.samefile(media.path) or (
            media.kind == "sequence" and output.is_dir() and output.samefile(media.path.parent)
        )
    except OSError:
        return
    if same:
        raise OutputIsInput(path=output)
