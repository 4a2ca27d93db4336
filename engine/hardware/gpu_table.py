"""What NVIDIA's cards can do at most, from `resources/gpus.toml`: for plans, before jobs run."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from engine.core.errors import SettingsError
from engine.core.paths import resource

Generation = Literal["turing", "ampere", "ada", "blackwell"]

GIB = 2**30
_CAPABILITY: dict[Generation, tuple[int, int]] = {
    "turing": (7, 5),
    "ampere": (8, 6),
    "ada": (8, 9),
    "blackwell": (12, 0),
}
_GENERATIONS: dict[str, Generation] = {name: name for name in _CAPABILITY}
_PCIE: dict[Generation, int] = {"turing": 3, "ampere": 4, "ada": 4, "blackwell": 5}
# Of PCIe by generation, one lane, one way.
LANE_BYTES_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
_CORES = {"turing": 64}  # of a multiprocessor; 128 since
_MATRIX_FLOPS = 512  # a clock, of a multiprocessor: half precision, sums in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card as its maker describes it: what it can do at most, not what programs get.

    Attributes:
        name: As the driver says it, e.g. "NVIDIA GeForce RTX 5070 Ti".
        form: "desktop" or "laptop".
        memory_bytes: Nominal size of its memory.
        bandwidth: Bytes a second of that memory.
        half_flops: Of matrices in half precision with sums in float32, a second.
        single_flops: In float32, a second.
        link_bandwidth: Bytes a second from main memory, in theory; the board may have less.
        lanes: Of PCIe, on the card itself.
    """

    name: str
    generation: Generation
    form: str
    memory_bytes: int
    bandwidth: float
    half_flops: float
    single_flops: float
    link_bandwidth: float
    lanes: int = 16

    @property
    def capability(self) -> tuple[int, int]:
        """Of CUDA."""
        return _CAPABILITY[self.generation]

    @property
    def title(self) -> str:
        """For people: "RTX 5070 Ti, 16 GB"."""
        short = self.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        return f"{short}, {self.memory_bytes / GIB:.3g} GB"


@cache
def cards() -> tuple[Card, ...]:
    """All cards of the table, in its order."""
    data = tomllib.loads(resource("gpus.toml").read_text(encoding="utf-8"))
    return tuple(map(_card, data["card"]))


def find(name: str, memory_bytes: int = 0) -> Card | None:
    """The card that a driver calls so; None for one that the table does not know.

    Args:
        name: As the driver says it; "NVIDIA" and "GeForce" may be left out.
        memory_bytes: Tells cards of one name apart: the nearest counts; 0 takes the largest.
    """
    wanted = _plain(name)
    found = [card for card in cards() if _plain(card.name) == wanted]
    if not found:
        return None
    aim = memory_bytes or max(card.memory_bytes for card in found)
    return min(found, key=lambda card: abs(card.memory_bytes - aim))


def pretended(name: str, memory_bytes: int = 0) -> Card:
    """The card to plan for in the place of this machine's own.

    Args:
        name: Of a card of the table; "RTX" may be left out too.
        memory_bytes: What it is to have; 0 for what it has.

    Raises:
        SettingsError: There is no such card; names the nearest ones.
    """
    card = find(name, memory_bytes) or find(f"RTX {name}", memory_bytes)
    if card is None:
        names = list(dict.fromkeys(card.name for card in cards()))
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"Did you mean {', '.join(near)}?" if near else f"The first is {names[0]}."
        raise SettingsError(f"There is no card {name!r} in the table.", hint=hint, value=name)
    return replace(card, memory_bytes=memory_bytes) if memory_bytes else card


def _card(row: dict[str, int | str]) -> Card:
    generation = _GENERATIONS[str(row["generation"])]
    cores, clock = float(row["cores"]), float(row["boost_mhz"]) * 1e6
    return Card(
        name=str(row["name"]),
        generation=generation,
        form=str(row["form"]),
        memory_bytes=int(row["memory_gib"]) * GIB,
        bandwidth=float(row["bandwidth_gbs"]) * 1e9,
        half_flops=cores / _CORES.get(generation, 128) * _MATRIX_FLOPS * clock,
        single_flops=cores * 2 * clock,
        link_bandwidth=int(row["lanes"]) * LANE_BYTES_S[_PCIE[generation]],
        lanes=int(row["lanes"]),
    )


def _plain(name: str) -> str:
    return " ".join(name.replace("NVIDIA", "").replace("GeForce", "").split()).casefold()
