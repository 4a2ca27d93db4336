"""`upscale` and `resume`: hand jobs to the engine, show its events until the last job has ended."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.cli import formatting, options
from engine.cli.context import CANCELLED, DONE, FAILED, CommandContext
from engine.cli.progress import ProgressDisplay, progress_on
from engine.cli.session import Interrupted, Session, session
from engine.core.errors import CheckpointMismatch, ResultHeldBack, UnknownJob
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.plan import Plan
from engine.protocol.report import Report
from engine.runtimes import environment
from engine.settings.schema import EngineSettings

if TYPE_CHECKING:
    from engine.api import UnfinishedJob


def upscale(args: argparse.Namespace, context: CommandContext) -> int:
    """Upscale every input; the exit status is 1 as soon as one of them failed."""
    settings = options.job_settings(args)
    environment.choose(settings.switches)
    engine_settings = options.engine_settings(args, context)
    # absolute: an interrupted job may be resumed from another folder
    sources = [path.absolute() for path in options.sources(args.inputs)]
    output = options.output(args)
    if len(sources) > 1 and output is not None and not output.is_dir():
        args.usage_error("with several inputs, -o must be an existing folder")
    jobs = context.services.commands_for(sources, settings, output, engine_settings)
    return _run_jobs(context, engine_settings, jobs)


def resume(args: argparse.Namespace, context: CommandContext) -> int:
    """List unfinished jobs; continue or remove one of them, or all."""
    output = options.output(args)
    if args.job == "":  # of an unset variable: every name begins so
        args.usage_error("the name of a job cannot be empty")
    if args.all and args.job is not None:
        args.usage_error("give a JOB or --all, not both")
    if args.remove and (args.accept or args.overwrite or output is not None):
        args.usage_error("--remove stands alone")
    if args.all and output is not None and not output.is_dir():
        args.usage_error("with --all, -o must be an existing folder")
    waiting = context.services.unfinished()
    if args.job is not None:
        chosen = [args.job if args.remove else _named(waiting, args.job)]
    elif args.all:
        chosen = [job.job_id for job in waiting if args.remove or job.problem is None]
    elif args.accept or args.remove or args.overwrite or output is not None:
        args.usage_error("--accept, --overwrite, --remove and -o need a JOB, or --all")
    else:
        _list(waiting, context)
        return DONE
    if not chosen:
        context.console.note("No unfinished jobs.")
        return DONE
    if args.remove:
        return _remove(context, chosen)
    settings = dataclasses.replace(context.own_settings(), tile_previews=False)
    how = {"accept": args.accept, "overwrite": args.overwrite, "output": output}
    jobs = [c.AdoptJob(job_id=job_id, **how) for job_id in chosen]
    return _run_jobs(context, settings, jobs)


def _remove(context: CommandContext, job_ids: Sequence[str]) -> int:
    """Delete jobs with their finished parts."""
    left, status = {*job_ids}, DONE
    with session(context) as engine:
        for job_id in job_ids:
            engine.send(c.RemoveJob(job_id=job_id))
        while left:
            match engine.next():
                case e.JobRemoved(job_id=job_id) as event:
                    if context.console.json:
                        context.console.data(event, event="JobRemoved")
                    context.console.say(f"{job_id} was removed.")
                    left.discard(job_id)
                case e.Warned(job_id=job_id, notice=notice) as event if job_id in left:
                    refusal = dataclasses.replace(notice, severity="refusal")
                    if context.console.json:
                        about = dataclasses.replace(event, notice=refusal)
                        context.console.data(about, event="Warned")
                    context.console.notice(refusal)
                    left.discard(job_id)
                    status = FAILED
                case Interrupted():
                    raise KeyboardInterrupt
    return status


def _named(waiting: Sequence[UnfinishedJob], name: str) -> str:
    """The one job whose name begins so; the name itself where there is none."""
    found = [job.job_id for job in waiting if job.job_id.startswith(name)]
    if name in found or not found:  # the engine knows whether another program is at it
        return name
    if len(found) > 1:
        raise UnknownJob("several", count=len(found), job=repr(name))
    return found[0]


def _list(waiting: Sequence[UnfinishedJob], context: CommandContext) -> None:
    if context.console.json:
        context.console.data({"unfinished": list(waiting)})
        return
    if not waiting:
        context.console.say("No unfinished jobs.")
    for job in waiting:
        if job.frames_total:
            frames = f"{job.frames_done}/{job.frames_total} frames"
            context.console.say(f"{job.job_id}  {frames}  {job.source} -> {job.output}")
        if job.problem is not None:
            context.console.error(job.problem)


def _run_jobs(
    context: CommandContext, settings: EngineSettings, jobs: Sequence[c.AddJob | c.AdoptJob]
) -> int:
    """Run the jobs one after the other and show the events of the engine.

    Returns:
        Exit status: 0 when all are done, and proved or accepted, 130 when the user stopped them,
        else 1.
    """
    with session(context, settings) as engine:
        listener = _Listener(context, engine, jobs)
        try:
            for command in (*jobs, c.StartQueue()):
                engine.send(command)
            while listener.is_waiting:
                listener.hear(engine.next())
        finally:
            listener.progress.clear()
    return listener.finish()


class _Listener:
    """Shows events until every job has ended."""

    def __init__(
        self, context: CommandContext, engine: Session, jobs: Sequence[c.AddJob | c.AdoptJob]
    ) -> None:
        self.progress: ProgressDisplay = progress_on(context.console)
        self._console = context.console
        self._engine = engine
        self._open = dict.fromkeys(job.job_id for job in jobs)
        adopted = [job for job in jobs if isinstance(job, c.AdoptJob)]
        self._adopted = {job.job_id for job in adopted}
        self._accepted = {job.job_id for job in adopted if job.accept}
        self._plans: dict[str, Plan] = {}
        self._begun: set[str] = set()
        self._reports: list[Report] = []
        self._failed = False
        self._stopping = False
        self._cancelled: list[str] = []

    @property
    def is_waiting(self) -> bool:
        """True until every job has ended."""
        return bool(self._open)

    def hear(self, event: e.Event) -> None:
        """Show one event."""
        if isinstance(event, Interrupted):
            self._stop()
            return
        if self._console.json:
            self._console.data(event, event=type(event).__name__)
        match event:
            case e.StageProgress() if not self._stopping:  # no bar that hides the cursor any more
                self.progress.show(event)
            case e.WorkerProgress():
                self.progress.show_worker(event)
            case e.StagesTimed():
                self.progress.show_times(event)
            case e.PlanChosen() | e.PlanDowngraded():
                self._plans[event.job_id] = event.plan
                if isinstance(event, e.PlanDowngraded) and event.notice is not None:
                    self.progress.clear()
                    self._console.notice(event.notice)
            case e.JobStarted():
                self._started(event)
            case e.Warned() if not self._stopping:
                self.progress.clear()
                self._console.notice(event.notice)
            case e.JobFinished() | e.JobFailed() | e.JobCancelled() | e.JobRejected():
                self._ended(event)

    def finish(self) -> int:
        """Summary and the exit status."""
        if self._console.json:
            for report in self._reports:
                self._console.data(report, event="Report")
        if self._stopping:
            begun = [job_id for job_id in self._cancelled if job_id in self._begun]
            self._console.note("Cancelled." + " Finished parts are kept." * bool(begun))
            for job_id in begun:
                self._console.note(f"  continue with: python -m engine resume {job_id}")
            return CANCELLED
        return FAILED if self._failed or self._cancelled else DONE

    def _stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._note("Stopping; press Ctrl-C again to stop immediately.")
        for command in (c.StopQueue(), *(c.CancelJob(job_id=job_id) for job_id in self._open)):
            self._engine.send(command)

    def _started(self, event: e.JobStarted) -> None:
        self._begun.add(event.job_id)
        self.progress.clear()
        plan = self._plans.get(event.job_id)
        if plan is not None:
            self._console.say(*formatting.plan_words(plan))
            for notice in plan.notices:
                self._console.notice(notice)
        if event.done:
            self._console.say(f"Continuing after {event.done} of {event.total} frames.")

    def _ended(self, event: e.JobFinished | e.JobFailed | e.JobCancelled | e.JobRejected) -> None:
        self._open.pop(event.job_id, None)
        self.progress.clear()
        match event:
            case e.JobFinished():
                self._reports.append(event.report)
                self._console.say(*formatting.summary_words(event.report))
                if not event.report.passed and event.job_id not in self._accepted:
                    self._failed = True
                    self._note_choices(event.job_id, can_accept=True)
            case e.JobCancelled():
                self._cancelled.append(event.job_id)
            case e.JobFailed():
                self._fail(event)
                if event.job_id in self._begun:
                    can_accept = event.error.code == ResultHeldBack.code
                    self._note_choices(event.job_id, can_accept=can_accept)
            case e.JobRejected():
                self._console.note(f"{event.source}:")
                self._fail(event)
                if event.job_id in self._adopted and event.error.code == CheckpointMismatch.code:
                    self._note_removal(event.job_id)

    def _fail(self, event: e.JobFailed | e.JobRejected) -> None:
        self._failed = True
        plan = self._plans.get(event.job_id)
        if plan is not None:
            self._console.note(f"{plan.source}:")
        self._console.error(event.error)

    def _note_choices(self, job_id: str, *, can_accept: bool) -> None:
        """Lists the commands for a job that was kept."""
        command = f"python -m engine resume {job_id}"
        self._console.note(f"  to go on with this job: {command}")
        if can_accept:
            self._console.note(f"  or keep the result anyway: {command} --accept")
        self._note_removal(job_id)

    def _note_removal(self, job_id: str) -> None:
        command = f"python -m engine resume {job_id} --remove"
        self._console.note(f"  to delete the job with its finished parts: {command}")

    def _note(self, text: str) -> None:
        self.progress.clear()
        self._console.note(text)
