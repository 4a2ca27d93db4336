"""`upscale`: films and pictures into the queue, then to the end."""

from __future__ import annotations

import argparse
import secrets
import time
from pathlib import Path

from engine.cli import options
from engine.cli.context import Context
from engine.cli.listener import run_jobs
from engine.protocol.commands import AddJob
from engine.runtimes import environment


def run(args: argparse.Namespace, context: Context) -> int:
    """Upscale every input; the exit status is 1 as soon as one of them failed."""
    settings = options.job_settings(args)
    environment.choose(settings.switches)
    engine_settings = options.engine_settings(args)
    # absolute: an interrupted job may be resumed from another folder
    sources = [path.absolute() for path in options.sources(args.inputs)]
    output = Path(args.output).absolute() if args.output is not None else None
    if len(sources) > 1 and output is not None and not output.is_dir():
        args.usage_error("with several inputs -o must be an existing folder")
    jobs = [
        AddJob(job_id=new_job_id(), source=source, settings=settings, output=output)
        for source in sources
    ]
    return run_jobs(context, engine_settings, jobs)


def new_job_id() -> str:
    """A name that sorts by time and is never given twice."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
