"""`python -m tests.trials.faults`: many cases of each group, for docs/reliability.md."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.trials.faults import page
from tests.trials.faults.group import Group, Unavailable
from tests.trials.faults.groups import GROUPS
from tests.trials.faults.outcomes import KINDS, Outcome
from tests.trials.faults.pool import run_cases

_SHOWN = 5  # cases of one kind of failure


def main() -> int:
    """Run; the exit status is 1 when something ended as nothing may."""
    options = _parse()
    if options.case is not None:
        return _one(GROUPS[options.only[0]], options.case, options.times)
    found: dict[page.Row, Counter[str]] = {}
    share = options.seconds / len(options.only)
    for name in options.only:
        group = GROUPS[name]
        try:
            cases = range(options.first, options.first + (options.count or group.usual))
            found |= _run(group, cases, options.jobs, share)
        except Unavailable as err:
            print(f"{name}: skipped, {err}")
    if options.page:
        page.PAGE.write_text(page.merge(found), encoding="utf-8")
    return int(any(Outcome(kind).is_bad for counts in found.values() for kind in counts))


def _run(
    group: type[Group], cases: Iterable[int], jobs: int, seconds: float
) -> dict[page.Row, Counter[str]]:
    """Counts of each row; what went wrong is printed."""
    counts: dict[page.Row, Counter[str]] = defaultdict(Counter)
    failures: dict[str, list[int]] = defaultdict(list)

    def keep(number: int, outcome: Outcome) -> None:
        if outcome.kind:
            counts[group.name, group.row(number)][outcome.kind] += 1
        if outcome.is_bad:
            failures[re.sub(r"'[^']*'|\d+|E[A-Z]{4,}", "#", outcome.text)].append(number)

    begin = time.monotonic()
    run_cases(group, cases, keep, jobs=jobs, seconds=seconds)
    passed = time.monotonic() - begin
    total = sum(counts.values(), Counter[str]())
    figures = ", ".join(f"{total[kind]} {kind}" for kind in KINDS if total[kind])
    print(f"{group.name}: {total.total()} cases in {passed:.0f} s: {figures}", flush=True)
    for text, cases in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"  {len(cases)} x {text}")
        print(f"    --only {group.name} --case {' '.join(map(str, cases[:_SHOWN]))}", flush=True)
    return counts


def _one(group: type[Group], number: int, times: int) -> int:
    """Run one case, perhaps several times; the exit status is 1 when it went wrong once."""
    outcomes: list[Outcome] = []
    for _ in range(times):
        run_cases(group, [number], lambda _, outcome: outcomes.append(outcome))
        print(f"{group.name} {number}, {group.row(number)}: {outcomes[-1].text}")
    return int(any(outcome.is_bad for outcome in outcomes))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.trials.faults", description=__doc__)
    parser.add_argument("--only", action="append", choices=GROUPS, help="this group; repeatable")
    parser.add_argument("--count", type=int, default=0, help="cases of each group")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=0, help="for all groups together")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--case", type=int, help="run one case of the group and show its end")
    parser.add_argument("--times", type=int, default=1, help="run that case so often")
    parser.add_argument("--no-page", dest="page", action="store_false", help="leave the page")
    options = parser.parse_args()
    options.only = options.only or list(GROUPS)
    if options.case is not None and len(options.only) != 1:
        parser.error("--case needs --only with one group")
    return options


if __name__ == "__main__":
    sys.exit(main())
