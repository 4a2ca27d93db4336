"""`plan`: what upscale would do."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.cli import options, words
from engine.cli.context import DONE, FAILED, Context


def run(args: argparse.Namespace, context: Context) -> int:
    """Show the plan; the exit status is 1 when it could not be started."""
    output = Path(args.output) if args.output is not None else None
    plan = context.services.plan(
        Path(args.input), options.job_settings(args), output, options.engine_settings(args)
    )
    if context.console.json:
        context.console.data(plan)
    else:
        context.console.say(words.plan_words(plan))
    for notice in plan.notices:
        context.console.notice(notice)
    return DONE if plan.fits else FAILED
