"""Settings, media and budget to the Plan that fits: pure, deterministic, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from engine.core.errors import NoUsableGpu
from engine.core.geometry import FrameSpan
from engine.core.units import memory_text
from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.contracts import Step, WorkRequest
from engine.models.planning.memory import PhaseMemory, Room
from engine.planner import first_pass, gpu_team, latents, peaks, times, workers
from engine.planner.joining import other_computers
from engine.planner.notices import (
    Asked,
    commit_limits,
    in_order,
    notices_of,
    other_model,
    refusal_of,
)
from engine.planner.offers import slow_notice, with_offers
from engine.planner.rates import Rates
from engine.planner.target import (
    check_size,
    default_output,
    frames_between,
    output_bytes,
    pictures_target,
    stored_target,
    trimmed,
)
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import (
    Alternative,
    Limit,
    Notice,
    PassName,
    PicturePlan,
    Plan,
    Reasons,
    StagePlan,
    WorkPlan,
)
from engine.settings.optimisations import choices
from engine.settings.schema import JobSettings, with_environment
from engine.settings.switches import switches_of
from engine.video import film_preparation
from engine.video.write import codecs, containers

# s; "auto" takes the larger of two models of a family for stills and short clips alone: Lite Plus
# is slightly clearer than Lite, and takes up to fifteen times as long.
_MOST_AUTOMATIC_S = 60
_SLOW = 100  # times as long as the video lasts
_MOST_HALVED = 3  # times that tiles are halved because a GPU was lost as often


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request for a plan: a source, settings and, where the user named one, a result.

    Attributes:
        machines: Names of the computers that this one is paired with, by their fingerprint.
    """

    media: MediaInfo
    settings: JobSettings
    output: Path | None = None
    machines: Mapping[str, str] = field(default_factory=dict)


def plan_job(request: Request, budget: Budget, rates: Rates) -> Plan:
    """Decide everything before the start.

    Returns:
        A plan, with its reasons. One that cannot start has a notice of severity "refusal"; one that
        does not fit lists there what would.

    Raises:
        SettingsError: Impossible times, or a result too small to show anything.
        UnsupportedMedia: The result would be larger than any file can hold.
        EncoderMissing, ContainerMismatch: The wanted codec is not here or not for this container.
        NoUsableGpu: A GPU was asked for and there is none.
    """
    plan = bare_plan(request, budget, rates)
    if request.settings.model == "auto":
        request = replace(request, settings=replace(request.settings, model=plan.work.model))
    team = gpu_team.budget_of(plan, budget) if budget.gpus else budget
    reasons = reasons_of(plan, request, team, rates)
    plan = replace(plan, reasons=reasons)

    def planned(settings: JobSettings) -> Plan:
        return bare_plan(replace(request, settings=settings), budget, rates)

    refusal = refusal_of(plan)
    if refusal is None:
        flickers = plan.work.is_single_frames and request.settings.clip_frames != 1
        if flickers or plan.seconds * plan.picture.frame_rate > _SLOW * plan.frames:
            slow = slow_notice(plan, request.settings, planned, flickers=flickers)
            plan = replace(plan, notices=in_order((*plan.notices, slow)))
        if reasons.limited_by == "commit" and budget.commit is not None:
            plan = replace(plan, notices=(*plan.notices, commit_limits(plan, budget.commit)))
        return plan

    sizes = plan.source_size, plan.stored_size
    better = with_offers(
        refusal, request.settings, sizes, lambda settings: refusal_of(planned(settings)) is None
    )
    return replace(plan, notices=tuple(better if n is refusal else n for n in plan.notices))


