"""`bench`: how fast this machine is, measured here and now."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.cli.context import DONE, Context
from engine.errors import OutputUnwritable


def run(args: argparse.Namespace, context: Context) -> int:
    """Measure and show a table; `--json FILE` also writes the figures."""
    rows = context.services.bench(args.cases, args.quick, context.console.note)
    context.console.say(table(rows))
    if args.json_file is not None:
        _write(Path(args.json_file), rows)
    return DONE


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures as text: a block for each case, a column for each name in it."""
    blocks = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        names = list(dict.fromkeys(name for row in mine for name in row if name != "case"))
        lines = [names, *([_cell(row.get(name, "")) for name in names] for row in mine)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
        text = (
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines
        )
        blocks.append("\n".join([case, *(f"  {line.rstrip()}" for line in text)]))
    return "\n\n".join(blocks)


def _cell(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    try:
        path.write_text(json.dumps({"results": rows}, indent=1) + "\n", encoding="utf-8")
    except OSError as err:
        raise OutputUnwritable(
            f"{path} cannot be written.", hint=err.strerror or str(err), path=path
        ) from err
