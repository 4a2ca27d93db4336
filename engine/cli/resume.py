"""`resume`: jobs of earlier runs, listed or continued."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

from engine.cli.context import DONE, Context, Unfinished
from engine.cli.listener import run_jobs
from engine.core.errors import UnknownJob
from engine.protocol.commands import AdoptJob
from engine.settings.store import load_engine_settings


def run(args: argparse.Namespace, context: Context) -> int:
    """List unfinished jobs, or continue one of them or all."""
    if args.all and args.job is not None:
        args.usage_error("give a JOB or --all, not both")
    waiting = context.services.unfinished()
    if args.job is not None:
        chosen = [_named(waiting, args.job)]
    elif args.all:
        chosen = [job.job_id for job in waiting]
    else:
        _list(waiting, context)
        return DONE
    if not chosen:
        context.console.note("No job is unfinished.")
        return DONE
    settings = dataclasses.replace(load_engine_settings(), tile_previews=False)
    return run_jobs(context, settings, [AdoptJob(job_id=job_id) for job_id in chosen])


def _named(waiting: Sequence[Unfinished], name: str) -> str:
    """The one job whose name begins so.

    Raises:
        UnknownJob: None does, or several do.
    """
    found = [job.job_id for job in waiting if job.job_id.startswith(name)]
    if name in found:
        return name
    if len(found) != 1:
        several = (
            f"{len(found)} jobs begin with {name!r}." if found else f"No job is called {name!r}."
        )
        raise UnknownJob(several, hint="`python -m engine resume` lists them.", job=name)
    return found[0]


def _list(waiting: Sequence[Unfinished], context: Context) -> None:
    if context.console.json:
        context.console.data({"unfinished": list(waiting)})
        return
    if not waiting:
        context.console.say("No job is unfinished.")
    for job in waiting:
        frames = f"{job.frames_done}/{job.frames_total} frames"
        context.console.say(f"{job.job_id}  {frames}  {job.source} -> {job.output}")
