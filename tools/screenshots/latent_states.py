"""States of the sheet that asks about latents, for `tools.screenshots.render`.

The picture is a frame of the sample clip. No published VAE is at hand where these pictures are
made, so that a wrong reading is imitated: as in a real one, contrast and colours are off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ErrorInfo
from engine.core.messages import message
from engine.protocol import events
from engine.protocol.media import LATENT
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from tools.screenshots.player import Player

_FOLDER = Path("ComfyUI", "output", "latents")
_MISSING = ErrorInfo(
    code="weights-missing",
    case="vae",
    params={"model": "Wan 2.1", "names": "Wan2.1_VAE.safetensors", "file": "wan21-vae-fp32"},
)
_REFUSED = ErrorInfo(
    code="unsupported-media",
    case="latent-channels-of",
    params={
        "name": "ComfyUI_00002_.latent",
        "channels": "4",
        "other": message("list.alternatives", first="Stable Diffusion", next="SDXL"),
        "known": ("16 (Wan 2.1)", "48 (Wan 2.2 5B)"),
    },
)


def _open(player: Player, *names: str) -> Path:
    files = [_FOLDER / name for name in names or ("ComfyUI_00001_.latent",)]
    player.program.controller.add_files(files)
    player.settle()
    return files[0]


def _picture(player: Player) -> events.Picture:
    shown = next(e for e in player.recording.frame if isinstance(e, events.PreviewReady))
    assert shown.source is not None
    return shown.source


def _read(player: Player, path: Path) -> events.LatentRead:
    return events.LatentRead(
        path=path,
        model="wan21-vae",
        channels=16,
        size=_picture(player).size,
        frames=81,
        frame_rate=Fraction(16),
        guess="raw",
        is_sure=True,
    )


def _misread(picture: events.Picture) -> events.Picture:
    """Another gain for each colour, clipped."""
    gains = ((1.9, -70), (1.5, -30), (1.7, -20))
    table = [bytes(_clipped(gain * v + plus) for v in range(256)) for gain, plus in gains]
    planes = [picture.rgb[c::3].translate(table[c]) for c in range(3)]
    rgb = bytearray(len(picture.rgb))
    for c in range(3):
        rgb[c::3] = planes[c]
    return replace(picture, rgb=bytes(rgb))


def _clipped(value: float) -> int:
    return max(0, min(255, round(value)))


def _shown(player: Player, path: Path, *, is_whole: bool = True) -> None:
    right = _picture(player)
    wrong = _misread(right)
    player.say(
        [events.LatentShown(path=path, raw=right, normalised=wrong, is_whole=is_whole)],
    )


def _latent(player: Player) -> None:
    path = _open(player)
    player.say([_read(player, path)])
    _shown(player, path)


def _unsure(player: Player) -> None:
    path = _open(player, "ComfyUI_00001_.latent", "ComfyUI_00002_.latent", "third.latent")
    read = replace(_read(player, path), is_sure=False, frame_rate=Fraction(30), model="wan22-vae")
    player.say([replace(read, channels=48)])
    _shown(player, path, is_whole=False)


def _reading(player: Player) -> None:
    player.say([_read(player, _open(player))])


def _missing(player: Player) -> None:
    player.say([player.model_files])
    path = _open(player)
    player.say(
        [
            _read(player, path),
            events.TaskFailed(kind=TaskKind.LATENT, subject=str(path), error=_MISSING),
        ]
    )


def _refused(player: Player) -> None:
    path = _open(player, "ComfyUI_00002_.latent")
    player.say([events.TaskFailed(kind=TaskKind.LATENT, subject=str(path), error=_REFUSED)])


def _queued(player: Player) -> None:
    """A latent file after an earlier run of the program: it was not decoded yet."""
    waiting = player.recording.until(events.JobStarted)
    player.add("sample", "ComfyUI_00001_.latent", JobSettings(model="none", latents="raw"))
    for event in waiting:
        if isinstance(event, events.JobQueued):
            media = replace(event.media, path=_FOLDER / "a.latent", container=LATENT)
            player.play([replace(event, media=media, picture=None)])
        elif isinstance(event, events.PlanChosen):
            player.play([event])


STATES: dict[str, Callable[[Player], None]] = {
    "latent": _latent,
    "latent_unsure": _unsure,
    "latent_reading": _reading,
    "latent_missing": _missing,
    "latent_refused": _refused,
    "latent_queued": _queued,
}
