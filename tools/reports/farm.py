"""How many workers one film can have, as a page, of what `bench farm --json` recorded.

`python -m tools.reports.farm > docs/benchmarks/farm.md` writes it of docs/benchmarks/farm-*.json.
Nothing is measured for it: the simulation runs again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.bench.cases.farm import COUNTS, FASTER, LINKS, Recorded, film_of
from engine.bench.report.machine import machine_of
from engine.bench.report.markdown import piped
from engine.planner.simulation import Simulated, simulate

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "benchmarks"
PAGE = FIGURES / "farm.md"
_PARTS = {  # what may limit, in the order of the work
    "survey": "the host reads the film ahead",
    "host": "the host hands spans out (Dask, TLS) and takes what comes back",
    "link": "the host's link, which all share",
    "join": "the host joins the film and compares it with the source",
}
_HEAD = """# Many workers at one film

Simulated, with times that a job of one worker took: up to 64 workers make a film of two hours. Made
by `python -m tools.reports.farm > docs/benchmarks/farm.md` of what `python -m engine bench farm
--json FILE` recorded, the files farm-*.json in this folder. Times are CPU seconds, for the machine
had other work; no farm of several machines has been measured.

A film is cut into spans as the planner does. The host reads it ahead, hands spans out one by one
and, at the end, joins and compares; workers fetch their part of the source, compute, and send the
result back through one link of the host. Efficiency is the speed for each worker, next to that of
one with the same link.
"""
_CLOCK = """Dask with workers that only wait, and the recorded job with real ones, by the clock. Up
to 4 the simulation is to be within 15 %. All run on this one machine: where it has other work, rows
of 16 and 64 show how long it takes to run so many at once, and most of the time of real ones is
their start, which their first row gives.
"""
_WORDS = """## Where the limit is

A part that takes so long for each span that a worker has computed the next one meanwhile can serve
one worker, and so on. The table has how many workers each part could keep busy, were it alone; the
smallest figure of a column is the limit, and half of it still has good efficiency. Joining and
comparing count as if they were done span by span; as they come at the end, they do not stop
anybody, but the film waits for them.

- Slow workers (a processor, a GPU with a large model) are limited by nothing but the comparison at
  the end, which the host does by itself.
- Workers that are ten or a hundred times as fast wait for the host as well: more of them help
  little.
- A slow link counts once results of all workers together fill it. Results are compressed (H.264
  here); lossless ones are many times as large.
- Handing out is no limit at any of these sizes: spans take seconds, and the host hands out some
  hundred in one.
"""


def main() -> None:
    """Write the page of every file there is."""
    sys.stdout.write(page())


def page() -> str:
    """The page."""
    files = sorted(FIGURES.glob("farm-*.json"))
    return "\n".join((_HEAD, *(line for file in files for line in _of_one(file)), _WORDS, ""))


def _of_one(file: Path) -> Iterator[str]:
    rows = json.loads(file.read_text(encoding="utf-8"))["results"]
    times: dict[str, Any] = next(row for row in rows if "recorded" in row)
    facts = machine_of(rows)
    yield f"## {facts['processor']}, {facts['threads']} threads, {facts['system']}\n"
    yield (
        f"Lite 2x of {times['width']}x{times['height']} on one thread: {times['span_s']:.2f} s a "
        f"frame. {times['result_bytes'] / 1000:.0f} kB a frame come back, "
        f"{times['source_bytes'] / 1000:.1f} kB go out. A span costs the host "
        f"{1000 * times['host_s']:.1f} ms: it can hand out {1 / times['host_s']:.0f} a second.\n"
    )
    for faster in FASTER:
        yield f"### {_speed(faster)}\n"
        yield from piped([("link", *map(str, COUNTS)), *_lines(times, faster)])
        yield ""
    yield "### Workers that each part could keep busy\n"
    yield from piped([("part", *(_speed(one) for one in FASTER)), *_most(times)])
    yield ""
    yield "### The simulation next to what it simulates\n"
    yield _CLOCK
    yield from piped([("workers", "measured, s", "simulated, s", "ratio"), *_compared(rows)])
    yield ""


def _speed(faster: int) -> str:
    return "as recorded" if faster == 1 else f"{faster} times as fast"


def _lines(times: Recorded, faster: int) -> Iterator[tuple[str, ...]]:
    for name, link in LINKS.items():
        found = [simulate(film_of(times, count, faster), count * (1.0,), link) for count in COUNTS]
        yield name, *(_cell(one, found[0]) for one in found)


def _cell(found: Simulated, one: Simulated) -> str:
    limit = "" if found.limit == "workers" else f", {found.limit}"
    return f"{100 * found.efficiency(one):.0f} %{limit}"


def _most(times: Recorded) -> Iterator[tuple[str, ...]]:
    for part, meaning in _PARTS.items():
        if part == "link":
            for name, link in LINKS.items():
                if link.mbit_s:
                    seconds = link.sending_s(max(times["result_bytes"], times["source_bytes"]))
                    yield f"{name}: {meaning}", *_counts(times["span_s"], seconds)
            continue
        frames = film_of(times, COUNTS[-1]).span_s[0] / times["span_s"] if part == "host" else 1.0
        yield meaning, *_counts(times["span_s"], times[f"{part}_s"] / frames)


def _counts(span_s: float, part_s: float) -> Iterator[str]:
    return (f"{span_s / faster / part_s:,.1f}" for faster in FASTER)


def _compared(rows: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for kind in ("waiting", "real"):
        for row in rows:
            if f"{kind}_workers" in row:
                figures = (f"{row[name]:.1f}" for name in ("measured_s", "simulated_s"))
                yield f"{row[f'{kind}_workers']} {kind}", *figures, f"{row['ratio']:.2f}"


if __name__ == "__main__":
    main()
