"""Notices of a plan and of its source: facts that a user should know before the start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from engine.core.geometry import Size
from engine.core.messages import Param, message, title
from engine.core.units import bytes_text, memory_text, minutes_message, rate_text
from engine.hardware.budget import Budget
from engine.hardware.commit import Commit
from engine.models import registry
from engine.models.latents import Guess
from engine.planner import latents, peaks, workers
from engine.planner.joining import other_computers
from engine.protocol.media import ChapterOrder, MediaInfo, Reading, VideoInfo
from engine.protocol.plan import LatentPlan, Notice, Plan, WorkPlan
from engine.settings.optimisations import SwitchChoice, SwitchEntry, Value, optimisations
from engine.settings.schema import JobSettings, describe, with_environment
from engine.settings.switches import entries, named_changes
from engine.video.colour_tags import assumed_matrix
from engine.video.film_preparation import source_notices
from engine.video.write import codecs
from engine.video.write.containers import CONTAINERS
from engine.video.write.statements import StatedResult, statement_notices
from engine.video.write.stream_notices import stream_notices

_TOO_LARGE = "plan-does-not-fit"
SPARE_BYTES = 200 * 10**6  # left free on every disk
_STRETCHED = 0.03  # share by which a picture may get wider or narrower without a word
_DOWNLOAD_RATE = 50e6 / 8  # bytes/s; assumed, as no download was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Request in sizes: of the result, and the largest plan, which has what the user chose."""

    size: Size
    work: WorkPlan


def notices_of(
    plan: Plan, media: MediaInfo, settings: JobSettings, budget: Budget, asked: Asked
) -> tuple[Notice, ...]:
    """Everything worth knowing about this plan, refusals first.

    Args:
        plan: Plan with its predictions.
        media: The source.
        settings: Settings as the user chose them.
        budget: Budget of the computer.
        asked: Request in sizes, before codec and memory changed them.
    """
    found = [
        *choice_notices(plan, settings, budget),
        *_unused(plan, settings),
        *_lowered(plan.work, settings, asked.work),
        *_gone(plan, settings, budget),
        *_losses(plan, budget),
        *_memory(plan, budget),
        *_lacking(plan, budget),
        *(workers.notices(plan, settings, budget) if settings.workers > 1 else ()),
        *(other_computers().notices(media) if settings.machines != "off" else ()),
        *(one for work in plan.passes for one in registry.family_of(work).notices(work, budget)),
        *(_latents(plan, media, settings, budget) if media.holds_latents else ()),
        *_disk(plan, budget),
        *_damage(media, settings),
        *_source(media),
        *_kind(plan, media),
        *source_notices(media, settings),
        *_size(plan, asked.size),
        *_shape(plan, media.video, settings),
        *codecs.picture_notices(media, plan.picture),
        *stream_notices(media, plan.container, settings.sound),
        *(statement_notices(media, StatedResult.of_plan(plan)) if media.statements else ()),
    ]
    return in_order(found)