def bare_plan(request: Request, budget: Budget, rates: Rates) -> Plan:
    """Plan like `plan_job`, without reasons and without what would fit instead.

    Of the models that "auto" may stand for it takes the first one that fits this machine while it
    is idle, and soon enough where it is one for short jobs, else the last: which model it is does
    not depend on what else runs at present. Each model that is passed over has a notice.
    """
    *preferred, last = registry.meanings(request.settings, budget)
    video, passed = request.media.video, list[Plan]()

    def planned(meant: registry.Meaning, within: Budget) -> Plan:
        return _plan_of(replace(request, settings=meant.settings), within, rates)

    def is_taken(plan: Plan, meant: registry.Meaning) -> bool:
        is_soon_enough = not meant.is_brief or _is_brief(plan, video)
        return refusal_of(plan) is None and is_soon_enough

    for meant in preferred:
        plan = deciding = planned(meant, budget)
        if not is_taken(plan, meant):
            deciding = planned(meant, budget.idle)
        if is_taken(deciding, meant):
            break
        passed.append(deciding)
    else:
        plan = planned(last, budget)
    others = (other_model(one, plan.work.model, video) for one in passed)
    return replace(plan, notices=(*plan.notices, *others))


def _is_brief(plan: Plan, video: VideoInfo) -> bool:
    """Whether a job is short enough for a model that serves only short jobs.

    Without a model both plans are the same. A stream of unknown length has no frame count.
    """
    is_copy = plan.work.model == "none"
    return is_copy or (video.frame_count > 0 and plan.seconds <= _MOST_AUTOMATIC_S)


def _plan_of(request: Request, budget: Budget, rates: Rates) -> Plan:
    """The plan of one model."""
    if len(budget.gpus) < 2:
        return _plan_within(request, budget, rates)
    return gpu_team.soonest(lambda some: _plan_within(request, some, rates), budget)


def _plan_within(request: Request, budget: Budget, rates: Rates) -> Plan:
    """The plan of one model, for a GPU or for all GPUs of a budget."""
    settings = with_environment(request.settings)
    if settings.vae_precision == "fastest":
        settings = with_fastest_dtype(settings, device_of(settings, budget), budget)
    fields = film_preparation.deinterlacing_of(request.media, settings)
    media = film_preparation.deinterlaced(request.media, fields)
    aspect = film_preparation.sample_aspect(media.video, settings)
    media = replace(media, video=replace(media.video, sample_aspect=aspect))
    container = codecs.choose_container(media, settings, request.output)
    wanted = stored_target(media.video, settings)
    if media.video.rotation in (90, 270) and not containers.can_write_rotation(container):
        wanted = wanted.transposed()  # the pixels are turned instead
    check_size(wanted, media.video.size)
    output = request.output or default_output(media, settings, container)
    picture = codecs.plan_picture(media, settings, wanted, container, output=output)
    start, stop = trimmed(settings, media.video)
    pattern = ""
    if container == "sequence":
        output, pattern = pictures_target(output)
    part = film_preparation.part_to_enlarge(media, settings, picture)
    within = (
        (media.video, picture)
        if part is None
        else film_preparation.within(part, media.video, picture)
    )
    work = _largest(*within, settings, budget)
    switches = switches_of(
        settings.switches, work.device, budget.capability, is_careful=budget.gpu_losses > 0
    )
    plan = Plan(
        source=media.path,
        output=output,
        pattern=pattern,
        container=container,
        source_size=media.video.size,
        source_rotation=media.video.rotation,
        deinterlacing=fields,
        enlarged=part,
        span=FrameSpan(0, frames_between(media, start, stop)),
        start=start,
        stop=stop,
        work=registry.family_of(work).with_switches(work, switches),
        latent=(
            latents.choose(media, settings, work.device, budget) if media.holds_latents else None
        ),
        picture=picture,
        streams=containers.plan_streams(media, container, settings.sound, (start, stop)),
        segment_frames=max(1, round(settings.segment_seconds * picture.frame_rate)),
        window_bytes=budget.window_bytes,
        device_limit_bytes=budget.vram_limit_bytes if work.device == "cuda" else 0,
    )
    if settings.first_model:
        plan = first_pass.added(plan, within[0], settings, budget)
    if len(budget.gpus) > 1 and work.device == "cuda":
        plan = replace(plan, workers=gpu_team.workers_of(budget))
    left = round(budget.vram_bytes / times.memory_factor(plan, budget, rates))
    budget = replace(budget, vram_bytes=left)
    plan = _fitted(plan, budget, rates)
    if plan.workers:
        plan = gpu_team.shared(plan, budget, rates)
    elif settings.workers > 1:
        plan = workers.added(plan, settings.workers, budget)
    if settings.machines != "off":
        plan = other_computers().let_in(plan, media)
    return _predicted(plan, request, budget, rates, Asked(size=wanted, work=work))


