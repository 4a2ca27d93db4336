"""Offers of other settings: what fits in place of a plan that does not, and what is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from engine.core.errors import EngineError
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.core.units import minutes_message
from engine.models import registry
from engine.models.planning.candidates import first_fit
from engine.protocol.plan import Notice, Plan
from engine.settings.assignments import with_text
from engine.settings.schema import JobSettings

_HEIGHTS = (2160, 1440, 1080, 720, 540, 480, 360, 240)  # px, of a result
_SPEEDS = ("slow", "medium", "auto", "fast")  # of encoders: none keeps more than the one before
_WORTH_IT = 0.7  # of the time takes, at most, what is offered as faster
_WORKING_SIZE = 70  # %, the smallest that is offered
Fits = Callable[[JobSettings], bool]


def with_offers(
    notice: Notice, settings: JobSettings, sizes: tuple[Size, Size], fits: Fits
) -> Notice:
    """A refusal with what would fit instead.

    Args:
        notice: The refusal.
        settings: Settings of the user.
        sizes: Sizes of the source and of the wanted result, px.
        fits: Whether a job with other settings would fit.

    Returns:
        The notice with "offers" among its params: settings as for `with_text`, parted by ";", the
        most helpful first; a hint that names the first of them.
    """
    found = list(_offers(settings, sizes, fits))
    if not found:
        return notice
    offers = ";".join(offer for offer, _ in found)
    params = {**notice.params, "offers": offers, "advice": found[0][1]}
    return replace(notice, params=params)


def _offers(
    settings: JobSettings, sizes: tuple[Size, Size], fits: Fits
) -> Iterator[tuple[str, Message]]:
    """Settings to change, and a sentence about it."""
    family, _ = registry.family_for(settings)
    precision = family.smaller_file(settings)
    if precision and _fits(replace(settings, precision=precision), fits):
        yield f"precision={precision}", message("advice.smaller-file", precision=precision)
    quicker = [replace(settings, speed=one) for one in _SPEEDS[_SPEEDS.index(settings.speed) + 1 :]]
    for one in first_fit(quicker, lambda one: _fits(one, fits))[:1]:
        yield f"speed={one.speed}", message("advice.quicker-encoding")
    lower = [replace(settings, height=height, width=0) for height in _heights(*sizes)]
    for one in first_fit(lower, lambda one: _fits(one, fits))[:1]:
        yield f"height={one.height},width=0", message("advice.lower-result", height=one.height)
    for model in (family.smaller_model(settings), *registry.built_in()):
        if model and model != settings.model and not settings.dit:
            smaller = replace(settings, model=model, precision="auto")
            if _fits(smaller, fits):
                title = registry.title_of(model)
                yield f"model={model}", message("advice.other-model", title=title)


def _fits(settings: JobSettings, fits: Fits) -> bool:
    try:
        return fits(settings)
    except EngineError:  # such a job cannot be at all
        return False


def _heights(source: Size, wanted: Size) -> list[int]:
    """Usual heights below the wanted one that are not below the source's, the largest first."""
    return [height for height in _HEIGHTS if source.height <= height < wanted.height]


# --- in place of a plan that flickers, or takes very long


def slow_notice(
    plan: Plan,
    settings: JobSettings,
    planned: Callable[[JobSettings], Plan],
    *,
    flickers: bool,
) -> Notice:
    """A warning of a plan that flickers, or that takes very long.

    Args:
        plan: Plan with its predictions.
        settings: Settings of the user; the model is named.
        planned: The plan of other settings.
        flickers: Memory only holds clips of one frame.

    Returns:
        The notice with "offers" among its params, as `with_offers` has them, and their times.
    """
    times = plan.seconds * float(plan.picture.frame_rate) / max(1, plan.frames)
    found = dict(_faster(plan, settings, planned))
    advice = message("advice.instead", choices=tuple(found.values())) if found else ""
    return Notice(
        code="plan-slow",
        case="flickers" if flickers else "takes-long",
        severity="warning",
        params={
            "time": minutes_message(plan.seconds),
            "times": f"{times:.0f}",
            "offers": ";".join(found),
            "advice": advice,
        },
    )


def _faster(
    plan: Plan, settings: JobSettings, planned: Callable[[JobSettings], Plan]
) -> Iterator[tuple[str, Message]]:
    """Settings to change, and their names with the times that they take."""
    most = plan.seconds * (1 if plan.work.is_single_frames else _WORTH_IT)
    small = registry.family_of(plan.work).smaller_model(settings)
    offers = [f"model={small},precision=auto"] if small and not settings.dit else []
    if plan.work.takes_shots and settings.working_size > _WORKING_SIZE:
        offers.append(f"working_size={_WORKING_SIZE}")
    offers += [f"model={model}" for model in registry.built_in() if model != settings.model]
    for offer in offers:
        asked = with_text(settings, offer.split(","))
        try:
            other = planned(asked)
        except EngineError:  # such a job cannot be at all
            continue
        fits = all(notice.code != "plan-does-not-fit" for notice in other.notices)
        if fits and not other.work.is_single_frames and other.seconds < most:
            title, time = registry.title_of(asked.model), minutes_message(other.seconds)
            about = {"title": title, "time": time, "share": str(asked.working_size)}
            small_size = asked.working_size < settings.working_size
            yield offer, message("advice.at-size" if small_size else "advice.taking", **about)
