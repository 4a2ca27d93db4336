"""`doctor`: whether everything works on this machine."""

from __future__ import annotations

import argparse

from engine.cli.context import DONE, FAILED, Context

_MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM"}


def run(args: argparse.Namespace, context: Context) -> int:
    """Show what the self-test found; the exit status is 1 when something is broken."""
    lines = context.services.doctor()
    broken = [line for line in lines if line.state == "problem"]
    if context.console.json:
        context.console.data({"works": not broken, "lines": list(lines)})
    else:
        for line in lines:
            context.console.say(f"{_MARKS[line.state]:<8} {line.name}: {line.message}")
            if line.hint:
                context.console.say(f"{'':<8}   hint: {line.hint}")
        warnings = sum(line.state == "warning" for line in lines)
        context.console.say(f"{len(broken)} problems, {warnings} warnings, {len(lines)} looked at")
    return FAILED if broken else DONE
