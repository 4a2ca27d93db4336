"""`bench`: how fast this machine is, measured here and now."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.bench.options import BenchOptions, check
from engine.cli.context import DONE, Context
from engine.cli.options import parse_size
from engine.errors import OutputUnwritable
from engine.geometry import Size

_WIDTH = 100  # characters


def run(args: argparse.Namespace, context: Context) -> int:
    """Measure and show a table; `--json FILE` also writes the figures."""
    rows = context.services.bench(args.cases, options_of(args), context.console.note)
    context.console.say(table(rows))
    if args.json_file is not None:
        _write(Path(args.json_file), rows)
    return DONE


def options_of(args: argparse.Namespace) -> BenchOptions:
    """What the words of the command line ask for.

    Raises:
        SettingsError: A size that is none, or a switch that does not exist.
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
        vae=None if args.vae is None else Path(args.vae),
        random_weights=args.random_weights,
    )
    check(options)
    return options


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures as text: a block for each case, a column for each name in it.

    A block that is wider than a terminal is turned: a line for each name.
    """
    blocks = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        names = list(dict.fromkeys(name for row in mine for name in row if name != "case"))
        grid = [names, *([_cell(row.get(name, "")) for name in names] for row in mine)]
        lines = _aligned(grid)
        if len(lines[0]) > _WIDTH:
            lines = _aligned(list(zip(*grid, strict=True)))
        blocks.append("\n".join([case, *(f"  {line}" for line in lines)]))
    return "\n\n".join(blocks)


def _aligned(grid: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in grid
    ]


def _cell(value: object) -> str:
    """Three digits that count: ratios are below ten."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    try:
        path.write_text(json.dumps({"results": rows}, indent=1) + "\n", encoding="utf-8")
    except OSError as err:
        raise OutputUnwritable(
            f"{path} cannot be written.", hint=err.strerror or str(err), path=path
        ) from err
