"""What would fit in the place of what does not: a smaller result, a smaller file, another model."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace

from engine.core.errors import EngineError
from engine.core.geometry import Size
from engine.model_files import catalogue
from engine.models import registry
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings

HEIGHTS = (2160, 1440, 1080, 720, 540, 480, 360, 240)  # px, of a result
_SMALLER = {"seedvr2-7b": "seedvr2-3b", "seedvr2-7b-sharp": "seedvr2-3b"}
REFUSAL = "plan-does-not-fit"

Fits = Callable[[JobSettings], bool]


def with_offers(
    notice: Notice, settings: JobSettings, sizes: tuple[Size, Size], fits: Fits
) -> Notice:
    """A refusal that says what would fit.

    Args:
        notice: The refusal.
        settings: What the user wants.
        sizes: Of the source and of the wanted result, px.
        fits: Whether a job with other settings would fit.

    Returns:
        The notice with "offers" among its params: settings as for `with_text`, parted by ";", the
        most helpful first; a hint that names the first of them.
    """
    found = list(_offers(settings, sizes, fits))
    if not found:
        return notice
    offers = ";".join(offer for offer, _ in found)
    return replace(notice, hint=found[0][1], params={**notice.params, "offers": offers})


def _offers(
    settings: JobSettings, sizes: tuple[Size, Size], fits: Fits
) -> Iterator[tuple[str, str]]:
    """What to set, and a sentence about it."""
    for precision in _smaller_files(settings):
        if _fits(replace(settings, precision=precision), fits):
            yield f"precision={precision}", f"It fits with the smaller file, {precision}."
            break
    heights = _heights(*sizes)
    lower = [replace(settings, height=height, width=0) for height in heights]
    place = bisect_left(lower, True, key=lambda one: _fits(one, fits))
    if place < len(lower):
        yield f"height={heights[place]},width=0", f"A result {heights[place]} px high fits."
    other = _SMALLER.get(settings.model, "")
    for model in (other, "lite"):
        if model and model != settings.model and not _own_files(settings):
            smaller = replace(settings, model=model, precision="auto")
            if _fits(smaller, fits):
                yield f"model={model}", f"{registry.SPECS[model].title} fits."


def _fits(settings: JobSettings, fits: Fits) -> bool:
    try:
        return fits(settings)
    except EngineError:  # such a job cannot be at all
        return False


def _heights(source: Size, wanted: Size) -> list[int]:
    """Usual heights below the wanted one that are not below the source's, the largest first."""
    return [height for height in HEIGHTS if source.height <= height < wanted.height]


def _smaller_files(settings: JobSettings) -> Iterator[str]:
    """The smallest file of the model, where another one is chosen."""
    if not registry.is_seedvr2(settings.model) or _own_files(settings):
        return
    known = catalogue.precisions_of(settings.model)
    smaller = known[known.index(settings.precision) + 1 :] if settings.precision in known else known
    # plain fp8 of the 7B is worse than its size: q4 is smaller and nearer to the truth
    yield from (name for name in smaller[-1:] if name != "fp8")


def _own_files(settings: JobSettings) -> bool:
    return bool(settings.dit)
