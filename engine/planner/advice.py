"""Advice with a refusal: settings with which the job would fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace

from engine.core.errors import EngineError
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.models import registry
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings

_HEIGHTS = (2160, 1440, 1080, 720, 540, 480, 360, 240)  # px, of a result
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
    heights = _heights(*sizes)
    lower = [replace(settings, height=height, width=0) for height in heights]
    place = bisect_left(lower, True, key=lambda one: _fits(one, fits))
    if place < len(lower):
        height = heights[place]
        yield f"height={height},width=0", message("advice.lower-result", height=height)
    built_in = [model for one in registry.families() if one.is_built_in for model in one.models]
    for model in (family.smaller_model(settings), *built_in):
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
