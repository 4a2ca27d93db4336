"""`bench`: the speed of this computer, measured now."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from engine.bench.options import BenchOptions, check
from engine.bench.report import markdown
from engine.bench.report.machine import write_file
from engine.bench.report.svg_chart import check_chart, write_chart
from engine.cli.context import DONE, CommandContext
from engine.cli.options import parse_size
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.core.plain_text import one_line

_WIDTH = 100  # characters


def run(args: argparse.Namespace, context: CommandContext) -> int:
    """Measure and show a table; write the figures, a page, a chart or a trace on request."""
    options = options_of(args)
    _check(args)
    with _traced(args):
        rows = context.services.bench(args.cases, options, context.console.note)
    context.console.say(*table(rows).split("\n"))
    if args.json_file is not None:
        write_file(Path(args.json_file), json.dumps({"results": rows}, indent=1) + "\n")
    if args.markdown is not None:
        write_file(Path(args.markdown), markdown.markdown(rows, command(args)))
    if args.picture is not None:
        write_chart(Path(args.picture), rows)
    return DONE


def command(args: argparse.Namespace) -> str:
    """The command line, without names of files."""
    words = ["bench", *args.cases, *(["--quick"] if args.quick else [])]
    for name in ("size", "dtype", "runs", "threads"):
        value = getattr(args, name)
        words += [f"--{name} {value}"] if value is not None else []
    return " ".join(words)


def _check(args: argparse.Namespace) -> None:
    """Refuse what would only be found after minutes of measuring.

    Raises:
        SettingsError: A chart or a trace that is not possible.
    """
    if args.picture is not None:
        check_chart(Path(args.picture))
    if args.profile is not None:
        _check_trace(args.cases)


def _check_trace(cases: Sequence[str]) -> None:
    """A trace is of one case, and not of one that uses torch's profiler itself."""
    if len(cases) != 1:
        raise SettingsError("trace-of-many-cases")
    if cases[0].startswith(("optimisations", "models", "community")):
        raise SettingsError("trace-not-possible", case=cases[0])


def _traced(args: argparse.Namespace) -> AbstractContextManager[None]:
    if args.profile is None:
        return nullcontext()
    from engine.bench.timing.profiler import traced

    return traced(Path(args.profile))


def options_of(args: argparse.Namespace) -> BenchOptions:
    """Options out of the arguments.

    Raises:
        SettingsError: An unreadable size, or a switch that does not exist.
    """
    options = BenchOptions(
        quick=args.quick,
        size=None if args.size is None else Size(*parse_size(args.size)),
        frames=tuple(args.frames or ()),
        dtype=args.dtype,
        runs=args.runs,
        threads=args.threads,
        device=args.device,
        form=args.form,
        without=tuple(args.without),
        only=tuple(args.only),
        memory=args.memory,
        model=args.model,
        clip=None if args.clip is None else Path(args.clip),
        result=None if args.result is None else Path(args.result),
        vae=None if args.vae is None else Path(args.vae),
        random_weights=args.random_weights,
        out=None if args.out is None else Path(args.out),
    )
    check(options)
    return options


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures as text: a block for each case, a column for each name in it.

    A block wider than a terminal is transposed. Optimisations have a table of their own.
    """
    blocks = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case and "switch" not in row]
        if mine:
            blocks.append("\n".join([case, *(f"  {line}" for line in _block(mine))]))
    lines = markdown.switch_lines(rows)
    return "\n\n".join([*blocks, *(["\n".join(lines)] if lines else [])])


def _block(rows: Sequence[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row if name != "case"))
    grid = [
        names,
        *([one_line(markdown.cell(row.get(name, ""))) for name in names] for row in rows),
    ]
    lines = markdown.aligned(grid)
    if len(lines[0]) > _WIDTH:
        lines = markdown.aligned(list(zip(*grid, strict=True)))
    return lines
