"""What a user should know before the start, in words, with a code for translations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.core.geometry import Size
from engine.core.units import bytes_text, memory_text
from engine.hardware.budget import Budget
from engine.models import registry
from engine.planner import latents
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan, WorkPlan
from engine.settings.optimisations import optimisations
from engine.settings.schema import JobSettings
from engine.settings.switches import changes_of, without_effect
from engine.video.colour.tags import assumed_matrix
from engine.video.write import codecs, containers

if TYPE_CHECKING:
    from engine.planner.plan_job import Request

_SPARE_BYTES = 200 * 10**6  # left free on every disk


def notices_of(plan: Plan, request: Request, budget: Budget, wanted: Size) -> tuple[Notice, ...]:
    """Everything worth knowing about this plan, refusals first.

    Args:
        plan: With its predictions.
        request: Source and settings.
        budget: What the machine has.
        wanted: Size asked for, before the codec rounded it.
    """
    media, settings = request.media, request.settings
    found = [
        *_memory(plan, budget),
        *_files(plan.work),
        *registry.family_of(plan.work).notices(plan.work, budget),
        *(latents.notices(plan, media, settings, budget) if media.holds_latents else ()),
        *_disk(plan, budget),
        *_damage(media, settings),
        *_source(media),
        *_size(plan, wanted),
        *switch_notices(settings, plan.work.device, budget.capability),
        *codecs.picture_notices(media, plan.picture),
        *containers.stream_notices(media, plan.container),
    ]
    order = {"refusal": 0, "warning": 1, "info": 2}
    return tuple(sorted(found, key=lambda notice: order[notice.severity]))


def _memory(plan: Plan, budget: Budget) -> Iterator[Notice]:
    own = [stage.device_bytes for stage in plan.stages if stage.stage != "latents"]
    device = max(own, default=0)
    if plan.work.device == "cuda" and device > budget.vram_bytes:
        yield Notice(
            code="plan-does-not-fit",
            severity="refusal",
            message=f"This needs {memory_text(device)} of the card's memory; "
            f"{memory_text(budget.vram_bytes)} may be used.",
            hint="Close other programs or choose a smaller result.",
            params={"needed": str(device), "allowed": str(budget.vram_bytes)},
        )
    elif plan.peak_bytes > budget.ram_bytes:
        yield Notice(
            code="plan-does-not-fit",
            severity="refusal",
            message=f"This needs {memory_text(plan.peak_bytes)} of memory; "
            f"{memory_text(budget.ram_bytes)} may be used.",
            hint="Close other programs or choose a smaller result.",
            params={"needed": str(plan.peak_bytes), "allowed": str(budget.ram_bytes)},
        )


def _files(work: WorkPlan) -> Iterator[Notice]:
    missing = [weights for weights in work.weights_files if not weights.is_here]
    if missing:
        names = ", ".join(weights.path.name for weights in missing)
        yield Notice(
            code="weights-missing",
            severity="refusal",
            message=f"The model is not on this machine yet: {names}.",
            hint=f"Get it with `models download {missing[0].published}`, or in the list of models.",
            params={"files": ",".join(weights.published for weights in missing), "names": names},
        )


def _disk(plan: Plan, budget: Budget) -> Iterator[Notice]:
    needed = plan.output_bytes + _SPARE_BYTES
    if budget.same_disk:
        needed += plan.output_bytes
    for name, free, need in (
        ("result", budget.free_output_bytes, needed),
        ("job folder", budget.free_jobs_bytes, plan.output_bytes + _SPARE_BYTES),
    ):
        if free < need:
            yield Notice(
                code="disk-may-fill",
                severity="warning",
                message=f"The disk of the {name} has {bytes_text(free)} free; "
                f"about {bytes_text(need)} will be needed.",
                hint="Free some space or choose another folder.",
                params={"free": str(free), "needed": str(need), "disk": name},
            )


def _damage(media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    if media.is_cut_short:
        yield Notice(
            code="truncated-media",
            severity="warning" if settings.accept_damaged else "refusal",
            message=f"{media.path.name} is cut short: its end is missing.",
            hint="Copy or download it again, or allow damaged sources to take what is there.",
            params={"name": media.path.name},
        )


def _source(media: MediaInfo) -> Iterator[Notice]:
    video = media.video
    if video.hdr:
        name = "PQ (HDR10)" if video.hdr == "pq" else "HLG"
        yield Notice(
            code="hdr-tags-only",
            severity="warning",
            message=f"HDR of the kind {name}: brightness and colours are kept as they are and "
            "tagged; mastering data and dynamic metadata are left out.",
            hint="Screens then use their defaults for the brightest parts.",
            params={"hdr": video.hdr},
        )
    if video.is_interlaced:
        yield Notice(
            code="interlaced-as-frames",
            severity="warning",
            message="This video is interlaced: the two fields of a frame are treated as one "
            "picture, so combs on moving edges will be enlarged with it.",
            hint="Deinterlace it first for the best result.",
            params={"order": video.field_order},
        )
    if media.kind == "video" and not video.tags.matrix and video.chroma != "rgb":
        matrix = assumed_matrix(video.size)
        standard = "BT.709" if matrix == "bt709" else "BT.601"
        yield Notice(
            code="colours-guessed",
            severity="info",
            message=f"The file does not say how its colours are meant: {standard} is assumed.",
            params={"standard": standard},
        )


def _size(plan: Plan, wanted: Size) -> Iterator[Notice]:
    size = plan.picture.size
    if size != wanted:
        yield Notice(
            code="size-rounded",
            severity="info",
            message=f"The result is {size}: with colour resolution {plan.picture.chroma} a size of "
            f"{wanted} cannot be stored.",
            params={"size": str(size), "wanted": str(wanted)},
        )
    factor = max(size.width / plan.source_size.width, size.height / plan.source_size.height)
    yield from registry.family_of(plan.work).size_notices(plan.work, factor, size)


def switch_notices(
    settings: JobSettings, device: str, capability: tuple[int, int] | None
) -> Iterator[Notice]:
    """Switches that do nothing on this device, and those that change the result.

    Args:
        settings: What the user wants.
        device: "cpu" or "cuda".
        capability: Of the card.
    """
    idle = without_effect(settings.switches, device, capability)
    for name in idle:
        yield Notice(
            code="switch-without-effect",
            severity="info",
            message=f"The optimisation {name} does nothing on this device.",
            params={"switch": name},
        )
    wanted = changes_of(settings.switches)
    for entry in optimisations():
        if entry.exactness == "inexact" and wanted.get(entry.key) is True and entry.key not in idle:
            yield Notice(
                code="switch-inexact",
                severity="info",
                message=f"The optimisation {entry.key} is inexact: the result will be another one.",
                params={"switch": entry.key},
            )