def _largest(
    video: VideoInfo, picture: PicturePlan, settings: JobSettings, budget: Budget
) -> WorkPlan:
    """The largest plan of the model that is asked for.

    Raises:
        NoUsableGpu: A GPU was asked for and there is none that the program can use.
        WeightsError: A file of a model is none of its kind.
    """
    family, model = registry.family_for(settings)
    awaits_runtime = budget.needed_runtime is not None and settings.device != "cpu"
    device = "cuda" if family.wants_gpu and awaits_runtime else device_of(settings, budget)
    larger = picture.size.width > video.size.width or picture.size.height > video.size.height
    if family.enlarges_only and not larger:
        family, model = registry.family_for(replace(settings, model="none"))
    found: WorkPlan = family.choose(
        WorkRequest(
            model=model,
            video=video,
            picture=picture,
            settings=settings,
            budget=budget,
            device=device,
        )
    )
    return found


def device_of(settings: JobSettings, budget: Budget) -> str:
    """Device that a job computes on: "cuda" or "cpu".

    Raises:
        NoUsableGpu: A GPU was asked for and there is none that the program can use.
    """
    if settings.device in ("cuda", "all") and not budget.cuda:
        raise NoUsableGpu("installation")
    return "cuda" if budget.cuda and settings.device != "cpu" else "cpu"


def with_fastest_dtype(settings: JobSettings, device: str, budget: Budget) -> JobSettings:
    """Settings with a dtype of the VAE in place of "fastest"; a job keeps it in its plan.

    On a GPU it is the usual one. On a CPU that multiplies bfloat16 a trial decides, which takes
    less than half a second the first time, and loads torch; on another computer float32.

    Args:
        settings: Settings of a job.
        device: Device that the installed torch can use for it, "cpu" or "cuda".
        budget: Budget of the computer.
    """
    if settings.vae_precision != "fastest":
        return settings
    awaits_runtime = budget.needed_runtime is not None and settings.device != "cpu"
    if device == "cuda" or awaits_runtime:
        return replace(settings, vae_precision="auto")
    dtype = "float32"
    if budget.has_fast_bf16 and not budget.is_pretended:
        from engine.ops.conv.cpu_dtype import fastest_dtype

        dtype = fastest_dtype().dtype
    return replace(settings, vae_precision=dtype)


def _fitted(plan: Plan, budget: Budget, rates: Rates) -> Plan:
    """The fastest plan of each pass within the budget; the smallest where none is.

    A first pass gets what the model leaves: it loses little by small tiles. Latents are decoded
    before, with all the room.
    """
    alone, first = replace(plan, latent=None), plan.first_pass
    if first is not None:
        alone = replace(alone, first_pass=first_pass.smallest(first))
    alone = _with_fitted(alone, "work", budget, rates)
    if first is not None:
        alone = _with_fitted(replace(alone, first_pass=first), "first_pass", budget, rates)
    if plan.latent is None:
        return alone
    return _with_fitted(replace(alone, latent=plan.latent), "latent", budget, rates)