def in_order(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Notices, refusals first, information last."""
    order = {"refusal": 0, "warning": 1, "info": 2}
    return tuple(sorted(notices, key=lambda notice: order[notice.severity]))


def _gone(plan: Plan, settings: JobSettings, budget: Budget) -> Iterator[Notice]:
    if budget.gpu_is_gone:
        here = plan.card or plan.gpu or message("device.processor")
        params = {"gpu": settings.device, "device": here}
        yield Notice(code="gpu-gone", severity="warning", params=params)


def _losses(plan: Plan, budget: Budget) -> Iterator[Notice]:
    if plan.work.device == "cuda" and budget.gpu_losses:
        yield Notice(code="gpu-was-lost", severity="info", params={"gpu": plan.card})


def _memory(plan: Plan, budget: Budget) -> Iterator[Notice]:
    own = [stage.device_bytes for stage in plan.stages if stage.stage != "latents"]
    device = max(own, default=0)
    if plan.work.device == "cuda" and device > budget.vram_bytes:
        advice = "advice.vram-limit" if budget.is_vram_limited else "advice.smaller-result"
        yield _too_large("gpu-memory", device, budget.vram_bytes, advice)
        return
    allowed = peaks.most_ram(plan, budget)
    if plan.peak_bytes <= allowed:
        return
    if budget.commit is None or allowed == budget.ram_bytes:
        yield _too_large("main-memory", plan.peak_bytes, allowed, "advice.smaller-result")
    else:
        about = {**_promised(plan.peak_bytes, allowed, budget.commit)}
        about["advice"] = message("advice.smaller-result")
        yield Notice(code=_TOO_LARGE, case="commit", severity="refusal", params=about)


def commit_limits(plan: Plan, commit: Commit) -> Notice:
    """Notice that a plan fits, but is slower because the system promises less memory than is free.

    Args:
        plan: Plan with its predictions.
        commit: Promises of memory of this computer.
    """
    about = _promised(plan.peak_bytes, plan.budget_bytes, commit)
    return Notice(code="commit-limits", severity="info", params=about)


def _promised(needed: int, allowed: int, commit: Commit) -> dict[str, Param]:
    """Bytes, and a remedy that depends on the reason of the limit."""
    remedy = message(f"advice.{commit.cause}")
    return {
        **_compared(needed, allowed),
        "limit": memory_text(commit.limit_bytes),
        "remedy": remedy,
    }


def _compared(needed: int, allowed: int) -> dict[str, Param]:
    """Bytes that a plan needs and may take, as numbers and as text."""
    return {
        "needed": str(needed),
        "allowed": str(allowed),
        "size": memory_text(needed),
        "budget": memory_text(allowed),
    }


def _too_large(case: str, needed: int, allowed: int, advice: str) -> Notice:
    """A refusal: too little memory.

    Args:
        case: "gpu-memory" or "main-memory".
        needed: Bytes.
        allowed: Bytes.
        advice: Code of the message that helps.
    """
    return Notice(
        code=_TOO_LARGE,
        case=case,
        severity="refusal",
        params={**_compared(needed, allowed), "advice": message(advice)},
    )


def refusal_of(plan: Plan) -> Notice | None:
    """Why a plan does not fit; None where it does."""
    return next((notice for notice in plan.notices if notice.code == _TOO_LARGE), None)


def other_model(plan: Plan, chosen: str, video: VideoInfo) -> Notice:
    """Notice of a model that "auto" does not choose here, and why.

    Args:
        plan: Plan of the model that would be preferred; it does not fit, or takes long.
        chosen: Id of the one that is taken instead.
        video: Source; its frame count is 0 if its length is unknown.
    """
    model = plan.work.model
    params: dict[str, Param] = {"title": registry.title_of(model)}
    params["chosen"] = registry.title_of(chosen)
    refusal = refusal_of(plan)
    if refusal is not None:
        params |= {name: refusal.params[name] for name in ("size", "budget")}
        return Notice(code="other-model", case=refusal.case, severity="info", params=params)
    params |= {"model": model, "offers": f"model={model}", "time": minutes_message(plan.seconds)}
    case = "takes-long" if video.frame_count else "length-unknown"
    return Notice(code="other-model", case=case, severity="info", params=params)


def _disk_may_fill(case: str, free: int, needed: int) -> Notice:
    """A warning: too little space on a disk.

    Args:
        case: Use of the disk: "result", "job-folder" or "decoded-film".
        free: Bytes.
        needed: Bytes.
    """
    params = {"free": str(free), "needed": str(needed), "disk": case}
    return Notice(
        code="disk-may-fill",
        case=case,
        severity="warning",
        params={**params, "space": bytes_text(free), "size": bytes_text(needed)},
    )


def _lacking(plan: Plan, budget: Budget) -> Iterator[Notice]:
    """A refusal: model files, or the NVIDIA runtime, have to be downloaded first."""
    runtime = None
    if plan.work.device == "cuda" and not budget.cuda:
        runtime = budget.needed_runtime
    missing = [weights for weights in plan.work.weights_files if not weights.is_here]
    if not missing and runtime is None:
        return
    case = "model" if runtime is None else "runtime-and-model" if missing else "runtime"
    runtime_bytes = runtime.bytes if runtime is not None else 0
    to_fetch = sum(weights.bytes for weights in missing) + runtime_bytes
    seconds = to_fetch / _DOWNLOAD_RATE
    yield Notice(
        code="weights-missing",
        case=case,
        severity="refusal",
        params={
            "model": plan.work.model,
            "title": registry.title_of(plan.work.model),
            "gpu": plan.card,
            "files": ",".join(weights.published for weights in missing),
            "file": missing[0].published if missing else "",
            "names": ", ".join(weights.name for weights in missing),
            "bytes": str(to_fetch),
            "size": bytes_text(to_fetch),
            "seconds": str(round(seconds)),
            "time": minutes_message(seconds),
            "speed": f"{_DOWNLOAD_RATE * 8 / 1e6:.0f} Mbit/s",
            "needs_runtime": runtime.id if runtime is not None else "",
            "runtime_bytes": str(runtime_bytes),
            "runtime_size": bytes_text(runtime_bytes),
            "offers": ";".join(f"model={model}" for model in _built_in(plan)),
        },
    )


def _built_in(plan: Plan) -> list[str]:
    """Models that need nothing downloaded and can make the result of a plan."""
    size, source = plan.stored_size, plan.source_size
    is_larger = size.width > source.width or size.height > source.height
    return list(registry.built_in()) if is_larger else []


def _disk(plan: Plan, budget: Budget) -> Iterator[Notice]:
    needed = plan.output_bytes + SPARE_BYTES
    if budget.same_disk:
        needed += plan.output_bytes
    for name, free, need in (
        ("result", budget.free_output_bytes, needed),
        ("job-folder", budget.free_jobs_bytes, plan.output_bytes + SPARE_BYTES),
    ):
        if free is not None and free < need:
            yield _disk_may_fill(name, free, need)


def _damage(media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    if media.is_cut_short:
        yield Notice(
            code="truncated-media",
            case="in-plan",
            severity="warning" if settings.accept_damaged else "refusal",
            params={"name": media.path.name},
        )


def _source(media: MediaInfo) -> Iterator[Notice]:
    video = media.video
    if media.kind == "video" and not video.tags.matrix and video.chroma != "rgb":
        matrix = assumed_matrix(video.size)
        standard = "BT.709" if matrix == "bt709" else "BT.601"
        yield Notice(
            code="colours-guessed",
            severity="info",
            params={"standard": standard},
        )
    if media.chapter_order is not None:
        yield from _order(media.chapter_order)


def _kind(plan: Plan, media: MediaInfo) -> Iterator[Notice]:
    """Warning of an image that is written as a video, often by a slip in its name."""
    if media.kind == "image" and plan.container in CONTAINERS:
        params: dict[str, Param] = {"kind": CONTAINERS[plan.container].title}
        yield Notice(code="image-becomes-video", severity="warning", params=params)


def _order(order: ChapterOrder) -> Iterator[Notice]:
    """Notices of chapters, and of an order of playback, that the result does not have."""
    if order.elsewhere:
        params: dict[str, Param] = {"count": str(order.elsewhere)}
        yield Notice(code="chapters-ordered", case="other-files", severity="warning", params=params)
    elif order.is_ordered:
        yield Notice(code="chapters-ordered", severity="warning")
    if order.editions > 1:
        params = {"count": str(order.editions)}
        yield Notice(code="several-editions", severity="warning", params=params)
    for code, count in (("chapters-unread", order.unread), ("chapter-titles", order.titles)):
        if count:
            yield Notice(code=code, severity="warning", params={"count": str(count)})
    if order.is_linked:
        yield Notice(code="linked-file", severity="warning")


def _size(plan: Plan, wanted: Size) -> Iterator[Notice]:
    size = plan.picture.size
    if size != wanted:
        asked = replace(plan.picture, size=wanted).seen_size
        yield Notice(
            code="size-rounded",
            severity="info",
            params={
                "size": str(plan.picture.seen_size),
                "wanted": str(asked),
                "chroma": plan.picture.chroma,
            },
        )
    stored, source = plan.stored_size, plan.source_size
    factor = max(stored.width / source.width, stored.height / source.height)
    yield from registry.family_of(plan.work).size_notices(plan.work, factor)


def _shape(plan: Plan, video: VideoInfo, settings: JobSettings) -> Iterator[Notice]:
    """Warning of a size that stretches the picture, with pixels as the file or the user has them.

    Args:
        plan: Plan with its sizes.
        video: Source as the file states it.
        settings: Settings of the user; only a width beside a height stretches.
    """
    if settings.target is None:
        return
    stored, source, pixels = plan.stored_size, plan.source_size, plan.picture.sample_aspect
    stretch = Fraction(stored.width * source.height, stored.height * source.width)
    if plan.source_rotation in (90, 270):
        stretch = 1 / stretch
    wider = min(stretch, stretch * pixels / video.sample_aspect, key=lambda one: abs(one - 1))
    if abs(wider - 1) > _STRETCHED:
        percent = f"{100 * abs(float(wider) - 1):.0f}"
        params: dict[str, Param] = {"size": str(plan.picture.seen_size), "percent": percent}
        params["offers"] = f"height={settings.height},width=0"
        case = "wider" if wider > 1 else "narrower"
        yield Notice(code="shape-changes", case=case, severity="warning", params=params)


def choice_notices(plan: Plan, settings: JobSettings, budget: Budget) -> Iterator[Notice]:
    """Refusals of choices that the plan's device cannot carry out, and notices of inexact ones."""
    work, place = plan.work, (plan.work.device, budget.capability)
    of_latents = [] if plan.latent is None else [registry.latent_family(plan.latent.model).name]
    yield from refusals(settings, (work.family, *of_latents), *place)
    inexact = (one for one in optimisations() if one.exactness == "inexact")
    for one in inexact:
        is_on = getattr(getattr(work.switches, one.group), one.name)
        if is_on and one.counts_for(work.family) and one.works_on(*place):
            yield Notice(code="switch-inexact", severity="info", params={"switch": one.key})


def refusals(
    settings: JobSettings,
    families: Collection[str],
    device: str,
    capability: tuple[int, int] | None,
) -> Iterator[Notice]:
    """A refusal for each choice that a device cannot carry out.

    Args:
        settings: Settings of the user.
        families: Whose choices count.
        device: "cpu" or "cuda".
        capability: Compute capability of the GPU.
    """
    for name, entry, value in _chosen(with_environment(settings), families):
        why = entry.missing(value, device, capability)
        if why is not None:
            shown = "on" if value is True else str(value)
            working = tuple(f"{name}={one}" for one in entry.working(device, capability))
            heading = title(entry.code if name == entry.key else f"setting.{name}")
            params: dict[str, Param] = {"title": heading, "choice": f"{name}={shown}"}
            params |= {"why": why, "working": working}
            yield Notice(code="feature-missing", case="choice", severity="refusal", params=params)


def _chosen(
    settings: JobSettings, families: Collection[str]
) -> Iterator[tuple[str, SwitchEntry, Value]]:
    """Switches and choices that were set and that families look at: name, entry, value."""
    by_name = named_changes(settings.switches)
    for entry in entries():
        setting = entry.setting if isinstance(entry, SwitchChoice) else ""
        value = getattr(settings, setting) if setting else by_name.get(entry.key)
        if value is not None and any(map(entry.counts_for, families)):
            yield setting or entry.key, entry, value


def _unused(plan: Plan, settings: JobSettings) -> Iterator[Notice]:
    """A notice of each choice that no model of a job looks at."""
    families = {work.family for work in plan.passes} | ({"latents"} if plan.latent else set())
    if plan.latent is not None:
        families.add(registry.latent_family(plan.latent.model).name)
    usual = JobSettings()
    for name, entry in describe(JobSettings).items():
        is_used = not entry.families or families.intersection(entry.families)
        if not is_used and getattr(settings, name) != getattr(usual, name):
            params: dict[str, Param] = {
                "setting": name,
                "heading": title(f"setting.{name}"),
                "model": registry.title_of(plan.work.model),
            }
            yield Notice(code="setting-unused", severity="info", params=params)


def _lowered(work: WorkPlan, settings: JobSettings, asked: WorkPlan) -> Iterator[Notice]:
    """A notice for each size that the user chose and that is smaller in the plan."""
    if work.family != asked.family:
        return
    usual = JobSettings()
    for name, value in work.step_values.items():
        wanted = getattr(settings, name)
        if wanted != getattr(usual, name) and value != asked.step_values[name]:
            params: dict[str, Param] = {
                "setting": name,
                "heading": title(f"setting.{name}"),
                "value": value,
                "wanted": str(wanted),
            }
            yield Notice(code="setting-lowered", severity="info", params=params)


# --- sources of latents


def _latents(
    plan: Plan, media: MediaInfo, settings: JobSettings, budget: Budget
) -> Iterator[Notice]:
    """Notices about a source of latents."""
    if plan.latent is None:
        return
    _, header, guess = latents.examined(media)
    yield from _missing_vae(plan.latent, header.title)
    needed = max((s.device_bytes for s in plan.stages if s.stage == "latents"), default=0)
    if needed > budget.vram_bytes:
        yield _too_large("gpu-memory", needed, budget.vram_bytes, "advice.processor")
    yield from _film_disk(media, budget)
    yield from _reading(plan.latent, media, settings, guess)
    rate, title = rate_text(media.video.frame_rate), header.title
    if not settings.latent_rate and header.film.rate == header.rate and header.length > 1:
        yield Notice(
            code="latents-rate-assumed",
            severity="info",
            params={"rate": rate, "model": title},
        )


def _film_disk(media: MediaInfo, budget: Budget) -> Iterator[Notice]:
    needed, free = latents.film_bytes(media.video), budget.free_jobs_bytes
    if free < needed:
        yield _disk_may_fill("decoded-film", free, needed)


def _missing_vae(plan: LatentPlan, title: str) -> Iterator[Notice]:
    if not plan.vae.is_here:
        file = plan.vae.published
        yield Notice(
            code="weights-missing",
            case="vae",
            severity="refusal",
            params={"files": file, "file": file, "names": plan.vae.name, "model": title},
        )


def _reading(
    plan: LatentPlan, media: MediaInfo, settings: JobSettings, guess: Guess
) -> Iterator[Notice]:
    reading: Reading = "normalised" if plan.normalised else "raw"
    other: Reading = "raw" if plan.normalised else "normalised"
    if guess.is_sure and guess.reading != reading:
        yield Notice(
            code="latents-look-other",
            severity="warning",
            case=reading,
            params={"name": media.path.name, "reading": reading, "guess": other},
        )
    elif settings.latents == "auto":
        yield Notice(
            code="latents-guessed",
            severity="info" if guess.is_sure else "warning",
            case=reading,
            params={"name": media.path.name, "reading": reading, "guess": guess.reading},
        )
