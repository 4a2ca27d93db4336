"""The table of figures in docs/reliability.md: a run replaces the rows that it ran."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from engine.hardware import devices
from tests.faults.outcomes import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
Row = tuple[str, str]  # group, row
Cells = tuple[str, ...]  # cases, each of KINDS, date, machine

_TEXT = """\
# Reliability

Written by `python -m tests.faults`; a run replaces the rows of what it ran. Every case is a number,
the seed of all its chances: `python -m tests.faults --only media --case 1234` runs one again and
shows how it ended.

- **media**: a healthy film or picture with bytes flipped, cut, lost, repeated or inserted, integers
  at their limits, boxes, elements or packets lost, doubled or renamed; it is probed, planned and
  decoded. **upscales**: the same files through a whole job.
- **weights**: the same for weights and latents, with other JSON and other pickles whose lengths and
  checksums are right; each is described as a file of the user's, and read. **community**: the same
  for community models; each is recognised, measured, read and, if still whole, run.
- **records**: presets, settings, jobs, segments, rates and hashes with other values, or damaged.
- **http**: replies of a server that follows no standard, to a download and to a check for updates.
- **farm**: damaged messages of strangers to the ports that are open while computers are paired, or
  make a film together: conversations that were recorded, or made again, through TLS with any
  certificate or none, and without TLS. Each has code in it that would make a file, every user
  refuses, and after each both ports still have to answer to those that may speak with them.
- **kills**: a job that a signal ends at a random time, once or twice, and that is resumed; its
  result must equal, packet by packet, that of a job that nothing disturbed.
- **syscalls**: a job of which one call fails, each of them once with ENOSPC, EIO, EACCES, EROFS and
  ENOMEM, or one allocation in FFmpeg's libraries; then it is resumed, and its result compared.
- **farm jobs**: a job of which three machines make the film, over TLS through relays of 20 ms and
  100 Mbit/s; one machine dies, freezes, loses its link, fills its disk, sends wrong bytes, or has
  another version or other weights. The segments must equal those of one process, and nothing may be
  left on the machines.

*refused*: error with code and hint, after which a job could be resumed. *FFmpeg crashed*: its
libraries crash on some allocations that are refused to them; those jobs too were resumed, and their
results are right. From *internal error* on every count should be 0: *hang* is more than 10 s (of
community models 60), *incomplete* a file under the final name that is not whole or not right,
*memory* more than 400 MiB (600) for a small file, *code ran* a pickle that did something, or a
stranger that was paired or answered.

"""


def read() -> dict[Row, Cells]:
    """Rows of the page as it is."""
    lines = PAGE.read_text("utf-8").splitlines() if PAGE.is_file() else []
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in lines if "|" in line]
    return {(cells[0], cells[1]): cells[2:] for cells in rows[2:]}


def merge(found: Mapping[Row, Counter[str]]) -> str:
    """The page with the rows of a run; those of other runs stay."""
    rows = read()
    for row, counts in found.items():
        figures = (counts.total(), *(counts[kind] for kind in KINDS))
        rows[row] = (*(f"{n:,}" for n in figures), date.today().isoformat(), _machine())
    head = ("group", "kind", "cases", *KINDS, "date", "machine")
    table = [head, ("---", "---", *("--:" for _ in range(len(KINDS) + 1)), "---", "---")]
    table += [(*row, *cells) for row, cells in sorted(rows.items())]
    return _TEXT + "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _machine() -> str:
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{devices.cpu_name()}, {devices.cpu_threads()} threads, {system}"