def _with_fitted(plan: Plan, which: PassName, budget: Budget, rates: Rates) -> Plan:
    work, room = registry.pass_of(plan, which), room_of(plan, which, budget, rates)
    family = registry.family_of(work)
    found = family.fitted(work, room)
    for _ in range(min(budget.gpu_losses, _MOST_HALVED) if work.device == "cuda" else 0):
        smaller = family.fitted(family.gentler(work, found), room)
        if not room.holds(smaller):
            break
        found = smaller
    return registry.with_pass(plan, which, found)


def room_of(plan: Plan, which: PassName, budget: Budget, rates: Rates) -> Room:
    """Memory that a job may take, and its use with other plans of one of its passes."""
    return Room(
        budget=budget,
        frames=plan.frames,
        peak=cache(lambda work: peaks.job_peak(registry.with_pass(plan, which, work))),
        seconds=cache(lambda work: times.model_seconds(work, plan.frames, budget, rates)),
        processes=max(1, len(plan.workers)),
    )


def _predicted(plan: Plan, request: Request, budget: Budget, rates: Rates, asked: Asked) -> Plan:
    """The plan with peak, time, size and notices."""
    seconds, spread = times.seconds(plan, budget, rates), times.spread(plan, budget, rates)
    on_gpu, peak = plan.work.device == "cuda", peaks.job_peak(plan)
    plan = replace(
        plan,
        stages=_stages(plan, budget, rates),
        peak_bytes=peak.host,
        device_bytes=peak.device,
        budget_bytes=peaks.most_ram(plan, budget),
        device_budget_bytes=budget.vram_bytes if on_gpu else 0,
        card=budget.gpu.title if on_gpu and budget.gpu is not None else "",
        gpu=budget.gpu_value if on_gpu else "",
        is_pretended=budget.is_pretended and on_gpu,
        seconds=seconds,
        seconds_low=seconds * spread.low,
        seconds_high=seconds * spread.high,
        is_measured=times.is_measured(plan, budget, rates),
        output_bytes=output_bytes(plan, request.media),
        free_disk_bytes=budget.free_output_bytes,
    )
    return replace(plan, notices=notices_of(plan, request.media, request.settings, budget, asked))


def _stages(plan: Plan, budget: Budget, rates: Rates) -> tuple[StagePlan, ...]:
    """Memory and time of each stage, in the order of the work."""
    memory = peaks.stage_peaks(plan)
    nothing = PhaseMemory(0)
    return tuple(
        StagePlan(
            stage=stage,
            peak_bytes=peaks.program_bytes(plan) + memory.get(stage, nothing).host,
            device_bytes=memory.get(stage, nothing).device,
            seconds=seconds,
        )
        for stage, seconds in times.stage_seconds(plan, budget, rates).items()
    )


def reasons_of(plan: Plan, request: Request, budget: Budget, rates: Rates) -> Reasons:
    """The reasons for a plan.

    Args:
        plan: Plan with its predictions.
        request: Request that it was made for.
        budget: Budget of those of its GPUs that make the plan.
        rates: Speeds of this computer and others.
    """
    family = registry.family_of(plan.work)
    fits = refusal_of(plan) is None
    # the smallest plan, which does not fit, has nothing to be compared with
    steps = sorted(family.steps(plan.work), key=lambda step: not step.is_more) if fits else []
    steps = [step for step in steps if _is_possible(step, plan, budget)]
    pairs = [(_alternative(plan, budget, rates, step), step) for step in steps]
    more = [one for one, step in pairs if step.is_more]
    limited_by = _limit(plan, request.settings, more, budget)
    needed = plan.device_bytes or plan.peak_bytes
    allowed = plan.device_budget_bytes or plan.budget_bytes
    of_gpu = limited_by in ("video-memory", "vram-limit")
    return Reasons(
        limited_by=limited_by,
        params={
            "needed": str(needed),
            "allowed": str(allowed),
            "size": memory_text(plan.device_bytes if of_gpu else plan.peak_bytes),
            "budget": memory_text(plan.device_budget_bytes if of_gpu else plan.budget_bytes),
        },
        choices=(
            *family.choices(plan.work),
            *(first_pass.choices(plan) if plan.first_pass else ()),
            *_workers_chosen(plan),
            *_joining(plan, request, budget, rates),
        ),
        alternatives=tuple(one for one, _ in pairs if _is_another(one, plan)),
    )


