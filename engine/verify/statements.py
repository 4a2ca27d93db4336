"""The check of what the source states beside its code values: kept, or left out for a reason."""

from __future__ import annotations

from engine.core.messages import Message, message
from engine.protocol.media import MediaInfo, Statement
from engine.protocol.plan import Plan
from engine.protocol.report import Check
from engine.verify.frames import FrameComparison
from engine.verify.phrases import clauses
from engine.video.read.statements import with_statements
from engine.video.write.statements import StatedResult, name_of


def statements_check(
    source: MediaInfo, result: MediaInfo, plan: Plan | None, frames: FrameComparison
) -> Check:
    """Compare the statements of both files, those of all frames included.

    What the result lacks is a fault unless its container or codec has no place for it, or the part
    that was taken makes it untrue; the plan is asked for that part only.

    Args:
        source: Facts about the source.
        result: Facts about the result.
        plan: Plan of the job, if known.
        frames: Frames of both files, decoded to their ends.
    """
    stated = with_statements(source, dict.fromkeys(frames.source.stated, "")).statements
    found_in = with_statements(result, dict.fromkeys(frames.result.stated, "")).statements
    has = {one.kind: one.value for one in found_in}
    place = StatedResult.of_plan(plan) if plan is not None else StatedResult.of_file(result)
    faults, explained = list[Message](), list[Statement]()
    for one in stated:
        if one.kind in has and has[one.kind] == one.value and _are_equal(one.kind, frames):
            continue
        if place.keeps(one):
            code = "changed" if one.kind in has else "lost"
            faults.append(message(f"check.statements.{code}", what=name_of(one)))
        else:
            explained.append(one)
    kept = len(stated) - len(faults) - len(explained)
    found = message("check.statements.kept", count=kept)
    if explained:
        names = clauses([name_of(one) for one in explained])
        found = message("check.statements.explained", kept=found, count=len(explained), what=names)
    if faults:
        found = message("check.statements.different", faults=clauses(faults))
    return Check(
        code="statements",
        passed=not faults,
        message=found,
        source=", ".join(one.kind for one in stated),
        output=", ".join(has),
    )


def _are_equal(kind: str, frames: FrameComparison) -> bool:
    """Whether the frames of both files state the same, where every frame has its own."""
    return kind != "captions" or frames.source.captions == frames.result.captions
