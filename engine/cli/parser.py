"""Every command and option, with help and examples."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from engine import __version__
from engine.cli import (
    inspection,
    jobs,
    latents,
    models,
    presets,
)
from engine.cli.context import CommandContext
from engine.cli.options import DEVICE_HELP, add_part, add_verbose, path, settings_help
from engine.core.plain_text import one_line
from engine.core.wings import wings

Run = Callable[[argparse.Namespace, CommandContext], int]

_EXAMPLES = """examples:
  python -m engine upscale holiday.mp4                     twice the size, next to the source
  python -m engine upscale *.mkv -o done --height 2160     several videos to 4K, into a folder
  python -m engine upscale video.mkv --start 1:00 --stop 1:10 --set crf=18
  python -m engine plan video.mkv --scale 4                show plan, time and memory only
  python -m engine resume                                  list interrupted jobs

exit status: 0 done, 1 failed, 2 wrong usage, 130 cancelled
"""

_UPSCALE_EXAMPLES = """examples:
  python -m engine upscale holiday.mp4 --scale 4
  python -m engine upscale old.avi -o new.mkv --height 1080 --set treatment=restore
  python -m engine upscale video.mp4 --model none --set codec=hevc --set bit_depth=10
  python -m engine upscale video.mp4 --model 1x_denoise.pth --then seedvr2-3b

"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line ends; a text that depends on the hardware is written when help is printed."""

    def add_text(self, text: str | Callable[[], str] | None) -> None:
        """Add a paragraph."""
        super().add_text(text() if callable(text) else text)


class _Parser(argparse.ArgumentParser):
    """Prints wrong arguments as plain text: a pattern of the shell makes names arguments."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and end the program."""
        super().error(one_line(message))


def build() -> argparse.ArgumentParser:
    """The parser; a parsed command has its function in `run`."""
    parser = _Parser(
        prog="python -m engine",
        description="Upreel upscales and restores video on your own computer.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"Upreel {__version__}")
    add_verbose(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add = partial(_add, commands)
    _upscale(add)
    _questions(add)
    _resume(add)
    latents.register(add)
    models.register(add)
    presets.register(add)
    for wing in wings():
        wing.add_commands(add)
    _machine(add)
    return parser


def _add(
    commands: Any, name: str, run: Run, help: str, epilog: str | Callable[[], str] = ""
) -> Any:
    command = commands.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=epilog,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run, usage_error=command.error)
    add_verbose(command)
    return command


def _upscale(add: Any) -> None:
    command = add(
        "upscale",
        jobs.upscale,
        "upscale videos or images",
        lambda: _UPSCALE_EXAMPLES + settings_help(),
    )
    command.add_argument(
        "inputs", nargs="+", type=path, metavar="IN", help="video, image, or folder of images"
    )
    _job_options(command)
    command = add(
        "plan", inspection.plan, "show the plan of upscale without starting it", settings_help
    )
    command.add_argument("input", type=path, metavar="IN", help="video, image, or folder of images")
    command.add_argument(
        "--pretend-gpu",
        action="append",
        default=[],
        metavar="NAME",
        help='plan for another GPU, for example "RTX 5070 Ti" or "RTX 3080 10 GB"; '
        "repeat for several GPUs",
    )
    command.add_argument(
        "--pretend-vram", metavar="SIZE", help="plan for a GPU with this memory, for example 16GiB"
    )
    _job_options(command)


def _job_options(command: Any) -> None:
    command.add_argument(
        "-o",
        "--output",
        type=path,
        metavar="OUT",
        help="output file or existing folder; default: next to the source, named after the size",
    )
    command.add_argument(
        "--model",
        metavar="ID|FILE",
        help="lite, seedvr2-3b, seedvr2-7b, seedvr2-7b-sharp, swiftvr, wan-2x, a file of a "
        "community model, or none to re-encode without upscaling",
    )
    command.add_argument(
        "--then",
        metavar="ID|FILE",
        help="upscaling model; --model is then the file of a 1x model that cleans frames first",
    )
    command.add_argument(
        "--preset",
        metavar="NAME",
        help="fast, balanced or best for this computer's GPU, or one of your own (`presets list` "
        "shows them); other options override it",
    )
    command.add_argument("--device", metavar="NAME", help=f"all (every GPU), {DEVICE_HELP}")
    for name, what in (
        ("--dit", "SeedVR2: use this transformer"),
        ("--vae", "SeedVR2 and Wan 2x: use this VAE"),
        ("--text-embedding", "SeedVR2: use this text embedding"),
    ):
        command.add_argument(name, metavar="FILE", help=f"{what} instead of the published one")
    target = command.add_mutually_exclusive_group()
    target.add_argument(
        "--scale", type=int, metavar="N", help="scale of width and height (default 2)"
    )
    target.add_argument(
        "--height", type=int, metavar="PX", help="height of the result, for example 1080"
    )
    target.add_argument(
        "--size", metavar="WxH", help="exact size of the result, for example 1920x1080"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting from the list below; can be repeated",
    )
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="number of processes that work on parts of the video at the same time (CPU only)",
    )
    add_part(command)
    command.add_argument("--overwrite", action="store_true", help="replace an existing file")
    _json(command, "print every event as a line of JSON")


def _questions(add: Any) -> None:
    command = add("probe", inspection.probe, "show the properties of a file")
    command.add_argument("input", type=path, metavar="IN")
    _json(command)
    command = add(
        "verify",
        inspection.verify,
        "compare a result with its source: frames, time stamps, tracks, colours",
    )
    command.add_argument("source", type=path, metavar="SOURCE")
    command.add_argument("output", type=path, metavar="OUTPUT")
    command.add_argument(
        "--video-stream",
        metavar="INDEX",
        type=int,
        default=-1,
        help="video track of the source that the result was made of",
    )
    add_part(command, "time of the source that the result starts at", "time that it ends before")
    _json(command)


def _resume(add: Any) -> None:
    command = add("resume", jobs.resume, "list interrupted jobs, continue or remove them")
    command.add_argument(
        "job", nargs="?", metavar="JOB", help="name of the job, or its first characters"
    )
    command.add_argument(
        "--all", action="store_true", help="continue all jobs, one after the other"
    )
    command.add_argument(
        "--accept",
        action="store_true",
        help="keep the result despite failed checks, or without frames that cannot be read",
    )
    command.add_argument(
        "-o",
        "--output",
        type=path,
        metavar="OUT",
        help="another name for the result, of the same format, or an existing folder for it",
    )
    command.add_argument("--overwrite", action="store_true", help="replace an existing file")
    command.add_argument(
        "--remove",
        action="store_true",
        help="delete the job with its finished parts; JOB must be its whole name",
    )
    _json(command)


def _machine(add: Any) -> None:
    command = add("doctor", inspection.doctor, "check whether everything works on this computer")
    command.add_argument(
        "--zip",
        type=path,
        metavar="PATH",
        help="also write an archive for a bug report: these checks, logs, settings and job plans",
    )
    command.add_argument(
        "--with-names",
        action="store_true",
        help="keep names of files and computers, addresses, and titles of videos in the archive",
    )
    _json(command)


def _json(command: Any, help: str = "print one JSON object") -> None:
    command.add_argument("--json", action="store_true", help=help)
