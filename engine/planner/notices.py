"""What a user should know before the start, in words, with a code for translations."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.geometry import Size
from engine.core.units import bytes_text, memory_text
from engine.hardware import devices
from engine.hardware.budget import Budget
from engine.planner import latents
from engine.planner.request import Request
from engine.planner.switch_notices import switch_notices
from engine.protocol.media import MediaInfo
from engine.protocol.plan import ModelPlan, Notice, Plan
from engine.settings.schema import WAN_UPSCALERS, JobSettings
from engine.video.write import codecs

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
        *_files(plan.model),
        *_shots(plan.model),
        *_diffusion(plan.model, budget),
        *_whole_tiles(plan.model),
        *_wan(plan.model),
        *latents.notices(plan, media, settings, budget),
        *_disk(plan, budget),
        *_damage(media, settings),
        *_source(media),
        *_size(plan, wanted),
        *switch_notices(settings, plan.model.device, budget.capability),
        *codecs.picture_notices(media, plan.picture),
        *codecs.stream_notices(media, plan.container),
    ]
    order = {"refusal": 0, "warning": 1, "info": 2}
    return tuple(sorted(found, key=lambda notice: order[notice.severity]))


def _memory(plan: Plan, budget: Budget) -> Iterator[Notice]:
    own = [stage.device_bytes for stage in plan.stages if stage.stage != "latents"]
    device = max(own, default=0)
    if plan.model.device == "cuda" and device > budget.vram_bytes:
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


def _files(model: ModelPlan) -> Iterator[Notice]:
    missing = [weights for weights in model.weights_files if not weights.is_here]
    if missing:
        names = ", ".join(weights.path.name for weights in missing)
        yield Notice(
            code="weights-missing",
            severity="refusal",
            message=f"The model is not on this machine yet: {names}.",
            hint=f"Get it with `models download {missing[0].published}`, or in the list of models.",
            params={"files": ",".join(weights.published for weights in missing), "names": names},
        )


def _shots(model: ModelPlan) -> Iterator[Notice]:
    """Of models that take shots."""
    if not model.takes_shots:
        return
    if model.device == "cpu":
        name = "SeedVR2" if model.wan is None else "Wan 2x"
        yield Notice(
            code="slow-on-processor",
            severity="warning",
            message=f"{name} is made for NVIDIA cards: on the processor this takes very long.",
            hint="Try a short part first, or choose Lite.",
        )
    if model.shot_sensitivity is None:
        yield Notice(
            code="cuts-not-looked-for",
            severity="info",
            message="Cuts are not looked for: behind a cut the old picture may shine through.",
        )


def _diffusion(model: ModelPlan, budget: Budget) -> Iterator[Notice]:
    found, offered = model.diffusion, devices.matmul_dtypes(budget.capability)
    if found is None or model.device != "cuda" or found.products in ("none", *offered):
        return
    nearest = offered[0] if offered else "none"
    yield Notice(
        code="feature-missing",
        severity="refusal",
        message=f"This card cannot multiply {found.products} numbers.",
        hint=f"Choose matmul={nearest}.",
        params={"feature": found.products, "nearest": nearest},
    )


def _whole_tiles(model: ModelPlan) -> Iterator[Notice]:
    if model.diffusion is not None and model.diffusion.decodes_whole_tiles:
        yield Notice(
            code="decoder-in-tiles",
            severity="info",
            message="Frames of this size do not fit through the decoder whole: it works in tiles "
            "that know nothing of each other, which may differ slightly before they are blended.",
            hint="A smaller result, or a card with more memory, needs no such tiles.",
        )


def _wan(model: ModelPlan) -> Iterator[Notice]:
    if model.wan is not None:
        yield Notice(
            code="trained-on-stills",
            severity="info",
            message="Wan 2x was trained on still photographs: fine lines, anime and text come out "
            "weaker, and steadiness over time is not promised.",
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
        matrix = codecs.assumed_matrix(video.size)
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
    if plan.model.wan is not None and factor < plan.model.scale:
        made = plan.model.wan.canvas
        yield Notice(
            code="model-makes-more",
            severity="info",
            message=f"Wan 2x makes pictures of {made}, which are resized to {size}.",
            params={"made": str(made), "size": str(size)},
        )
    elif factor < 1:
        yield Notice(
            code="target-is-smaller",
            severity="info",
            message="The result is smaller than the source: it is resized, no model redraws it.",
        )
    elif plan.model.model in ("lite", *WAN_UPSCALERS) and factor > plan.model.scale:
        yield Notice(
            code="beyond-model",
            severity="info",
            message=f"The model enlarges {plan.model.scale} times; the rest up to "
            f"{factor:.1f} times is a plain resize.",
            params={"factor": f"{factor:.1f}"},
        )