def _is_another(found: Alternative, plan: Plan) -> bool:
    """Whether an alternative differs from the plan in memory or in time."""
    pairs = (
        (found.device_bytes, plan.device_bytes),
        (found.ram_bytes, plan.peak_bytes),
        (found.seconds, plan.seconds),
    )
    return not found.fits or any(abs(one - now) > _SAME * now for one, now in pairs)


def _workers_chosen(plan: Plan) -> Iterator[Notice]:
    if len(plan.workers) > 1:
        yield from gpu_team.choices(plan) if plan.workers[0].gpu else workers.choices(plan)


def _joining(plan: Plan, request: Request, budget: Budget, rates: Rates) -> Iterable[Notice]:
    if not plan.takes_machines:
        return ()
    return other_computers().choices(plan, request.media, request.machines, budget, rates)


# --- what limits

_SAME = 0.0005  # a difference that no figure of a plan shows, as a share
_SIZES = ("clip_frames", "encode_tile", "decode_tile", "tile")  # 0 as large as fits


def _limit(plan: Plan, settings: JobSettings, more: list[Alternative], budget: Budget) -> Limit:
    """Scarce kind of memory; of two, the one of which twice as much saves more time."""
    on_gpu = plan.work.device == "cuda"
    saved: dict[Limit, float] = {}
    for one in (*more, _itself(plan)):
        most = budget.ram_beside(one.device_bytes * max(1, len(plan.workers)))
        short: tuple[tuple[Limit, int, int], ...] = (
            (
                "vram-limit" if budget.is_vram_limited else "video-memory",
                one.device_bytes if on_gpu else 0,
                plan.device_budget_bytes,
            ),
            ("memory" if most == budget.ram_bytes else "commit", one.ram_bytes, most),
        )
        for limit, needed, allowed in short:
            if needed > allowed:
                # work that is repeated falls with the memory: twice as much saves half of it
                share = 1 if needed <= 2 * allowed else 1 / 2
                seconds = share * (plan.seconds - one.seconds)
                saved[limit] = max(saved.get(limit, seconds), seconds)
    if saved:
        return max(saved, key=lambda limit: saved[limit])
    if on_gpu and budget.gpu_losses:
        return "gpu-losses"
    is_set = any(getattr(settings, name) for name in _SIZES) or settings.blocks_on_device >= 0
    return "settings" if is_set else "nothing"


def _itself(plan: Plan) -> Alternative:
    return Alternative(
        code="",
        message=None,
        device_bytes=plan.device_bytes,
        ram_bytes=plan.peak_bytes,
        seconds=plan.seconds,
        fits=True,
    )


# --- one step away


def _is_possible(step: Step, plan: Plan, budget: Budget) -> bool:
    """Whether the device can carry out the setting of a step."""
    name, _, value = step.setting.partition("=")
    entry = next((one for one in choices() if name and one.setting == name), None)
    return entry is None or entry.missing(value, plan.work.device, budget.capability) is None


def _alternative(plan: Plan, budget: Budget, rates: Rates, step: Step) -> Alternative:
    """Seconds of the whole job with another plan of its model."""
    other = replace(plan, work=step.work)
    peak = peaks.job_peak(other)
    fits_gpu = peak.device <= plan.device_budget_bytes or step.work.device != "cuda"
    return Alternative(
        code=step.code,
        message=step.message,
        device_bytes=peak.device,
        ram_bytes=peak.host,
        seconds=times.seconds(other, budget, rates),
        fits=fits_gpu and peak.host <= peaks.most_ram(other, budget),
        params=step.params,
    )
