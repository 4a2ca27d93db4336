"""Settings, media and budget to the Plan that fits: pure, deterministic, without torch."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

from engine.core.errors import SettingsError, UnsupportedMedia
from engine.core.geometry import FrameSpan, Size
from engine.core.units import clock_text, parse_clock
from engine.hardware.budget import PROGRAM_BYTES, Budget
from engine.models.planning.search import Room
from engine.planner import (
    fallbacks,
    latents,
    peaks,
    reasons,
    times,
)
from engine.planner.families import family_of, tiles_per_frame
from engine.planner.model_choice import choose_model
from engine.planner.notices import notices_of
from engine.planner.rates import Rates
from engine.planner.request import Request
from engine.planner.target import (
    default_output,
    output_bytes,
    pictures_target,
    stored_target,
)
from engine.protocol.media import VideoInfo
from engine.protocol.plan import (
    ModelPlan,
    Notice,
    Plan,
    StagePlan,
)
from engine.settings.assignments import with_environment
from engine.settings.schema import JobSettings
from engine.settings.switches import switches_of
from engine.video.write import codecs

SMALLEST_SIDE = 16  # px, of the result, unless the source is that small itself
LARGEST_SIDE = 16384  # px, of the result: what the codecs' formats can hold


def plan_job(request: Request, budget: Budget, rates: Rates) -> Plan:
    """Decide everything before the start.

    Returns:
        A plan, with its reasons. One that cannot start says why in a notice of severity "refusal";
        one that does not fit says there what would.

    Raises:
        SettingsError: Impossible times, or a result too small to show anything.
        UnsupportedMedia: The result would be larger than any file can hold.
        EncoderMissing, ContainerMismatch: The wanted codec is not here or not for this container.
        NoUsableGpu: A card was asked for and there is none.
    """
    plan = bare_plan(request, budget, rates)
    priced = partial(_priced, plan, budget, rates)
    plan = replace(plan, reasons=reasons.reasons_of(plan, request.settings, priced))
    refusal = next((notice for notice in plan.notices if notice.code == fallbacks.REFUSAL), None)
    if refusal is None:
        return plan

    def fits(settings: JobSettings) -> bool:
        other = bare_plan(replace(request, settings=settings), budget, rates)
        return all(notice.code != fallbacks.REFUSAL for notice in other.notices)

    sizes = plan.source_size, plan.picture.size
    better = fallbacks.with_offers(refusal, request.settings, sizes, fits)
    return replace(plan, notices=tuple(better if n is refusal else n for n in plan.notices))


def bare_plan(request: Request, budget: Budget, rates: Rates) -> Plan:
    """As `plan_job`, without reasons and without what would fit instead."""
    media, settings = request.media, with_environment(request.settings)
    container = codecs.choose_container(media, settings, request.output)
    wanted = stored_target(media.video, settings)
    if media.video.rotation in (90, 270) and not codecs.can_write_rotation(container):
        wanted = wanted.transposed()  # the pixels are turned instead
    _check_size(wanted, media.video.size)
    output = request.output or default_output(media, settings, container)
    picture = codecs.plan_picture(media, settings, wanted, container, output=output)
    start, stop = _trim(settings, media.video)
    pattern = ""
    if container == "sequence":
        output, pattern = pictures_target(output)
    model = choose_model(media.video, picture, settings, budget)
    switches = switches_of(settings.switches, model.device, budget.capability)
    model = replace(model, switches=switches)
    plan = Plan(
        source=media.path,
        output=output,
        pattern=pattern,
        container=container,
        source_size=media.video.size,
        span=FrameSpan(0, _frames(media.video, start, stop)),
        start=start,
        stop=stop,
        model=model,
        latent=latents.choose(media, settings, budget, model.device),
        picture=picture,
        streams=codecs.plan_streams(media, container),
        segment_frames=max(1, round(settings.segment_seconds * picture.frame_rate)),
        budget_bytes=budget.ram_bytes,
    )
    return _predicted(_fitted(plan, budget, rates), request, budget, rates, wanted)


def _fitted(plan: Plan, budget: Budget, rates: Rates) -> Plan:
    """The fastest way to run its model within the budget; the smallest where none is."""
    family = family_of(plan.model)
    if family is None:
        return _framewise(plan, budget)
    alone = replace(plan, latent=None)

    def ram(model: ModelPlan) -> int:
        return peaks.ram_bytes(replace(alone, model=model))

    def device(model: ModelPlan) -> int:
        return peaks.device_bytes(replace(alone, model=model))

    def seconds(model: ModelPlan) -> float:
        return times.model_seconds(model, plan.frames, budget, rates)

    room = Room(budget=budget, ram=ram, device=device, seconds=seconds)
    return replace(plan, model=family.fitted(plan.model, room))


def _framewise(plan: Plan, budget: Budget) -> Plan:
    """Fewer frames at a time, then smaller tiles, until the peak fits or nothing is smaller.

    Larger ones are never slower, so the first that fits is the fastest.
    """
    alone = replace(plan, latent=None)
    while peaks.ram_bytes(alone) > budget.ram_bytes or (
        plan.model.device == "cuda" and peaks.device_bytes(alone) > budget.vram_bytes
    ):
        smaller = smaller_model(alone.model)
        if smaller is None:
            break
        alone = replace(alone, model=smaller)
    return replace(plan, model=alone.model)


def smaller_model(model: ModelPlan, stage: str = "") -> ModelPlan | None:
    """The next smaller way to run the same model; None at the floor.

    Args:
        model: That needs too much.
        stage: That ran out of memory, as in `StagePlan`; "" where nobody knows.
    """
    family = family_of(model)
    if family is not None:
        return family.smaller(model, stage)
    if model.clip_frames > 1:
        return replace(model, clip_frames=model.clip_frames // 2)
    least = max(64, 4 * model.overlap)
    if model.model == "none" or max(model.tile.width, model.tile.height) <= least:
        return None
    tile = Size(
        min(model.tile.width, max(least, model.tile.width // 2)),
        min(model.tile.height, max(least, model.tile.height // 2)),
    )
    return replace(model, tile=tile)


def wider_model(model: ModelPlan) -> ModelPlan | None:
    """The same model in a number format that does not overflow; None where there is none."""
    family = family_of(model)
    return None if family is None else family.wider(model)


def _predicted(plan: Plan, request: Request, budget: Budget, rates: Rates, wanted: Size) -> Plan:
    """The plan with peak, time, size and notices."""
    plan = replace(plan, model=replace(plan.model, tiles=tiles_per_frame(plan)))
    seconds = times.seconds(plan, budget, rates)
    on_card = plan.model.device == "cuda"
    plan = replace(
        plan,
        stages=_stages(plan, budget, rates),
        peak_bytes=peaks.ram_bytes(plan),
        device_bytes=peaks.device_bytes(plan),
        device_budget_bytes=budget.vram_bytes if on_card else 0,
        card=budget.gpu.title if on_card and budget.gpu is not None else "",
        is_pretended=budget.is_pretended and on_card,
        seconds=seconds,
        seconds_error=seconds * times.error(plan, budget, rates),
        is_measured=times.is_measured(plan, budget, rates),
        output_bytes=output_bytes(plan, request.media),
        free_disk_bytes=budget.free_output_bytes,
    )
    notices: tuple[Notice, ...] = notices_of(plan, request, budget, wanted)
    return replace(plan, notices=notices)


def _priced(plan: Plan, budget: Budget, rates: Rates, model: ModelPlan) -> reasons.Price:
    """What the job takes with its model run in another way."""
    other = replace(plan, model=model)
    return reasons.Price(
        device_bytes=peaks.device_bytes(other),
        ram_bytes=peaks.ram_bytes(other),
        seconds=times.seconds(other, budget, rates),
    )


def _stages(plan: Plan, budget: Budget, rates: Rates) -> tuple[StagePlan, ...]:
    """Memory and time of each stage, in the order of the work."""
    memory = peaks.stage_peaks(plan)
    nothing = peaks.Peak(ram=0)
    return tuple(
        StagePlan(
            stage=stage,
            peak_bytes=PROGRAM_BYTES + memory.get(stage, nothing).ram,
            device_bytes=memory.get(stage, nothing).device,
            seconds=seconds,
        )
        for stage, seconds in times.stage_seconds(plan, budget, rates).items()
    )


def _check_size(size: Size, source: Size) -> None:
    if min(size.width, size.height) < min(SMALLEST_SIDE, source.width, source.height):
        raise SettingsError(
            f"A result of {size} pixels shows nothing.",
            hint=f"Choose at least {SMALLEST_SIDE} px a side.",
            size=size,
        )
    if max(size.width, size.height) > LARGEST_SIDE:
        raise UnsupportedMedia(
            f"A result of {size} pixels is too large.",
            hint=f"Choose a smaller scale or height; {LARGEST_SIDE} px a side is the most.",
            size=size,
        )


def _trim(settings: JobSettings, video: VideoInfo) -> tuple[Fraction | None, Fraction | None]:
    start = parse_clock(settings.start) if settings.start else None
    stop = parse_clock(settings.stop) if settings.stop else None
    if start is not None and video.duration is not None and start >= video.duration:
        raise SettingsError(
            f"The film ends at {clock_text(video.duration)}, before the start that was asked for.",
            hint="Choose an earlier start.",
            start=start,
            duration=video.duration,
        )
    if stop is not None and stop <= (start or 0):
        raise SettingsError(
            "The end lies before the start.", hint="Choose a later end.", start=start, stop=stop
        )
    return start, stop


def _frames(video: VideoInfo, start: Fraction | None, stop: Fraction | None) -> int:
    """Frames to do; an estimate when trimmed or when the container does not count them."""
    if (start is None and stop is None) or video.frame_rate is None:
        return max(1, video.frame_count)
    end = stop
    if video.duration is not None:
        end = min(stop, video.duration) if stop is not None else video.duration
    if end is None:
        return max(1, video.frame_count)
    return max(1, round((end - (start or 0)) * video.frame_rate))
