"""Measures figures of this tree, beside those of another commit in the same run.

    python -m tools.figures --against COMMIT [--only NAME ...] [--turns N] [--json]
    python -m tools.figures [--only NAME ...] [--turns N] [--json]

Both trees are measured in turns by the code of this one, so a slow or busy machine disturbs both
alike: what counts is the ratio of medians, before over now. What looks worse gets as many turns
again. Without another commit only limits are checked. Exit status 1 when a figure became worse
than its tolerance allows, passed its limit, or could not be measured in this tree.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from tools.figures import idle, jobs, load, planning, start, window
from tools.figures.child import Children, FigureFailed, children
from tools.figures.comparison import Line, compare
from tools.figures.figure import Figure, named
from tools.figures.trees import ROOT, NoSuchCommit, tree_of


def _models(children: Children) -> dict[str, float]:
    return children.figures("-m", "tools.figures.models", "speed")


def _quality(children: Children) -> dict[str, float]:
    return children.figures("-m", "tools.figures.models", "quality")


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that are measured together.

    Attributes:
        measure: One turn.
        turns: Usual number of turns.
        compiles: Whether the first turn compiles Python files, and does not count.
    """

    measure: Callable[[Children], dict[str, float]]
    turns: int
    compiles: bool = True


MEASURES = {
    "start": Group(start.measure, 9),
    "window": Group(window.measure, 6),
    "idle": Group(idle.measure, 1, compiles=False),
    "load": Group(load.measure, 1, compiles=False),
    "planning": Group(planning.measure, 9),
    "models": Group(_models, 5, compiles=False),
    "quality": Group(_quality, 1, compiles=False),
    "jobs": Group(jobs.measure, 5),
    "package": Group(start.measure_package, 1, compiles=False),
}


@dataclass(slots=True)
class Tree:
    """A tree, its measured turns by figure, and what went wrong by group."""

    children: Children
    turns: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare, print; the exit status."""
    options = _parse(arguments)
    with ExitStack() as stack:
        roots = [ROOT]
        try:
            if options.against:
                roots.append(stack.enter_context(tree_of(options.against)))
        except NoSuchCommit as err:
            sys.stderr.write(f"{err}\n")
            return 2
        here, *others = (Tree(one) for one in stack.enter_context(children(*roots)))
        there = others[0] if others else None
        _measure(options.figures, here, there, options.turns)
        lines = _lines(options.figures, here, there)
        suspects = [line.figure for line in lines if line.is_fault]
        if suspects:
            _progress(f"again: {', '.join(figure.name for figure in suspects)}")
            _measure(suspects, here, there, options.turns)
    lines = _lines(options.figures, here, there)
    _print(lines, here, there, as_json=options.json)
    return 1 if here.failures or any(line.is_fault for line in lines) else 0


def _measure(figures: Sequence[Figure], here: Tree, there: Tree | None, turns: int) -> None:
    """Add turns of all groups of some figures, the trees one after the other in each turn."""
    trees = [here] if there is None else [there, here]
    for name in dict.fromkeys(figure.group for figure in figures):
        group, begin = MEASURES[name], time.monotonic()
        for turn in range(group.compiles + (turns or group.turns)):
            is_counted = turn >= group.compiles
            for tree in trees[:: 1 if turn % 2 else -1]:
                _turn(name, group, tree, is_counted=is_counted)
        _progress(f"{name}: {time.monotonic() - begin:.0f} s")


def _turn(name: str, group: Group, tree: Tree, *, is_counted: bool) -> None:
    if name in tree.failures:
        return
    try:
        found = group.measure(tree.children)
    except FigureFailed as err:
        tree.failures[name] = str(err)
        return
    if is_counted:
        for figure, value in found.items():
            tree.turns.setdefault(figure, []).append(value)


def _lines(figures: Sequence[Figure], here: Tree, there: Tree | None) -> list[Line]:
    return compare(figures, None if there is None else there.turns, here.turns)


def _print(lines: Sequence[Line], here: Tree, there: Tree | None, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(_data(lines, here, there), indent=2) + "\n")
        return
    for row in _table(lines):
        sys.stdout.write(f"{row}\n")
    for tree, where in ((there, " there"), (here, "")):
        for group, why in ({} if tree is None else tree.failures).items():
            sys.stdout.write(f"{group} failed{where}: {why}\n")
    faults = [line for line in lines if line.is_fault]
    for line in faults:
        sys.stdout.write(f"{line.figure.name} is {line.verdict}: {_sentence(line)}\n")
    if not faults and not here.failures:
        sys.stdout.write("No figure became worse.\n")


def _table(lines: Sequence[Line]) -> Iterator[str]:
    yield _row("figure", "unit", "before", "now", "ratio", "limit", "")
    for line in lines:
        ratio = "" if line.ratio is None else f"{line.ratio:.3f}"
        figure = line.figure
        yield _row(
            *(figure.name, figure.unit, _number(line.before), _number(line.now)),
            *(ratio, _number(figure.limit), line.verdict),
        )


def _row(name: str, unit: str, *cells: str) -> str:
    *values, verdict = cells
    return f"{name:36} {unit:3}{''.join(f'{cell:>10}' for cell in values)}  {verdict}".rstrip()


def _sentence(line: Line) -> str:
    unit = line.figure.unit
    now, limit = _number(line.now), _number(line.figure.limit)
    if line.verdict == "worse":
        return f"{now} {unit}, before {_number(line.before)} {unit}"
    return f"{now} {unit}, the limit is {limit} {unit}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _data(lines: Sequence[Line], here: Tree, there: Tree | None) -> dict[str, object]:
    before = {} if there is None else there.turns
    rows = [
        {
            "name": line.figure.name,
            "unit": line.figure.unit,
            "about": line.figure.about,
            "before": line.before,
            "now": line.now,
            "ratio": line.ratio,
            "limit": line.figure.limit,
            "verdict": line.verdict,
            "turns_before": before.get(line.figure.name, []),
            "turns_now": here.turns.get(line.figure.name, []),
        }
        for line in lines
    ]
    failures = {"here": here.failures, "there": {} if there is None else there.failures}
    return {"machine": _machine(), "figures": rows, "failures": failures}


def _machine() -> str:
    """CPU, system and Python."""
    from engine.hardware import devices

    threads = devices.cpu_threads()
    return (
        f"{devices.cpu_name()}, {threads} threads, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--against", default="", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="figures or groups")
    parser.add_argument("--turns", type=int, default=0, metavar="N", help="turns of each group")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        options.figures = named(options.only)
    except ValueError as err:
        parser.error(str(err))
    return options


if __name__ == "__main__":
    sys.exit(main())
