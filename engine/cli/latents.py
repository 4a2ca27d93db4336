"""`decode-latent` and `encode-latent`: latents as ComfyUI saves them, to a video and back."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.cli import jobs, options
from engine.cli.context import DONE, CommandContext
from engine.cli.progress import progress_on
from engine.core.errors import SettingsError
from engine.core.units import bytes_text, duration_text, parse_fraction
from engine.models import registry
from engine.pipeline.prepare import required_latents
from engine.protocol.events import StageProgress
from engine.protocol.report import EncodedLatents

_DECODE = """examples:
  python -m engine decode-latent ComfyUI_00001_.latent -o clip.mp4
  python -m engine decode-latent wrapper.latent -o clip.mkv --normalised --rate 24
  python -m engine decode-latent clip.latent -o clip.mp4 --upscale seedvr2-3b --height 1080

Latents are read as ComfyUI's own nodes save them; --normalised reads those of
WanVideoWrapper. The VAE follows from the channels: 16 are Wan 2.1 (16 fps), 48 are Wan 2.2 5B
(24 fps). Frames are decoded with 16 bits, so the default codec is HEVC with 10 bits;
--set codec=h264 writes H.264. `upscale FILE.latent` does the same with any model.
"""
_ENCODE = """examples:
  python -m engine encode-latent clip.mp4 -o clip.latent
  python -m engine encode-latent clip.mp4 -o clip.latent --model wan22-vae --stop 5

Sides are padded to a multiple of 8 (Wan 2.2: 16) and the number of frames to 4n+1 by repeating the
last column, row and frame; decode-latent removes the padding.
"""


def register(add: Callable[..., Any]) -> None:
    """Put both commands on the command line."""
    command = add("decode-latent", decode, "decode a latent file to a video", _DECODE)
    command.add_argument(
        "inputs",
        nargs=1,
        type=options.path,
        metavar="FILE",
        help="file saved by ComfyUI's node Save Latent",
    )
    command.add_argument(
        "--rate", type=_rate, metavar="FPS", help="frame rate, for example 24000/1001"
    )
    command.add_argument(
        "--upscale", metavar="MODEL", help="also upscale the video with this model"
    )
    target = command.add_mutually_exclusive_group()
    target.add_argument("--scale", type=int, metavar="N", help="scale of width and height")
    target.add_argument("--height", type=int, metavar="PX", help="height of the result")
    target.add_argument("--size", metavar="WxH", help="exact size of the result")
    _shared(command)
    command = add("encode-latent", encode, "encode a video to a latent file", _ENCODE)
    command.add_argument(
        "input", type=options.path, metavar="IN", help="video, image, or folder of images"
    )
    _shared(command)
    command.set_defaults(scale=None, height=None, size=None)


def _shared(command: Any) -> None:
    command.add_argument("-o", "--output", type=options.path, metavar="OUT", required=True)
    command.add_argument("--model", choices=_vaes(), help="VAE to use")
    command.add_argument(
        "--normalised", action="store_true", help="normalised latents, as saved by WanVideoWrapper"
    )
    command.add_argument("--vae", metavar="FILE", help="use this VAE instead of the published one")
    command.add_argument("--device", metavar="NAME", help=options.DEVICE_HELP)
    options.add_part(command)
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting as for `upscale`; can be repeated",
    )
    command.add_argument("--overwrite", action="store_true", help="replace an existing file")
    command.add_argument("--json", action="store_true", help="print JSON")


def decode(args: argparse.Namespace, context: CommandContext) -> int:
    """An ordinary job, whose source holds latents."""
    _check_model(Path(args.inputs[0]), args.model)
    wanted = _own(args, ["latents=" + ("normalised" if args.normalised else "raw")])
    if args.rate is not None:
        wanted.set.insert(0, f"latent_rate={float(args.rate)}")
    wanted.model = args.upscale or "none"
    return jobs.upscale(wanted, context)


def encode(args: argparse.Namespace, context: CommandContext) -> int:
    """Write the file in this thread, with its progress."""
    wanted = _own(args, ["latents=" + ("normalised" if args.normalised else "raw")])
    wanted.model = "none"
    progress = progress_on(context.console)

    def tell(done: int, total: int) -> None:
        progress.show(StageProgress(job_id="", stage="encode", done=done, total=total))

    try:
        done = context.services.encode_latents(
            Path(args.input).absolute(),
            Path(args.output).absolute(),
            args.model or _vaes()[0],
            options.job_settings(wanted),
            options.engine_settings(wanted, context),
            tell,
        )
    finally:
        progress.clear()
    if context.console.json:
        context.console.data(done)
    else:
        context.console.say(*_words(done))
    return DONE


def _own(args: argparse.Namespace, first: list[str]) -> argparse.Namespace:
    """The options as `upscale` knows them; `--set` has the last word."""
    vae = [] if args.vae is None else [f"latent_vae={Path(args.vae).absolute()}"]
    others = dict.fromkeys(("dit", "vae", "text_embedding", "then", "workers"))
    changed = {**vars(args), **others}
    return argparse.Namespace(**{**changed, "set": [*first, *vae, *args.set]})


def _check_model(path: Path, model: str | None) -> None:
    """Refuse a file without latents, and a VAE that they do not belong to."""
    header = required_latents(path).header(path)
    if model not in (None, header.model):
        raise SettingsError(
            "latents-of-another-model",
            name=path.name,
            channels=header.channels,
            found=header.model,
            model=model,
        )


def _vaes() -> tuple[str, ...]:
    return tuple(model for one in registry.latent_formats() for model in one.titles)


def _rate(text: str) -> Fraction:
    try:
        rate = parse_fraction(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a frame rate such as 24 or 24000/1001"
        ) from err
    if rate <= 0:
        raise argparse.ArgumentTypeError("a frame rate must be above 0")
    return rate


def _words(done: EncodedLatents) -> list[str]:
    lines = [
        f"{done.output}: {done.latents} latents of {done.model}, {done.reading}, "
        f"{bytes_text(done.bytes)}, in {duration_text(done.seconds)}"
    ]
    if done.padded != done.size:
        lines.append(f"  padded from {done.size} to {done.padded}")
    if done.padded_frames != done.frames:
        lines.append(f"  padded from {done.frames} to {done.padded_frames} frames")
    return lines
