"""FakeLatents: the part of FakeEngine that says what is in a .latent file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from engine.core.errors import ErrorInfo
from engine.core.geometry import Size
from engine.protocol import commands, events
from engine.protocol.media import LATENT, MediaInfo

MISSING = ErrorInfo(
    code="weights-missing",
    message="The Wan 2.1 VAE is not on this machine.",
    hint="Get it.",
    params={"file": "wan21-vae-fp32"},
)


def made_read(path: Path) -> events.LatentRead:
    """21 latents of Wan 2.1, surely as ComfyUI saves them."""
    return events.LatentRead(
        path=path,
        model="wan21-vae",
        channels=16,
        size=Size(832, 480),
        frames=81,
        frame_rate=Fraction(16),
        guess="raw",
        is_sure=True,
    )


def flat(level: int) -> events.Picture:
    """A flat picture."""
    size = Size(52, 30)
    return events.Picture(size=size, rgb=bytes([level]) * (3 * size.pixels))


@dataclass
class FakeLatents:
    """Answers ShowLatent at once, unless `silent`."""

    sink: events.EventSink
    is_silent: bool = False
    needs: str = ""  # id of a file; while it is not here, only what the file says is said
    refuse: dict[str, ErrorInfo] = field(default_factory=dict)  # by name of the file
    reads: dict[str, events.LatentRead] = field(default_factory=dict)
    is_whole: bool = True

    def answer(self, command: commands.ShowLatent, here: set[str]) -> None:
        """What the engine would say."""
        path = command.path
        if self.is_silent:
            return
        if path.name in self.refuse:
            self.sink.emit(events.LatentRefused(path=path, error=self.refuse[path.name]))
            return
        self.sink.emit(replace(self.reads.get(path.name, made_read(path)), path=path))
        if self.needs and self.needs not in here and not command.vae:
            self.sink.emit(events.LatentRefused(path=path, error=MISSING))
            return
        self.sink.emit(
            events.LatentShown(
                path=path, raw=flat(60), normalised=flat(200), is_whole=self.is_whole
            )
        )


def as_latent(media: MediaInfo) -> MediaInfo:
    """The same film, known from the head of a .latent file: nothing but pictures."""
    video = replace(media.video, codec=LATENT, frame_rate=Fraction(16), frame_count=81)
    return replace(media, container=LATENT, video=video, streams=())
