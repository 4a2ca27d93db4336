"""Every command and option, with help and examples."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from engine import __version__
from engine.bench.cases.vae_models import models as vae_models
from engine.bench.options import DTYPES
from engine.cli import (
    bench,
    inspection,
    jobs,
    latents,
    machines,
    models,
    presets,
    runtime,
    update,
    worker,
)
from engine.cli.context import CommandContext
from engine.cli.options import DEVICE_HELP, settings_help
from engine.core.log import printable
from engine.settings.optimisations import model_switch_names

Run = Callable[[argparse.Namespace, CommandContext], int]

_EXAMPLES = """examples:
  python -m engine upscale holiday.mp4                     twice the size, next to the source
  python -m engine upscale *.mkv -o done --height 2160     several films, each to 4K, into a folder
  python -m engine upscale film.mkv --start 1:00 --stop 1:10 --set crf=18
  python -m engine plan film.mkv --scale 4                 what would be done, and how long it takes
  python -m engine resume                                  what was interrupted

exit status: 0 done, 1 failed, 2 wrong usage, 130 cancelled
"""

_UPSCALE_EXAMPLES = """examples:
  python -m engine upscale holiday.mp4 --scale 4
  python -m engine upscale old.avi -o new.mkv --height 1080 --set treatment=restore
  python -m engine upscale film.mp4 --model none --set codec=hevc --set bit_depth=10
  python -m engine upscale film.mp4 --model 1x_denoise.pth --then seedvr2-3b

"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line ends; a text that looks at this machine is made when help is printed."""

    def add_text(self, text: str | Callable[[], str] | None) -> None:
        """Add a paragraph."""
        super().add_text(text() if callable(text) else text)


class _Parser(argparse.ArgumentParser):
    """Prints wrong arguments as printable text: a pattern of the shell makes names arguments."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and end the program."""
        super().error(printable(message))


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
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add = partial(_add, commands)
    _upscale(add)
    _questions(add)
    _resume(add)
    latents.register(add)
    models.register(add)
    runtime.register(add)
    update.register(add)
    presets.register(add)
    machines.register(add)
    worker.register(add)
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
    return command


def _upscale(add: Any) -> None:
    command = add(
        "upscale",
        jobs.upscale,
        "make films or pictures larger",
        lambda: _UPSCALE_EXAMPLES + settings_help(),
    )
    command.add_argument("inputs", nargs="+", metavar="IN", help="film, picture or folder of them")
    _job_options(command)
    command = add(
        "plan", inspection.plan, "show what upscale would do, without doing it", settings_help
    )
    command.add_argument("input", metavar="IN", help="film, picture or folder of pictures")
    command.add_argument(
        "--pretend-gpu",
        action="append",
        default=[],
        metavar="NAME",
        help='plan for another GPU, as "RTX 5070 Ti"; twice for two of them',
    )
    command.add_argument(
        "--pretend-vram", metavar="SIZE", help="plan for a GPU with this memory, as 16GiB"
    )
    _job_options(command)


def _job_options(command: Any) -> None:
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="file or existing folder of the result; default: next to the source, named after size",
    )
    command.add_argument(
        "--model",
        metavar="ID|FILE",
        help="lite, seedvr2-3b, seedvr2-7b, seedvr2-7b-sharp, wan-2x, a file of a community model, "
        "or none to only convert the film",
    )
    command.add_argument(
        "--then",
        metavar="ID|FILE",
        help="what follows --model, which is then the file of a 1x model that cleans the frames",
    )
    command.add_argument(
        "--preset",
        metavar="NAME",
        help="fast, balanced or best for this machine's GPU, or one of your own (`presets` lists "
        "them); other options change it",
    )
    command.add_argument("--device", metavar="NAME", help=f"all (every GPU), {DEVICE_HELP}")
    for name, what in (
        ("--dit", "SeedVR2: this transformer"),
        ("--vae", "SeedVR2 and Wan 2x: this VAE"),
        ("--text-embedding", "SeedVR2: this text embedding"),
    ):
        command.add_argument(name, metavar="FILE", help=f"{what} instead of the published one")
    target = command.add_mutually_exclusive_group()
    target.add_argument(
        "--scale", type=int, metavar="N", help="how many times as large (default 2)"
    )
    target.add_argument("--height", type=int, metavar="PX", help="height of the result, as 1080")
    target.add_argument("--size", metavar="WxH", help="exact size of the result, as 1920x1080")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting, listed below; may be given several times",
    )
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes that compute parts of the film at the same time, without a GPU",
    )
    command.add_argument("--start", metavar="T", help="begin here, as 12.5 or 1:02:03.5")
    command.add_argument("--stop", metavar="T", help="end before this time")
    command.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    _json(command, "print every event as a line of JSON")


def _questions(add: Any) -> None:
    command = add("probe", inspection.probe, "show what a file is")
    command.add_argument("input", metavar="IN")
    _json(command)
    command = add(
        "verify",
        inspection.verify,
        "compare a result with its source: frames, times, tracks, colours",
    )
    command.add_argument("source", metavar="SOURCE")
    command.add_argument("output", metavar="OUTPUT")
    _json(command)


