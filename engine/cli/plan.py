"""`plan`: what upscale would do."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.cli import formatting, options
from engine.cli.context import DONE, FAILED, Context
from engine.hardware.pretended_gpu import pretended
from engine.protocol.plan import Plan


def run(args: argparse.Namespace, context: Context) -> int:
    """Show the plan; the exit status is 1 when it could not be started.

    For a pretended card it is 0 when it would fit there: that it is not here is no news, and
    files of models need not be loaded for the question.
    """
    pretend = pretended(args.pretend_gpu or "", args.pretend_vram or "")
    output = Path(args.output) if args.output is not None else None
    settings = options.job_settings(args, pretend)
    plan = context.services.plan(
        Path(args.input), settings, output, options.engine_settings(args), pretend
    )
    if context.console.json:
        context.console.data(plan)
    else:
        context.console.say(formatting.plan_words(plan))
    for notice in plan.notices:
        context.console.notice(notice)
    return DONE if _would_do(plan) else FAILED


def _would_do(plan: Plan) -> bool:
    expected = {"pretended-card", "weights-missing"} if plan.is_pretended else set()
    return all(notice.severity != "refusal" or notice.code in expected for notice in plan.notices)
