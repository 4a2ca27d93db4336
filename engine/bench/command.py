"""`bench`: the speed of this computer, measured now."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

from engine.bench import report, run
from engine.bench.chart import check_chart, write_chart
from engine.bench.report import write_file
from engine.bench.run import DTYPES, BenchOptions, vae_models
from engine.cli.context import DONE, CommandContext
from engine.cli.options import DEVICE_HELP, parse_size
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.core.messages import Message
from engine.settings.optimisations import model_switch_names


def register(add: Callable[..., Any]) -> None:
    """Add the command."""
    names = ", ".join(model_switch_names())
    listed = textwrap.fill(names, 96, initial_indent="  ", subsequent_indent="  ")
    command = add(
        "bench",
        bench,
        "measure the speed of this computer",
        "examples:\n"
        "  python -m engine bench --quick                          the speed that plans use\n"
        "  python -m engine bench optimisations --markdown page.md --picture bars.svg\n"
        "  python -m engine bench vae-decode --quick --profile trace.json\n"
        "  python -m engine bench lite pipeline\n"
        "  python -m engine bench vae --size 512x512 --frames 5 --without upsampler_fold\n"
        "  python -m engine bench vae --model wan21-vae --clip video.mkv --frames 9\n"
        "  python -m engine bench flicker --clip video.mkv --result video_x2.mkv\n\n"
        f"optimisations:\n{listed}\n",
    )
    command.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help=_cases_help(),
    )
    command.add_argument(
        "--quick",
        action="store_true",
        help="fewer runs and smaller tasks; without a case only speed, in less than a minute",
    )
    command.add_argument(
        "--json",
        dest="json_file",
        type=Path,
        metavar="FILE",
        help="also write the results to a file",
    )
    for name, what in (
        ("markdown", "also write a page with tables, without personal data"),
        ("picture", "also draw a chart of the optimisations or models (SVG)"),
        ("profile", "also write a trace of one case for chrome://tracing and Perfetto"),
    ):
        command.add_argument(f"--{name}", type=Path, metavar="FILE", help=what)
    command.set_defaults(json=False)
    _video_models(command.add_argument_group("vae, dit, optimisations, kernels"))


def _cases_help() -> str:
    """Names of all cases and groups."""
    grouped = {name for names in run.GROUPS.values() for name in names}
    usual = [name for name, case in run.CASES.items() if case.is_default]
    groups = [f"{group} ({', '.join(names)})" for group, names in run.GROUPS.items()]
    others = [name for name in run.CASES if name not in (*usual, *grouped)]
    return (
        f"default: {', '.join(usual)} (plans use the speed); others, some of which take minutes on "
        f"a CPU or need a GPU: {', '.join((*groups, *others))}; `measure` runs most of these"
    )


def register_measure(add: Callable[..., Any]) -> None:
    """Add the command `measure`."""
    command = add(
        "measure",
        measure,
        "measure this PC in ten minutes, and write one archive for a report",
        "The archive has figures of GPU and CPU, self-test, settings, logs and plans, without\n"
        "names of videos and folders. Close other programs that use the GPU. After Ctrl+C, run it\n"
        "again to continue.\n",
    )
    command.add_argument(
        "archive",
        nargs="?",
        type=Path,
        metavar="ZIP",
        help="archive to write; default: upreel-measured-DATE.zip in the current folder",
    )
    command.add_argument(
        "--continue",
        dest="goes_on",
        action="store_true",
        help="keep what the last complete run measured, and measure the rest for ten minutes more",
    )
    command.add_argument("--device", metavar="NAME", default="auto", help=DEVICE_HELP)
    command.set_defaults(json=False)


def measure(args: argparse.Namespace, context: CommandContext) -> int:
    """Measure part by part, and say where the archive is; also after Ctrl+C."""
    from engine.bench import first_contact  # torch

    options = BenchOptions(device=args.device)
    options.check()
    path = args.archive or Path(f"upreel-measured-{date.today().isoformat()}.zip")

    def report(done: int, total: int, step: Message | None) -> None:
        if step is not None:
            context.console.note(f"{done + 1} of {total}: {step}")

    first_contact.measure(path, options, goes_on=args.goes_on, report=report)
    context.console.say(f"Written: {path}")
    return DONE


def _video_models(group: Any) -> None:
    group.add_argument(
        "--size", metavar="WxH", help="frame size; default 256x256, GPU 1024x1024; dit 720p"
    )
    group.add_argument(
        "--model", choices=tuple(vae_models()), default="seedvr2-vae", help="default %(default)s"
    )
    group.add_argument(
        "--clip",
        type=Path,
        metavar="FILE",
        help="video for PSNR and SSIM after encoding and decoding, and for flicker",
    )
    group.add_argument(
        "--result", type=Path, metavar="FILE", help="flicker: the result of the clip"
    )
    group.add_argument(
        "--vae", type=Path, metavar="FILE", help="your own file of the VAE, with --clip"
    )
    group.add_argument(
        "--random-weights",
        action="store_true",
        help="with --clip: measure time and memory without a model file",
    )
    group.add_argument(
        "--frames",
        type=int,
        action="append",
        metavar="N",
        help="number of frames of a clip; can be repeated",
    )
    group.add_argument("--dtype", choices=DTYPES, help="default float32, GPU float16")
    group.add_argument("--device", metavar="NAME", default="auto", help=DEVICE_HELP)
    group.add_argument("--threads", type=int, metavar="N", help="default: all")
    group.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help="number of runs, of which the median is used; default 3, GPU 5",
    )
    group.add_argument("--form", choices=("plain", "fast", "both"), default="both")
    for name, what in (("without", "without this optimisation"), ("only", "with only this one")):
        group.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"also measure the fast variant {what} (all: each one); can be repeated",
        )
    group.add_argument(
        "--no-memory", dest="memory", action="store_false", help="do not measure RAM"
    )


def bench(args: argparse.Namespace, context: CommandContext) -> int:
    """Measure and show a table; write the figures, a page, a chart or a trace on request."""
    options = options_of(args)
    with ExitStack() as trace:
        if args.picture is not None:  # refused now, not after minutes of measuring
            check_chart(args.picture)
        for path in (args.json_file, args.markdown, args.picture):
            if path is not None:
                report.check_place(path)
        if args.profile is not None:
            if len(args.cases) != 1:
                raise SettingsError("trace-of-many-cases")
            if args.cases[0].startswith(("optimisations", "models", "community")):
                raise SettingsError("trace-not-possible", case=args.cases[0])  # they use it, too
            from engine.bench.memory import traced  # torch

            trace.enter_context(traced(args.profile))
        rows = run.run(args.cases, options=options, report=context.console.note)
    context.console.say(*report.text(rows).split("\n"))
    if args.json_file is not None:
        write_file(args.json_file, json.dumps({"results": rows}, indent=1) + "\n")
    if args.markdown is not None:
        write_file(args.markdown, report.markdown(rows, command(args)))
    if args.picture is not None:
        write_chart(args.picture, rows)
    return DONE


def command(args: argparse.Namespace) -> str:
    """The command line, without names of files."""
    words = ["bench", *args.cases, *(["--quick"] if args.quick else [])]
    for name in ("size", "dtype", "runs", "threads"):
        value = getattr(args, name)
        words += [f"--{name} {value}"] if value is not None else []
    return " ".join(words)


def options_of(args: argparse.Namespace) -> BenchOptions:
    """Options out of the arguments."""
    given = {one.name: getattr(args, one.name) for one in fields(BenchOptions) if one.name in args}
    for name in ("frames", "without", "only"):
        given[name] = tuple(given[name] or ())
    if args.size is not None:
        given["size"] = Size(*parse_size(args.size))
    options = BenchOptions(**given)
    options.check()
    return options