def _resume(add: Any) -> None:
    command = add("resume", jobs.resume, "list interrupted jobs, or continue them")
    command.add_argument("job", nargs="?", metavar="JOB", help="name, or how it begins")
    command.add_argument("--all", action="store_true", help="continue all, one after the other")
    command.add_argument(
        "--accept",
        action="store_true",
        help="take the result as it is, without frames that cannot be read, or with failed checks",
    )
    _json(command)


def _bench(add: Any) -> None:
    command = add(
        "bench",
        bench.run,
        "measure the speed of this machine",
        "examples:\n"
        "  python -m engine bench --quick                          what plans are made with\n"
        "  python -m engine bench optimisations --markdown page.md --picture bars.svg\n"
        "  python -m engine bench vae-decode --quick --profile trace.json\n"
        "  python -m engine bench lite pipeline\n"
        "  python -m engine bench vae --size 512x512 --frames 5 --without upsampler_fold\n"
        "  python -m engine bench vae --model wan21-vae --clip film.mkv --frames 9\n"
        "  python -m engine bench flicker --clip film.mkv --result film_x2.mkv\n"
        "  python -m engine bench first-contact --out DIR          a new GPU, in ten minutes\n\n"
        f"optimisations:\n{_names(model_switch_names())}\n",
    )
    command.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help="speed (which teaches the planner), lite, pipeline, colour, read, write, which are "
        "the default; models, vae (vae-encode, vae-decode, vae-parts; with a clip round-trip), "
        "dit (dit-3b, dit-7b), formats (-3b, -7b), seedvr2, seedvr2-job, streams, flicker, "
        "optimisations (-vae, -dit, -around, -claims), kernels, attention, products and vae-8bit, "
        "which take minutes on a processor; workers (several processes); facts; for a GPU "
        "kernel-errors, streaming, memory-pressure, gpu-tests; first-contact, which runs most of "
        "these and writes a page",
    )
    command.add_argument(
        "--quick",
        action="store_true",
        help="fewer runs and smaller work; without a case only speed, in less than a minute",
    )
    command.add_argument(
        "--json", dest="json_file", metavar="FILE", help="also write the figures to a file"
    )
    for name, what in (
        ("markdown", "also write a page with tables, without personal data"),
        ("picture", "also draw bars of the optimisations or of the models (SVG)"),
        ("profile", "also write a trace of one case for chrome://tracing and Perfetto"),
    ):
        command.add_argument(f"--{name}", metavar="FILE", help=what)
    command.add_argument("--out", metavar="DIR", help="folder of first-contact's page and figures")
    command.set_defaults(json=False)
    _video_models(command.add_argument_group("vae, dit, optimisations, kernels"))


def _names(names: Sequence[str]) -> str:
    return textwrap.fill(", ".join(names), 96, initial_indent="  ", subsequent_indent="  ")


def _video_models(group: Any) -> None:
    group.add_argument("--size", metavar="WxH", help="of a frame; 256x256, GPU 1024x1024; dit 720p")
    group.add_argument(
        "--model", choices=tuple(vae_models()), default="seedvr2-vae", help="default %(default)s"
    )
    group.add_argument(
        "--clip", metavar="FILE", help="a film: PSNR and SSIM of it there and back; flicker"
    )
    group.add_argument("--result", metavar="FILE", help="flicker: what was made of the clip")
    group.add_argument("--vae", metavar="FILE", help="your own file of the VAE, with --clip")
    group.add_argument(
        "--random-weights", action="store_true", help="time and memory with --clip, without a file"
    )
    group.add_argument(
        "--frames",
        type=int,
        action="append",
        metavar="N",
        help="of a clip; may be given several times",
    )
    group.add_argument("--dtype", choices=DTYPES, help="default float32, GPU float16")
    group.add_argument("--device", metavar="NAME", default="auto", help=DEVICE_HELP)
    group.add_argument("--threads", type=int, metavar="N", help="default: all")
    group.add_argument("--runs", type=int, metavar="N", help="the median counts; default 3, GPU 5")
    group.add_argument("--form", choices=("plain", "fast", "both"), default="both")
    for name, what in (("without", "without this optimisation"), ("only", "with it alone")):
        group.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"also the fast variant {what} (all: every one); may be given several times",
        )
    group.add_argument(
        "--no-memory", dest="memory", action="store_false", help="do not measure main memory"
    )


def _machine(add: Any) -> None:
    _bench(add)
    command = add("doctor", inspection.doctor, "look whether everything works on this machine")
    command.add_argument(
        "--zip",
        metavar="PATH",
        help="also write an archive for a report: this, logs, settings and plans of jobs",
    )
    command.add_argument(
        "--with-names", action="store_true", help="with names of files and titles of films in it"
    )
    _json(command)


def _json(command: Any, help: str = "print one JSON object") -> None:
    command.add_argument("--json", action="store_true", help=help)
