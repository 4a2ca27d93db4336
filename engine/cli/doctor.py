"""`doctor`: the self-test of this machine."""

from __future__ import annotations

import argparse

from engine.cli.context import DONE, FAILED, Context

_MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM"}


def run(args: argparse.Namespace, context: Context) -> int:
    """Show the results of the self-test; the exit status is 1 where there is a problem."""
    lines = context.services.doctor()
    broken = [line for line in lines if line.state == "problem"]
    if context.console.json:
        context.console.data({"works": not broken, "lines": list(lines)})
    else:
        for line in lines:
            context.console.say(f"{_MARKS[line.state]:<8} {line.name}: {line.message}")
            if hint := str(line.hint):
                context.console.say(f"{'':<8}   hint: {hint}")
        warnings = sum(line.state == "warning" for line in lines)
        context.console.say(f"{len(broken)} problems, {warnings} warnings, {len(lines)} looked at")
    return FAILED if broken else DONE
