"""Identity of a source: whether it is the one that a job began with, also while the job runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core import file_access
from engine.core.errors import Cancelled, CheckpointMismatch, SourceMissing
from engine.core.file_access import advised, in_time, read_error, reading, sampled_mark
from engine.protocol.media import MediaInfo

State = tuple[int, int]  # size in bytes and time of change in ns; zeros for a missing file


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Identity of a source."""

    bytes: int  # size of the file, of a sequence that of its first image
    modified_ns: int  # its time of change
    pictures: str = ""  # SHA-256 of name, size and time of each image of a sequence
    content: str = ""  # `sampled_mark` of a file; "" for a sequence and in jobs of earlier versions

    @classmethod
    def of(cls, media: MediaInfo) -> Fingerprint:
        """The fingerprint of a source as it is now; zeros where it has gone."""
        found = cls._outside(media)
        if media.kind == "sequence":
            return found
        return replace(found, content=advised(lambda: _content(media.path), ""))

    @classmethod
    def _outside(cls, media: MediaInfo) -> Fingerprint:
        """The part that takes no look at what the file holds."""
        bytes_, modified_ns = state_of(media.path)
        pictures = ""
        if media.kind == "sequence":
            files = files_of(media)
            pictures = _digest(files, [state_of(file) for file in files])
        return cls(bytes=bytes_, modified_ns=modified_ns, pictures=pictures)

    def fits(self, media: MediaInfo) -> bool:
        """Whether the source is unchanged; jobs of earlier versions know the first image only.

        A file that was only touched, copied back or moved to another clock is unchanged: its
        samples decide.

        Raises:
            SourceUnreadable: They cannot be read.
        """
        now = self._outside(media)
        if not self.pictures:
            now = replace(now, pictures="")
        return replace(self, content="") == now or self.holds(media.path, now.bytes)

    def holds(self, file: Path, bytes_: int) -> bool:
        """Whether a file of some size is the source, by its samples.

        Raises:
            SourceUnreadable: They cannot be read.
        """
        return bool(self.content) and bytes_ == self.bytes and _content(file) == self.content


def files_of(media: MediaInfo) -> tuple[Path, ...]:
    """All files of a source, in their order."""
    if media.kind != "sequence":
        return (media.path,)
    from engine.video.read.images import sequence_file

    numbers = range(media.first_number, media.first_number + media.video.frame_count)
    return tuple(sequence_file(media.pattern, number) for number in numbers)


def state_of(file: Path) -> State:
    """Size and time of change; zeros where the file has gone."""
    try:
        return _look(file)
    except OSError:
        return 0, 0


class SourceWatch:
    """A look now and then whether a source is still the one that its job began with.

    A look costs a call of the system for each file, so segments can be looked at one by one: of a
    sequence only the images around the segment are.

    Args:
        media: The source.

    Attributes:
        fingerprint: Fingerprint of the source when the job began; None for the present one.
    """

    def __init__(self, media: MediaInfo, fingerprint: Fingerprint | None = None) -> None:
        self.fingerprint = fingerprint or Fingerprint.of(media)
        self._media, self._files = media, files_of(media)
        began = self.fingerprint
        self._states = [(began.bytes, began.modified_ns)]
        if began.pictures:
            self._states = [state_of(file) for file in self._files]
        self._is_other = bool(began.pictures) and began.pictures != _digest(
            self._files, self._states
        )

    def check(self, first: int = 0, stop: int | None = None) -> None:
        """Refuse to go on with another source.

        Args:
            first: Image of a sequence from which on it is looked at.
            stop: The first one after them; None for all.

        Raises:
            CheckpointMismatch: The source has changed.
            SourceMissing, SourceUnreadable: It cannot be looked at, also after some time.
        """
        if self._is_other or not all(map(self._is_kept, self._numbers(first, stop))):
            raise self._mismatch()

    @property
    def has_changed(self) -> bool:
        """Whether the source is certainly another one: unlike `check` this never waits."""
        is_there = all(state_of(file) != (0, 0) for file in self._files)
        return is_there and not advised(lambda: self.fingerprint.fits(self._media), True)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Names the source where something inside fails because it has changed.

        Raises:
            CheckpointMismatch: Something failed, and the source is another one now.
        """
        try:
            yield
        except (Cancelled, CheckpointMismatch):
            raise
        except Exception as err:  # decoders fail in any class on a file that changes
            if self.has_changed:
                raise self._mismatch() from err
            raise

    def _numbers(self, first: int, stop: int | None) -> range:
        count = len(self._states)
        if count == 1:
            return range(1)
        return range(max(0, first), count if stop is None else min(count, stop))

    def _is_kept(self, number: int) -> bool:
        """Whether a file is the one that it was; one that was only touched is known from now on."""
        now = _waited(self._files[number])
        if now == self._states[number]:
            return True
        is_kept = self.fingerprint.holds(self._files[number], now[0])
        if is_kept:
            self._states[number] = now
        return is_kept

    def _mismatch(self) -> CheckpointMismatch:
        return CheckpointMismatch("source", name=self._media.name, what="source")


def _look(file: Path) -> State:
    about = in_time(file.stat)
    return about.st_size, about.st_mtime_ns


def _waited(file: Path) -> State:
    """The state of a file, of which a drive or a share may be away for a while."""
    for pause in file_access.PAUSES_S:
        try:
            return _look(file)
        except OSError:
            time.sleep(pause)
    try:
        return _look(file)
    except FileNotFoundError as err:
        raise SourceMissing("since-start", name=file.name, path=file) from err
    except OSError as err:
        raise read_error(err, file) from err


def _content(file: Path) -> str:
    """The mark of its samples.

    Raises:
        SourceMissing, SourceUnreadable: They cannot be read.
    """
    with reading(file):
        return in_time(lambda: sampled_mark(file))


def _digest(files: Sequence[Path], states: Sequence[State]) -> str:
    digest = hashlib.sha256()
    for file, state in zip(files, states, strict=True):
        digest.update(f"{file.name}|{state}|".encode(errors="surrogateescape"))
    return digest.hexdigest()
