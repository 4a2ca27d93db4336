"""`measure`: figures of this PC, its self-test and its logs in one archive, for a report.

The figures are those of other cases, part by part, each part in a process of its own: what crashes
or hangs leaves only its own part unanswered. A GPU may never have been measured before.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from engine import __version__, diagnostics
from engine.bench import run
from engine.bench.report import Row, machine_row, markdown, write_file
from engine.bench.run import BenchOptions
from engine.bench.workload import allowed_gpu_bytes, device_of, require_gpu
from engine.core import paths
from engine.core.control import Control
from engine.core.errors import EngineError, OutputUnwritable
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.core.serialization import from_plain, to_plain
from engine.hardware import torch_memory
from engine.hardware.out_of_memory import forget_frames, is_out_of_memory
from engine.jobs import diagnostics_archive

logger = logging.getLogger(__name__)

TOTAL_S = 600.0  # of all parts together
_NAME = "measured"  # name of the page and of the file
_LOOK_S = 0.2  # polling interval of the user's stop
_TINY = Size(64, 64)  # of frames on a CPU
_NARROWER = 4  # times as narrow is the VAE there


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactPart:
    """A case that is run, and its options."""

    case: str  # case or group, as the command line names it
    share: int  # part of the total time; unused time goes to the parts after it
    changes: Mapping[str, Any] = field(default_factory=dict)  # changed options
    sizes: tuple[Size, ...] = ()  # sizes of frames, each measured, unless the user chose one
    needs_gpu: bool = False  # it measures nothing on a CPU
    package: str = ""  # it cannot run without this one

    def options(self, base: BenchOptions) -> Iterator[BenchOptions]:
        """Options of each run of the cases."""
        if base.quick or base.size is not None or not self.sizes:
            yield replace(base, **self.changes)
        else:
            yield from (replace(base, **self.changes, size=size) for size in self.sizes)


PARTS = (  # the most important first
    ContactPart(case="facts", share=20),
    ContactPart(case="kernel-errors", share=30, needs_gpu=True),
    ContactPart(
        case="vae",
        share=80,
        changes={"form": "fast", "frames": (5,), "runs": 2},
        sizes=(Size(848, 480), Size(1280, 720), Size(1920, 1080)),
    ),
    ContactPart(case="convolutions", share=25, changes={"runs": 3}, needs_gpu=True),
    ContactPart(case="layer-products", share=15, needs_gpu=True),
    ContactPart(case="launches", share=10, needs_gpu=True),
    ContactPart(case="seedvr2-job", share=130, package="av"),
    ContactPart(case="formats-3b", share=45, changes={"runs": 1}),
    ContactPart(case="seedvr2", share=40, changes={"frames": (9,)}),
    ContactPart(case="streaming", share=25, needs_gpu=True),
    ContactPart(case="attention", share=25),
    ContactPart(case="memory-pressure", share=15, needs_gpu=True),
    ContactPart(case="speed", share=40),
    ContactPart(case="formats-7b", share=30, changes={"runs": 1}),
    ContactPart(case="pipeline", share=20, changes={"quick": True}, package="av"),
    ContactPart(case="optimisations", share=30, changes={"quick": True}),
    ContactPart(case="gpu-tests", share=20, needs_gpu=True, package="pytest"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAnswer:
    """Rows of a part; `unanswered` says why there are none, or not all, else it is ""."""

    rows: tuple[Row, ...] = ()
    unanswered: str = ""
    seconds: float = 0.0

    @property
    def state(self) -> Message:
        """Text for the page: answered, in part, or not."""
        if not self.unanswered:
            return message("bench.part.answered")
        name = "in-part" if self.rows else "unanswered"
        return message(f"bench.part.{name}", reason=self.unanswered)


class Unanswered(Exception):
    """A part ended early: its message is the reason, without a full stop."""


RowsOfPart = Callable[[ContactPart, BenchOptions, float], Iterator[Row]]
"""Measures a part within some seconds; raises Unanswered."""
Report = Callable[[int, int, Message | None], None]  # steps done, of how many, the one that begins


def measure(
    path: Path,
    options: BenchOptions,
    *,
    goes_on: bool = False,
    report: Report = lambda *_: None,
    control: Control | None = None,
) -> None:
    """Write the archive: self-test, settings, logs and plans at once, at the end with all figures.

    So there is an archive whatever happens in between; where the user stops, it has the figures so
    far.

    Args:
        path: A .zip; an existing file is replaced.
        options: Options of all cases.
        goes_on: Keep what an earlier call measured, also if it was complete.
        report: Called as each step begins.
        control: Stops it within a fraction of a second.

    Raises:
        OutputError: The archive cannot be written.
        Cancelled: The user stopped.
    """
    control, folder, total = control or Control(), paths.cache_folder() / _NAME, len(PARTS) + 1
    report(0, total, message("bench.measuring.self-test"))
    lines = diagnostics.examine()
    diagnostics_archive.write(path, lines)
    rows_of = partial(rows_of_process, control=control)
    done = 1

    def begins(part: ContactPart) -> None:
        nonlocal done
        control.check()
        report(done, total, message(f"bench.measuring.{part.case}"))
        done += 1

    try:
        for _ in contact_rows(options, folder, rows_of, goes_on=goes_on, begins=begins):
            pass
    finally:
        diagnostics_archive.write(path, lines, added=_figures(folder))
    report(total, total, None)


def _figures(folder: Path) -> dict[str, Any]:
    """Page and file of the figures by their names; {} where nothing was measured."""
    found: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        found[f"{_NAME}.md"] = (folder / f"{_NAME}.md").read_text("utf-8")
        found[f"{_NAME}.json"] = json.loads((folder / f"{_NAME}.json").read_text("utf-8"))
    return found


def contact_rows(
    options: BenchOptions,
    folder: Path,
    rows_of: RowsOfPart | None = None,
    parts: Sequence[ContactPart] = PARTS,
    *,
    goes_on: bool = False,
    begins: Callable[[ContactPart], None] = lambda _: None,
) -> Iterator[Row]:
    """A row for each part as it ends; page and file are written again each time.

    Where the last call was stopped or killed, its answers are kept if they are of the same
    computer, program and options. On a CPU everything is tiny.

    Args:
        options: Options of all cases.
        folder: Folder of page and file.
        rows_of: Measures a part; None takes `rows_of_process`.
        parts: The most important first.
        goes_on: Answers of a complete call are kept, too; unanswered parts are measured again.
        begins: Called before each part.
    """
    options = _small(options) if device_of(options) == "cpu" else options
    page = _ContactPage.begin(options, folder, goes_on=goes_on)
    end, waiting = time.monotonic() + TOTAL_S, [p for p in parts if p.case not in page.answers]
    for part in parts:
        begins(part)
        state = message("bench.part.kept")
        if part in waiting:
            left = max(0.0, end - time.monotonic())
            limit = left * part.share / sum(one.share for one in waiting)
            waiting.remove(part)
            answer = _answer(part, options, limit, rows_of or rows_of_process)
            page.answers[part.case], state = answer, answer.state
        page.write()
        yield {"part": part.case, "state": state, "seconds": page.answers[part.case].seconds}
    page.write(is_whole=True)


def _small(options: BenchOptions) -> BenchOptions:
    return replace(
        options,
        device="cpu",
        quick=True,
        memory=False,
        runs=options.runs or 1,
        size=options.size or _TINY,
        config=options.config or options.vae_config.narrower(_NARROWER),
    )


def _answer(
    part: ContactPart, options: BenchOptions, limit_s: float, rows_of: RowsOfPart
) -> PartAnswer:
    rows: list[Row] = []
    begin, reason = time.monotonic(), ""
    try:
        _require(part, options)
        for row in rows_of(part, options, limit_s):
            rows.append(row)
    except Unanswered as err:
        reason = str(err)
    return PartAnswer(
        rows=tuple(rows), unanswered=reason, seconds=round(time.monotonic() - begin, 1)
    )


def _require(part: ContactPart, options: BenchOptions) -> None:
    """Check without a process what a part needs."""
    try:
        if part.needs_gpu:
            require_gpu(options)
    except EngineError as err:
        raise Unanswered(_reason(err)) from err
    if part.package and importlib.util.find_spec(part.package) is None:
        raise Unanswered(message("bench.unanswered.no-package", name=part.package))


# --- one part


def rows_here(part: ContactPart, options: BenchOptions) -> Iterator[Row]:
    """Measure a part in this process, with as much of the GPU as a job may take.

    Raises:
        Unanswered: Any error.
    """
    try:
        allowed = allowed_gpu_bytes() if device_of(options) == "cuda" else 0
        with torch_memory.within(allowed):
            for one in part.options(options):
                rows = run.measured([part.case], options=one)
                next(rows)  # the computer
                yield from map(run.plain_row, rows)
    except Exception as err:  # on a GPU that was never seen anything may fail
        raise Unanswered(_reason(err)) from err


def rows_of_process(
    part: ContactPart, options: BenchOptions, limit_s: float, control: Control | None = None
) -> Iterator[Row]:
    """Measure a part in a new process, which is killed when the time is over.

    Raises:
        Unanswered: The part itself ended early, its time is over, or its process crashed.
        Cancelled: The user stopped.
    """
    end, context = time.monotonic() + limit_s, multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_rows, args=(sender, part, options))
    process.start()
    sender.close()
    try:
        while _arrives(receiver, end, control):
            found = receiver.recv()
            if isinstance(found, str):
                if found:
                    raise Unanswered(found)
                return
            yield found
        raise Unanswered(message("bench.unanswered.not-finished", seconds=round(limit_s)))
    except (EOFError, ConnectionError) as err:
        process.join()
        raise Unanswered(message("bench.unanswered.process", status=process.exitcode)) from err
    finally:
        _end(process.pid)
        process.join()


def _arrives(receiver: Any, end: float, control: Control | None) -> bool:
    """Wait for the next row; False where none comes before the end."""
    while (left := end - time.monotonic()) > 0:
        if control is not None:
            control.check()
        if receiver.poll(min(left, _LOOK_S)):
            return True
    return bool(receiver.poll(0))


def _send_rows(sender: Connection, part: ContactPart, options: BenchOptions) -> None:
    """Send rows, then the reason why there are no more; "" at the usual end."""
    faulthandler.enable()
    reason = ""
    try:
        for row in rows_here(part, options):
            sender.send(row)
    except Unanswered as err:
        reason = str(err)
    sender.send(reason)


def _end(process: int | None) -> None:
    """Kill a process and its children."""
    with suppress(psutil.Error):
        parent = psutil.Process(process)
        for one in (*parent.children(recursive=True), parent):
            with suppress(psutil.Error):
                one.kill()


def _reason(error: Exception) -> str:
    """Reason why a part ended; an unexpected one goes to the log."""
    if is_out_of_memory(error):
        return str(message("bench.out-of-memory"))
    if isinstance(error, EngineError):
        return str(error.as_message).rstrip(".")
    logger.warning("%s", forget_frames(error))  # they hold models
    first, *_ = (*str(error).strip().splitlines(), "")
    return f"{type(error).__name__}: {first}"


# --- what is written


@dataclass(frozen=True, slots=True)
class _ContactPage:
    """The page and the file of the answers so far."""

    folder: Path  # folder of both
    basis: dict[str, Any]  # computer, program and options that the answers belong to; plain data
    answers: dict[str, PartAnswer]  # by part

    @classmethod
    def begin(cls, options: BenchOptions, folder: Path, *, goes_on: bool) -> _ContactPage:
        """Begin with the answers of an earlier run on the same basis."""
        chosen = {"device": options.device, "quick": options.quick, "size": str(options.size)}
        basis = {"machine": machine_row(), "program": __version__, "options": chosen}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            reason = err.strerror or str(err)
            raise OutputUnwritable("figures", path=folder, reason=reason) from err
        answers = _answered(folder / f"{_NAME}.json", basis, goes_on=goes_on)
        return cls(folder, basis, answers)

    def write(self, *, is_whole: bool = False) -> None:
        """Write both again; whole once every part has ended."""
        data = {"basis": self.basis, "is_whole": is_whole, "answers": to_plain(self.answers)}
        write_file(self.folder / f"{_NAME}.json", json.dumps(data, indent=1) + "\n")
        rows: list[Row] = [self.basis["machine"]]
        rows += (
            {"case": "measure", "part": part, "state": str(one.state), "seconds": one.seconds}
            for part, one in self.answers.items()
        )
        rows += (row for one in self.answers.values() for row in one.rows)
        write_file(self.folder / f"{_NAME}.md", markdown(rows, "measure"))


def _answered(path: Path, basis: Mapping[str, Any], *, goes_on: bool) -> dict[str, PartAnswer]:
    """Complete answers in a file; none if it is missing, of another basis, or was completed."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["basis"] == basis and (goes_on or not data["is_whole"]):
            found = from_plain(dict[str, PartAnswer], data["answers"])
            return {part: one for part, one in found.items() if not one.unanswered}
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError, KeyError) as err:
        logger.warning("%s is measured again: %s", path, err)
    return {}
