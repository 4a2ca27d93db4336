"""Open the window; `--headless` is the command line, `--smoke-test` tries a packed program."""

from __future__ import annotations

import gc
import multiprocessing
import sys


def main() -> int:
    """Start what the arguments ask for; the exit status."""
    multiprocessing.freeze_support()
    arguments = sys.argv[1:]
    if arguments[:1] == ["--headless"]:
        from engine.__main__ import main as command_line

        return command_line(arguments[1:])
    if arguments[:1] == ["--smoke-test"]:
        from app.smoke_test import main as smoke_test

        return smoke_test(arguments[1:])
    gc.disable()  # until the first paint: nothing of the start is garbage
    from app.application import run

    return run(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
