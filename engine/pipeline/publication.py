"""Publication of the result: it gets its name when it is complete."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import OutputExists
from engine.core.file_access import write_error, writing
from engine.protocol.report import Report

_CLOCK_NS = 2 * 10**9  # some drives keep times to two seconds only


def part_path(output: Path, job_id: str) -> Path:
    """Name of the unfinished result: next to the final one, never mistaken for it."""
    return output.with_name(atomic_file.part_name(job_id, output.suffix))


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

    def finish(self, *, overwrite: bool) -> bool:
        """Give the part its name, if an interrupted run has not done so.

        Args:
            overwrite: A file of that name may be replaced, even if that was not allowed before.

        Returns:
            False where there is no such part and no such result any more.

        Raises:
            OutputError: Raised by `publish`.
        """
        if self._is_at(self.part):
            publish(self.part, self.output, overwrite=self.overwrite or overwrite)
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
