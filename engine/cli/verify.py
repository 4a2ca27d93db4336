"""`verify`: a result against its source."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.cli import formatting
from engine.cli.context import DONE, FAILED, Context


def run(args: argparse.Namespace, context: Context) -> int:
    """Show every check; the exit status is 1 when one of them failed."""
    report = context.services.verify(Path(args.source), Path(args.output))
    if context.console.json:
        context.console.data(report)
    else:
        context.console.say(formatting.report_words(report))
    return DONE if report.passed else FAILED
