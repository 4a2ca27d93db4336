"""`probe`, `plan`, `verify` and `doctor`: commands that only read."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from engine.cli import formatting, options
from engine.cli.console import encode
from engine.cli.context import DONE, FAILED, CommandContext
from engine.core.messages import message
from engine.hardware.devices import pretended
from engine.planner.notices import in_order
from engine.protocol.plan import Plan

_MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM"}


def probe(args: argparse.Namespace, context: CommandContext) -> int:
    """Show the picture, its times and colours, all other streams, and what its frames show."""
    media = context.services.probe(Path(args.input))
    found = context.services.findings(media)
    if context.console.json:
        context.console.data(media, notices=[encode(notice) for notice in found])
    else:
        context.console.say(*formatting.media_words(media), *formatting.findings(found))
    return DONE


def plan(args: argparse.Namespace, context: CommandContext) -> int:
    """Show the plan; the exit status is 1 when it could not be started.

    For a pretended GPU it is 0 when it would fit there.
    """
    pretend = pretended(*args.pretend_gpu, memory=args.pretend_vram or "")
    output = options.output(args)
    settings = options.job_settings(args, pretend)
    found = _answered(
        context.services.plan(
            Path(args.input), settings, output, options.engine_settings(args, context), pretend
        )
    )
    if context.console.json:
        context.console.data(found)
    else:
        context.console.say(*formatting.plan_words(found))
    for notice in found.notices:
        context.console.notice(notice)
    return FAILED if any(notice.severity == "refusal" for notice in found.notices) else DONE


def _answered(plan: Plan) -> Plan:
    """A plan for a pretended GPU: what is missing to start it here does not refuse it there."""
    if not plan.is_pretended:
        return plan
    missing = ("pretended-card", "weights-missing")
    notices = (replace(n, severity="info") if n.code in missing else n for n in plan.notices)
    return replace(plan, notices=in_order(notices))


def verify(args: argparse.Namespace, context: CommandContext) -> int:
    """Show every check; the exit status is 1 when one of them failed."""
    report = context.services.verify(
        Path(args.source), Path(args.output), args.video_stream, args.start or "", args.stop or ""
    )
    if context.console.json:
        context.console.data(report)
    else:
        context.console.say(*formatting.report_words(report))
    return DONE if report.passed else FAILED


def doctor(args: argparse.Namespace, context: CommandContext) -> int:
    """Show what the self-test found; the exit status is 1 when something is broken."""
    if args.with_names and args.zip is None:
        args.usage_error("--with-names needs --zip")
    lines = context.services.doctor()
    if args.zip is not None:
        context.services.write_diagnostics(Path(args.zip), lines, with_names=args.with_names)
        context.console.note(f"Written: {args.zip}")
    broken = [line for line in lines if line.state == "problem"]
    if context.console.json:
        context.console.data({"works": not broken, "lines": list(lines)})
    else:
        for line in lines:
            context.console.say(f"{_MARKS[line.state]:<8} {line.name}: {line.message}")
            if hint := str(line.hint):
                context.console.say(f"{'':<8}   hint: {hint}")
        warnings = sum(line.state == "warning" for line in lines)
        context.console.say(
            str(
                message("doctor.summary", problems=len(broken), warnings=warnings, count=len(lines))
            )
        )
    return FAILED if broken else DONE
