"""Measures every figure that has a limit, and compares with `docs/figures.json`.

    python -m tools.figures [--only NAME ...] [--json]
    python -m tools.figures --write --reason TEXT [--only NAME ...]

Seconds are those of the reference machine: each figure is divided by a calibration of the same run
(`calibration`), so that a slower or busier machine does not look like a slower program. What looks
worse, and each figure of a new baseline, is measured a second time, and the better of both counts.
Exit status 1 when a figure became worse than its tolerance allows, passed its limit, or could not
be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from tools.figures import baseline as base
from tools.figures import idle, jobs, planning, start, window
from tools.figures.child import Children, FigureFailed, children
from tools.figures.figure import FIGURES, Figure, named


def _models(children: Children) -> dict[str, float]:
    return children.figures("-m", "tools.figures.models", "speed")


def _quality(children: Children) -> dict[str, float]:
    return children.figures("-m", "tools.figures.models", "quality")


MEASURES: dict[str, Callable[[Children], dict[str, float]]] = {
    "start": start.measure,
    "window": window.measure,
    "idle": idle.measure,
    "planning": planning.measure,
    "models": _models,
    "quality": _quality,
    "jobs": jobs.measure,
    "package": start.measure_package,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare, print; the exit status."""
    options = _parse(arguments)
    baseline = base.load()
    with children() as processes:
        values, failures = _measured(options.figures, processes)
        lines = base.compare(options.figures, baseline, values)
        suspects = options.figures if options.write else _suspects(lines)
        if suspects:
            _progress(f"again: {', '.join(figure.name for figure in suspects)}")
            again, _ = _measured(suspects, processes)
            values |= base.better_of(suspects, values, again)
    if options.write:
        base.save(baseline.moved(values, options.reason), FIGURES)
    lines = base.compare(options.figures, baseline, values)
    _print(lines, failures, as_json=options.json)
    if options.write:
        return 1 if failures else 0
    return 1 if failures or any(line.is_fault for line in lines) else 0


def _measured(
    figures: Sequence[Figure], processes: Children
) -> tuple[dict[str, float], dict[str, str]]:
    """Values by name, and what went wrong by group."""
    wanted = {figure.name for figure in figures}
    values: dict[str, float] = {}
    failures: dict[str, str] = {}
    for group in dict.fromkeys(figure.group for figure in figures):
        begin = time.monotonic()
        try:
            values |= MEASURES[group](processes)
        except FigureFailed as err:
            failures[group] = str(err)
        _progress(f"{group}: {time.monotonic() - begin:.0f} s")
    return {name: value for name, value in values.items() if name in wanted}, failures


def _suspects(lines: Sequence[base.Line]) -> list[Figure]:
    return [line.figure for line in lines if line.is_fault]


def _print(lines: Sequence[base.Line], failures: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(_data(lines, failures), indent=2) + "\n")
        return
    for row in _table(lines):
        sys.stdout.write(f"{row}\n")
    for group, why in failures.items():
        sys.stdout.write(f"{group} failed: {why}\n")
    faults = [line for line in lines if line.is_fault]
    for line in faults:
        sys.stdout.write(f"{line.figure.name} is {line.verdict}: {_sentence(line)}\n")
    if not faults and not failures:
        sys.stdout.write("No figure became worse.\n")


def _table(lines: Sequence[base.Line]) -> Iterator[str]:
    yield _row("figure", "unit", "baseline", "now", "ratio", "limit", "")
    for line in lines:
        ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
        figure = line.figure
        yield _row(
            *(figure.name, figure.unit, _number(line.baseline), _number(line.now)),
            *(ratio, _number(figure.limit), line.verdict),
        )


def _row(name: str, unit: str, *cells: str) -> str:
    *values, verdict = cells
    return f"{name:28} {unit:3}{''.join(f'{cell:>10}' for cell in values)}  {verdict}".rstrip()


def _sentence(line: base.Line) -> str:
    unit = line.figure.unit
    now, limit = _number(line.now), _number(line.figure.limit)
    if line.verdict == "worse":
        return f"{now} {unit}, the baseline has {_number(line.baseline)} {unit}"
    return f"{now} {unit}, the limit is {limit} {unit}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _data(lines: Sequence[base.Line], failures: Mapping[str, str]) -> dict[str, object]:
    rows = [
        {
            "name": line.figure.name,
            "unit": line.figure.unit,
            "about": line.figure.about,
            "baseline": line.baseline,
            "now": line.now,
            "ratio": line.ratio,
            "limit": line.figure.limit,
            "verdict": line.verdict,
        }
        for line in lines
    ]
    return {"machine": base.machine(), "figures": rows, "failures": dict(failures)}


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="figures or groups")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="make this the baseline")
    parser.add_argument("--reason", default="", help="why the baseline moves")
    options = parser.parse_args(arguments)
    if options.write and not options.reason.strip():
        parser.error("--write needs --reason: the baseline moves only with one")
    try:
        options.figures = named(options.only)
    except ValueError as err:
        parser.error(str(err))
    return options


if __name__ == "__main__":
    sys.exit(main())
