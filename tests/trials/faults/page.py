"""The table of figures in docs/reliability.md; a run replaces the rows of its groups."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from engine.hardware import devices
from tests.trials.faults.outcomes import KINDS

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
Row = tuple[str, str]  # group, row
Cells = tuple[str, ...]  # cases, each of KINDS, date, computer

_TEXT = """\
# Reliability

This page is written by `python -m tests.trials.faults`; a run replaces the rows of the groups that
it ran. Every case has a number, which seeds its random choices: `python -m tests.trials.faults
--only media --case 1234` repeats a case and shows how it ended. `--first 20000` runs the cases from
that number on instead of those from 0 on, with other choices.

- **media**: valid videos and images are damaged: bytes are changed, removed, repeated or inserted,
  integers set to their limits, boxes, elements or packets removed, duplicated or renamed. Each file
  is then probed, planned and decoded. **upscales**: the same files are processed by a whole job.
- **weights**: the same for weights and latents, including manipulated JSON and pickles with valid
  lengths and checksums; each file is examined as a user's file, and read. **community**: the same
  for community models; each is recognised, measured, read and, if still intact, run. **wheels**:
  the same for wheels of a runtime, half of them damaged only in their list of contents; each is
  measured and unpacked.
- **records**: presets, settings, jobs, segments, rates and hashes are damaged or get other values.
- **http**: a server gives malformed replies to a download or to an update check.
- **farm**: unknown computers send damaged messages to the ports that are open while computers are
  being paired or render a video together. The conversations are recorded or regenerated and sent
  through TLS with any certificate or none, and without TLS. Each contains code that would create a
  file. Every user declines, and both ports must still answer authorised computers afterwards.
- **kills**: a signal ends a job at a random time, once or twice, and the job is resumed; its result
  must equal that of an uninterrupted job packet by packet.
- **syscalls**: one system call of a job fails with ENOSPC, EIO, EACCES, EROFS or ENOMEM, or one
  memory allocation in FFmpeg's libraries fails; the job is then resumed and its result compared.
- **commands**: 50 random commands at random moments to an engine with up to four jobs that wait or
  run: 5,000 commands for each of three seeds, with `python -m tests.trials.faults --only commands`.
  Among them are commands that make no sense, commands in the last moments of a job, and the end
  of the program with its next start. Then every job has to end, each result must equal that of an
  undisturbed job packet by packet, and no other file may remain; the program must close within 5 s.
- **farm jobs**: three computers render a video, over TLS through relays with 20 ms and 100 Mbit/s.
  One of them dies, freezes, stalls while its connection lives, loses its link, fills its disk,
  sends wrong bytes, or has another version or other weights. The segments must equal those of a
  single process, and no file may remain on the computers. Measured once: a job of 30 spans of 1 s
  took 34.8 s alone, and 34.9 s with a computer that stalled in its second span.

*refused*: the case ended with an error code and a hint, and a job could be resumed. *FFmpeg
crashed*: its libraries crash after some failed allocations; these jobs were resumed as well, with
correct results. All counts from *internal error* on should be 0. *hang*: more than 10 s (60 for
community models), a job of *commands* that is stuck for 15 s, or a program that closes later than
it must. *incomplete*: a file with the final name is incomplete or wrong. *memory*: more
than 400 MiB (600) for a small file. *code ran*: a pickle executed code, or an unknown computer was
paired or received an answer, or a wheel wrote outside its folder.

"""


def read() -> dict[Row, Cells]:
    """Rows of the present page."""
    lines = PAGE.read_text("utf-8").splitlines() if PAGE.is_file() else []
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in lines if "|" in line]
    return {(cells[0], cells[1]): cells[2:] for cells in rows[2:]}


def merge(found: Mapping[Row, Counter[str]]) -> str:
    """The page with the rows of a run; those of other runs stay."""
    rows = read()
    for row, counts in found.items():
        figures = (counts.total(), *(counts[kind] for kind in KINDS))
        rows[row] = (*(f"{n:,}" for n in figures), date.today().isoformat(), _machine())
    head = ("group", "kind", "cases", *KINDS, "date", "computer")
    table = [head, ("---", "---", *("--:" for _ in range(len(KINDS) + 1)), "---", "---")]
    table += [(*row, *cells) for row, cells in sorted(rows.items())]
    return _TEXT + "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _machine() -> str:
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{devices.cpu_name()}, {devices.cpu_threads()} threads, {system}"
