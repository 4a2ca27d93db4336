"""A page of how many workers can help with one video, from records of `bench farm --json`.

`python -m tools.reports.farm > docs/benchmarks/farm.md` writes it from docs/benchmarks/farm-*.json.
Nothing is measured for it: the simulation runs again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.bench.cases.farm import COUNTS, FASTER, LINKS, Recorded, Simulated, film_of, simulate
from engine.bench.report import machine_of, piped

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "benchmarks"
PAGE = FIGURES / "farm.md"
_PARTS = {  # possible limits, in the order of the work
    "survey": "the host scans the video ahead",
    "host": "the host assigns spans and receives results (Dask, TLS)",
    "link": "the host's link, which all workers share",
    "join": "the host joins the result and compares it with the source",
}
_HEAD = """# Many workers for one video

This page simulates how up to 64 workers render a video of two hours, from the recorded times of a
job with one worker. It is written by `python -m tools.reports.farm > docs/benchmarks/farm.md` from
the files farm-*.json in this folder, which `python -m engine bench farm --json FILE` recorded.
Times are CPU seconds, because the computer had other work. Several computers have not been measured
yet.

The video is cut into spans in the same way as by the planner. The host scans the video ahead,
assigns spans one by one and, at the end, joins the result and compares it with the source. Workers
download their part of the source, compute, and send the result back; all of them share the host's
network link. Efficiency is the speed per worker, relative to a single worker with the same link. A
cell also names the part that limits the speed, unless it is the workers.
"""
_CLOCK = """Elapsed time of Dask with workers that only wait, and of the recorded job with real
workers. Up to 4 workers the simulation must be within 15 %. All workers run on one computer: if it
has other work, the rows of 16 and 64 workers show how long it takes to run that many at once. Real
workers spend most of the time on starting, which their first row shows.
"""
_WORDS = """## Where the limit is

If a part of the host's work takes as long per span as a worker needs for a span, it can keep one
worker busy; if it takes half as long, two workers. The table shows this number for each part by
itself. The smallest figure of a column is the limit; up to half of it efficiency is good. Joining
and comparing are counted as if they were done span by span. They come at the end, so they do not
delay any worker, but the result has to wait for them.

- Slow workers (a CPU, or a GPU with a large model) are limited only by the comparison at the end,
  which the host does by itself.
- Workers that are ten or a hundred times as fast have to wait for the host as well; adding more of
  them helps little.
- A slow link becomes a limit once the results of all workers fill it. Results are compressed (here
  with H.264); lossless results are many times as large.
- Assigning spans is no limit at any of these sizes: a span takes seconds, and the host assigns some
  hundreds of spans per second.
"""


def main() -> None:
    """Write the page of all recorded files."""
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
        f"Lite 2x from {times['width']}x{times['height']} on one thread: {times['span_s']:.2f} s "
        f"per frame. Per frame {times['source_bytes'] / 1000:.1f} kB are sent and "
        f"{times['result_bytes'] / 1000:.0f} kB received. A span costs the host "
        f"{1000 * times['host_s']:.1f} ms, so it can assign {1 / times['host_s']:.0f} per second.\n"
    )
    for faster in FASTER:
        yield f"### {_speed(faster)}\n"
        yield from piped([("link", *map(str, COUNTS)), *_lines(times, faster)])
        yield ""
    yield "### Workers that each part could keep busy\n"
    yield from piped([("part", *(_speed(one) for one in FASTER)), *_most(times)])
    yield ""
    yield "### Simulated and measured times\n"
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
