"""Files of latents as ComfyUI saves them (.latent), read and written piece by piece. No pickle.

Safetensors with one tensor, the raw latent, and an empty one that only marks the version of the
format; without that mark the values are those of the oldest version, times 0.18215. Loads no
torch before values are read.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from engine.core.errors import (
    EngineError,
    InputError,
    NotSafetensors,
    SourceUnreadable,
    TruncatedMedia,
    UnreadableMedia,
    UnsupportedMedia,
    WeightsError,
    WeightsTruncated,
    WeightsUnreadable,
)
from engine.core.file_access import read_error
from engine.core.geometry import Size
from engine.core.messages import message
from engine.core.units import parse_fraction
from engine.files.formats.safetensors_file import SafetensorsFile
from engine.models.latents import Guess, LatentFilm, LatentHeader
from engine.models.wan.latents.spaces import SPACES, TEMPORAL_FACTOR, frames_of, guess

if TYPE_CHECKING:
    from torch import Tensor

SUFFIX = ".latent"
LARGEST_SIDE = 16384  # px, of the frames
MOST_RATE = 240  # frames/s
_NOTE = "upreel."  # begins our names in the metadata
TENSOR = "latent_tensor"
MARKER = "latent_format_version_0"
_OLDEST_SCALE = 1 / 0.18215
_FLOATS = ("F64", "F32", "F16", "BF16")
_AT_ONCE = 4_000_000  # values that are examined together
_OTHERS = {
    4: message("list.alternatives", first="Stable Diffusion", next="SDXL"),
    12: "Mochi",
    64: "Stable Audio",
    128: "LTX-Video",
}
_KNOWN = tuple(f"{space.channels} ({space.title})" for space in SPACES.values())


class LatentFile:
    """An open file of latents; a context manager.

    Args:
        path: Path of the file.

    Attributes:
        header: Shape, dtype and metadata.
        scale: Factor of its values.

    Raises:
        SourceMissing, SourceUnreadable: It is not there, or may not be read.
        UnreadableMedia, TruncatedMedia: It is empty, of another kind, damaged, or cut off.
        UnsupportedMedia: Its channels are those of no model here, or it has more than one video.

    Memory: the latents that are read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = SafetensorsFile(path)
        except WeightsError as err:
            raise _translated(err, path) from err
        try:
            self.header = _header(self._file)
            self.scale = 1.0 if MARKER in self._file.shapes else _OLDEST_SCALE
        except InputError:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def latents(self, start: int, stop: int) -> Tensor:
        """Latents [C, n, h, w] float32 from `start` (inside) to `stop` (outside), in time.

        Raises:
            UnreadableMedia: Some are NaN or infinite.
            TruncatedMedia, SourceUnreadable: The file was changed, or the disk fails.
        """
        header = self.header
        try:
            whole = self._file.raw(TENSOR)
        except WeightsError as err:
            raise _translated(err, self.path) from err
        grid = header.grid
        whole = whole.reshape(header.channels, header.length, grid.height, grid.width)
        found = whole[:, start:stop].float()
        if not bool(found.isfinite().all()):
            raise UnreadableMedia("latents-not-finite", name=self.path.name, path=self.path)
        return found * self.scale if self.scale != 1 else found.clone()

    def pieces(self) -> Iterator[Tensor]:
        """All latents [C, n, h, w] in order, some millions of values at a time."""
        header = self.header
        each = max(1, _AT_ONCE // (header.channels * header.grid.pixels))
        for start in range(0, header.length, each):
            yield self.latents(start, min(header.length, start + each))

    def guess(self) -> Guess:
        """Which values they seem to be; reads all of them, so NaN and infinite ones are found.

        Raises:
            InputError: As `latents`.
        """
        import torch

        count = self.header.length * self.header.grid.pixels
        sums = torch.zeros(2, self.header.channels, dtype=torch.float64)
        for piece in self.pieces():
            values = piece.double().flatten(1)
            sums += torch.stack([values.sum(1), values.square().sum(1)])
        mean = sums[0] / count
        deviation = (sums[1] / count - mean.square()).clamp_min(0).sqrt()
        return guess(mean.tolist(), deviation.tolist())


def examined(path: Path) -> tuple[LatentHeader, Guess]:
    """Header and guess of a file; it is read once, and again only when it has changed.

    Raises:
        InputError: As `LatentFile` and its `latents`.
    """
    try:
        about = path.stat()
    except OSError:
        return _examined(path, 0, 0)  # says what is wrong
    return _examined(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _examined(path: Path, _bytes: int, _modified_ns: int) -> tuple[LatentHeader, Guess]:
    with LatentFile(path) as file:
        return file.header, file.guess()


def _header(file: SafetensorsFile) -> LatentHeader:
    shape = file.shapes.get(TENSOR)
    if shape is None:
        raise UnreadableMedia("no-latent", name=file.path.name, path=file.path)
    if file.dtypes[TENSOR] not in _FLOATS:
        raise _unsupported("latent-dtype", file.path, dtype=file.dtypes[TENSOR])
    channels, length, height, width = _four(file.path, shape)
    space = SPACES.get(channels)
    if space is None:
        raise _wrong_channels(file.path, channels)
    grid = Size(width, height)
    whole = LatentFilm(size=grid.scaled(space.factor), frames=frames_of(length), rate=space.rate)
    if max(whole.size.width, whole.size.height) > LARGEST_SIDE:
        raise _unsupported("latent-too-large", file.path, size=whole.size)
    return LatentHeader(
        model=space.model,
        title=space.title,
        channels=channels,
        factor=space.factor,
        rate=space.rate,
        length=length,
        grid=grid,
        film=_noted(file.metadata, whole, space.factor),
    )


def _noted(metadata: Mapping[str, str], whole: LatentFilm, factor: int) -> LatentFilm:
    """The video in our own metadata; `whole` where there are none, or impossible ones."""
    try:
        width, height = map(int, metadata[_NOTE + "size"].split("x"))
        frames = int(metadata[_NOTE + "frames"])
        rate = parse_fraction(metadata[_NOTE + "frame_rate"])
    except (KeyError, ValueError):
        return whole
    spare = (whole.size.width - width, whole.size.height - height)
    fits = all(0 <= less < factor for less in spare)
    fits &= 0 <= whole.frames - frames < TEMPORAL_FACTOR and 0 < rate <= MOST_RATE
    return LatentFilm(size=Size(width, height), frames=frames, rate=rate) if fits else whole


def _four(path: Path, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Channels, latents, height and width of [1, C, t, h, w], or of an image's [1, C, h, w]."""
    if len(shape) == 4:
        shape = (*shape[:2], 1, *shape[2:])
    if len(shape) != 5:
        sides = "x".join(map(str, shape)) or "-"
        raise _unsupported("latent-shape", path, shape=sides)
    batch, channels, length, height, width = shape
    if not math.prod(shape):
        raise UnreadableMedia("empty-latent", name=path.name, path=path)
    if batch > 1:
        raise _unsupported("latent-batch", path, batch=batch)
    return channels, length, height, width


def _wrong_channels(path: Path, channels: int) -> UnsupportedMedia:
    if channels not in _OTHERS:
        return _unsupported("latent-channels", path, channels=channels, known=_KNOWN)
    other = _OTHERS[channels]
    return _unsupported("latent-channels-of", path, channels=channels, known=_KNOWN, other=other)


def _unsupported(case: str, path: Path, **params: Any) -> UnsupportedMedia:
    return UnsupportedMedia(case, name=path.name, path=path, **params)


def _translated(error: WeightsError, path: Path) -> EngineError:
    """The error of a source in the place of that of a model file."""
    if isinstance(error.__cause__, OSError):
        return read_error(error.__cause__, path)
    if isinstance(error, WeightsUnreadable) and error.case == "folder":
        return SourceUnreadable("not-a-file", name=path.name, path=path)
    if isinstance(error, WeightsUnreadable):
        reason = error.params.get("reason", error.hint)
        return SourceUnreadable("refused", name=path.name, reason=reason, path=path)
    if isinstance(error, WeightsTruncated):
        return TruncatedMedia("latents", name=path.name, path=path)
    if isinstance(error, NotSafetensors) and not path.stat().st_size:
        return UnreadableMedia("empty", name=path.name, path=path)
    if isinstance(error, NotSafetensors):
        case = "empty" if error.case == "empty" else "not-latents"
        return UnreadableMedia(case, name=path.name, path=path)
    return UnreadableMedia("latents-damaged", name=path.name, path=path)


# --- writing


def metadata_of(film: LatentFilm) -> dict[str, str]:
    """Metadata of our files: what cannot be computed from the latents of a video."""
    return {
        _NOTE + "size": str(film.size),
        _NOTE + "frames": str(film.frames),
        _NOTE + "frame_rate": str(film.rate),
    }


class LatentWriter:
    """Writes a file of latents piece by piece, however long it becomes.

    Args:
        path: Path of the file; an existing one is replaced.
        channels: Channels of the latents.
        grid: Positions across and down.

    Raises:
        OSError: Also later, from `add` and `close`.

    Memory: a piece. On the disk twice the size of the file while `close` runs.
    """

    def __init__(self, path: Path, channels: int, grid: Size) -> None:
        self._path, self._channels, self._grid = path, channels, grid
        self._length = 0
        self._spool_path = path.with_name(path.name + ".spool")
        self._spool: BinaryIO = self._spool_path.open("w+b")

    @property
    def length(self) -> int:
        """Latents so far."""
        return self._length

    def add(self, latents: Tensor) -> None:
        """Take the next latents [C, n, h, w]."""
        wanted = (self._channels, latents.shape[1], self._grid.height, self._grid.width)
        if tuple(latents.shape) != wanted:
            raise ValueError(f"latents of {tuple(latents.shape)} instead of {wanted}")
        values = latents.movedim(1, 0).float().contiguous().cpu().numpy()
        self._spool.write(values.astype("<f4", copy=False).tobytes())
        self._length += latents.shape[1]

    def close(self, metadata: Mapping[str, str] | None = None) -> int:
        """Complete the file, on the disk.

        Args:
            metadata: Free text to go with it.

        Returns:
            Its size in bytes.
        """
        if not self._length:
            self.discard()
            raise ValueError("a file of latents needs one")
        try:
            with self._path.open("wb") as file:
                file.write(self._head(metadata or {}))
                for channel in range(self._channels):
                    self._copy(channel, file)
                file.flush()
                os.fsync(file.fileno())
                return file.tell()
        finally:
            self.discard()

    def discard(self) -> None:
        """Give up what was not completed; nothing happens after `close`."""
        self._spool.close()
        self._spool_path.unlink(missing_ok=True)

    def _copy(self, channel: int, file: BinaryIO) -> None:
        """One channel of all latents: the file has channels outside, the spool inside."""
        plane = 4 * self._grid.pixels
        for index in range(self._length):
            self._spool.seek((index * self._channels + channel) * plane)
            file.write(self._spool.read(plane))

    def _head(self, metadata: Mapping[str, str]) -> bytes:
        size = 4 * self._channels * self._length * self._grid.pixels
        shape = [1, self._channels, self._length, self._grid.height, self._grid.width]
        head = {
            TENSOR: {"dtype": "F32", "shape": shape, "data_offsets": [0, size]},
            MARKER: {"dtype": "F32", "shape": [0], "data_offsets": [size, size]},
        }
        if metadata:
            head["__metadata__"] = dict(metadata)
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text
