"""The speed test: what this machine does in a second, measured within a minute, for plans to use.

On two cores it takes some half a minute. Costs are CPU seconds of all threads together, so that
other programs disturb them little; on a card they are seconds of the card.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from engine.bench.calibration import models
from engine.bench.timing.unit_costs import Costs
from engine.core.errors import Cancelled
from engine.hardware import devices, gpu_table
from engine.planner import rates as kept
from engine.planner.rates import Rates
from engine.planner.times import name_of

Tell = Callable[[int, int, str], None]  # steps done, of how many, and what is done now
_Step = tuple[str, Callable[[], Costs]]
_MOST_S = 45.0  # after which no step is begun: a busy or slow machine keeps the usual costs
_UNITS = {"start": "s a job", "frame": "s a frame", "check": "s a frame"}


def calibrate(
    tell: Tell = lambda done, total, doing: None, stop: Callable[[], bool] = lambda: False
) -> Rates:
    """Measure what this machine does; nothing is kept yet, see `keep`.

    Args:
        tell: Told before each step, and at the end.
        stop: Asked between steps.

    Raises:
        Cancelled: `stop` says so.
    """
    threads, until = torch.get_num_threads(), time.monotonic() + _MOST_S
    torch.set_num_threads(devices.cpu_threads())
    card = _card()
    try:
        with tempfile.TemporaryDirectory(prefix="upreel-speed-") as folder:
            steps = [] if card is None else list(models.steps("cuda", card[1]))
            behind = len(steps)
            steps += _on_processor(Path(folder))
            found = _done(steps, tell, stop, until)
    finally:
        torch.set_num_threads(threads)
    costs: Costs = {name: cost for one in found[behind:] for name, cost in one.items()}
    if card is None:
        return Rates(costs=costs)
    on_card: Costs = {name: cost for one in found[:behind] for name, cost in one.items()}
    return Rates(costs=costs, cards={card[0]: on_card})


def keep(rates: Rates) -> None:
    """Let plans use what was measured; what jobs taught about the speeds before is forgotten."""
    old = kept.load_rates()
    measured = set(rates.cards) | {""}
    jobs = {key: one for key, one in old.jobs.items() if key.partition(" on ")[2] not in measured}
    kept.keep(
        replace(
            old,
            jobs=jobs,
            costs={**old.costs, **rates.costs},
            cards={**old.cards, **rates.cards},
        )
    )


def figures(rates: Rates) -> tuple[tuple[str, str], ...]:
    """What was measured, for people: name and figure with its unit."""
    found = [(name, _figure(name, cost, "CPU")) for name, cost in rates.costs.items()]
    for card, costs in rates.cards.items():
        found += [(f"{name}, {card}", _figure(name, cost, "card")) for name, cost in costs.items()]
    return tuple(found)


def _figure(name: str, cost: float, device: str) -> str:
    if name.startswith("open-"):
        return f"{cost:.3g} s a segment"
    if name in _UNITS:
        return f"{cost:.3g} {_UNITS[name]}"
    if name.startswith(("vae-", "transformer-")):
        return f"{1e3 / cost:.3g} billion operations a second of the {device}"
    return f"{1 / cost:.3g} million pixels a second of the {device}"


def _on_processor(folder: Path) -> Iterator[_Step]:
    if importlib.util.find_spec("av") is not None:  # a machine may have the models alone
        from engine.bench.calibration import film

        yield from film.steps(film.Film(folder))
    yield from models.steps("cpu")


def _done(steps: list[_Step], tell: Tell, stop: Callable[[], bool], until: float) -> list[Costs]:
    """What each step measured; nothing for those that there was no time for."""
    found: list[Costs] = []
    for number, (doing, work) in enumerate(steps):
        if stop():
            raise Cancelled
        if time.monotonic() > until:
            break
        tell(number, len(steps), doing)
        with torch.inference_mode():
            found.append(work())
    tell(len(steps), len(steps), "")
    return found


def _card() -> tuple[str, tuple[int, int]] | None:
    """The name that plans know the card under that torch can use, and its CUDA capability."""
    if not torch.cuda.is_available():
        return None
    capability = torch.cuda.get_device_capability()
    gpus = devices.gpus()
    card = gpu_table.find(gpus[0].name, gpus[0].total_bytes) if gpus else None
    return name_of(card, capability), capability
