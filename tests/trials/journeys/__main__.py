"""`python -m tests.trials.journeys`: each journey on a screen of its own, and their results."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.trials.journeys.journeys import JOURNEYS
from tests.trials.journeys.screen import missing


def main() -> int:
    """Run; the exit status is 1 when a journey failed, 2 when none can run here."""
    options = _parse()
    if problem := missing():
        print(f"no journeys here, {problem}")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # screens and programs end with it
    names = [name for name in JOURNEYS if options.only in name]
    failures = {}
    width = max(map(len, names))
    for name in names:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="journey-") as folder:
            try:
                JOURNEYS[name](Path(folder))
            except Exception:  # noqa: BLE001 - whatever ends a journey is its outcome
                failures[name] = traceback.format_exc()
        outcome = "failed" if name in failures else "passed"
        print(f"{name:{width}}  {outcome}  {time.monotonic() - begin:6.1f} s", flush=True)
    for name, trace in failures.items():
        print(f"\n{name}\n{trace}")
    return int(bool(failures))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.trials.journeys", description=__doc__)
    parser.add_argument("--only", default="", help="journeys with this text in their name")
    options = parser.parse_args()
    if not any(options.only in name for name in JOURNEYS):
        parser.error(f"no journey has {options.only!r} in its name")
    return options


if __name__ == "__main__":
    sys.exit(main())
