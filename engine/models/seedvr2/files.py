"""Files of a SeedVR2 job and the configurations in their headers. Loads no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

from engine.files import catalogue
from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.files.formats.scales import FLOATS, scales_of
from engine.files.model_files import Store, named, planned
from engine.models.planning.memory import DTYPE_BYTES
from engine.models.seedvr2.dit.config import (
    DIT_3B,
    DIT_7B,
    DIT_KEYS,
    DitConfig,
    aligned,
    infer_dit_config,
)
from engine.models.seedvr2.dit.cost import WeightBytes
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.vae.config import VAE, VaeConfig, infer_vae_config
from engine.protocol.model_file_state import PublishedState
from engine.protocol.plan import WeightsPlan
from engine.settings.schema import JobSettings

TEXT_TOKENS = 58  # of the published text embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Transformer, VAE and text embedding of a job; `missing` are those that are not here."""

    dit: WeightsPlan
    vae: WeightsPlan
    text: WeightsPlan
    missing: tuple[str, ...] = ()  # ids in the catalogue


def files_of(
    model: str, settings: JobSettings, store: Store | None = None, *, gpu_bytes: int = 0
) -> ModelFiles:
    """The files for a model: the user's own where they are named, else the catalogue's.

    Args:
        model: "seedvr2-3b" and so on.
        settings: Names of files, and the precision.
        store: Store of model files; None for the user's.
        gpu_bytes: Size of the GPU's memory; 0 without a GPU.

    Raises:
        WeightsMissing: A file that the user named is not there.
    """
    own = (settings.dit, settings.vae, settings.text_embedding)
    if all(own):
        dit, vae, text = (named(Path(path)) for path in own)
    else:
        store = store or Store()
        listed = _published(model, settings.precision, gpu_bytes, store)
        dit, vae, text = (
            named(Path(path)) if path else planned(state, store)
            for path, state in zip(own, listed, strict=True)
        )
    return ModelFiles(
        dit=dit,
        vae=vae,
        text=text,
        missing=tuple(weights.published for weights in (dit, vae, text) if not weights.is_here),
    )


def model_of(dit: Path) -> str:
    """Which published model a transformer's file resembles.

    Raises:
        WeightsMissing: There is no such file.
        WeightsError: It is none of SeedVR2.
    """
    config = _dit_config(named(dit))
    return "seedvr2-3b" if config.mlp == "swiglu" else "seedvr2-7b"


def configs(plan: SeedVr2Plan) -> tuple[DitConfig, VaeConfig]:
    """Configurations of a planned job's transformer and VAE; the published ones' of missing files.

    Raises:
        WeightsError: A file was removed or replaced.
    """
    return (
        _dit_config(plan.dit) if plan.dit.is_here else _published_config(plan.model),
        _vae_config(plan.vae) if plan.vae.is_here else VAE,
    )


def _published(
    model: str, precision: str, gpu_bytes: int, store: Store
) -> tuple[PublishedState, ...]:
    """The files of the catalogue; unless requested those that suit the GPU or are here."""
    if precision != "auto":
        return _listed(model, [precision], store)[0]
    (suited,) = _listed(model, [catalogue.suited_precision(model, gpu_bytes)], store)
    if all(state.is_here for state in suited):
        return suited
    whole = store.best_present(model)
    if whole is not None:
        return whole
    others = _listed(model, catalogue.precisions_of(model), store)
    begun = (listed for listed in (suited, *others) if listed[0].is_here)
    return next(begun, suited)


def _listed(
    model: str, precisions: Sequence[str], store: Store
) -> list[tuple[PublishedState, ...]]:
    """First file of each kind on this machine, else the one to download, for each precision."""
    listed = [catalogue.files_of(model, precision) for precision in precisions]
    states = store.standings_of({one for kinds in listed for ids in kinds for one in ids})
    return [
        tuple(
            min((states[one] for one in ids), key=lambda state: not state.is_here) for ids in kinds
        )
        for kinds in listed
    ]


def _published_config(model: str) -> DitConfig:
    return DIT_3B if model == "seedvr2-3b" else DIT_7B


@cache
def _dit_config(weights: WeightsPlan) -> DitConfig:
    with open_weights(weights.path) as file:
        scales_of(file)  # refuses what cannot be read
        return infer_dit_config(file.shapes, file.metadata)


@cache
def weight_bytes(weights: WeightsPlan, dtype: str) -> WeightBytes:
    """Bytes of a transformer's file on the device: narrow matrices stay, others become `dtype`.

    Raises:
        WeightsError: The file was removed or replaced.
    """
    with open_weights(weights.path) as file:
        return weight_bytes_of(file, dtype)


def weight_bytes_of(file: WeightsFile, dtype: str) -> WeightBytes:
    """Format of an open file."""
    scales = scales_of(file).values()
    markers = {scale.marker for scale in scales}
    names = DIT_KEYS.published(name for name in file.shapes if name not in markers)
    exact = {scale.name for scale in scales} | {
        name
        for name in names.values()
        if len(file.shapes[name]) > 1 and file.dtypes[name] not in FLOATS
    }
    item = DTYPE_BYTES[dtype]
    sizes = {
        ours: aligned(file.nbytes[name] if name in exact else item * prod(file.shapes[name]))
        for ours, name in names.items()
    }
    return _sums(sizes, is_narrow=bool(exact))


def _sums(sizes: Mapping[str, int], *, is_narrow: bool) -> WeightBytes:
    """Format of tensors by our names."""
    blocks, texts = Counter[int](), Counter[int]()
    for name, nbytes in sizes.items():
        layer = int(name.split(".")[1]) if name.startswith("blocks.") else -1
        blocks[layer] += nbytes
        texts[layer] += nbytes if ".txt." in name else 0
    layers = range(max(blocks) + 1)
    return WeightBytes(
        ends=blocks[-1],
        blocks=tuple(blocks[layer] for layer in layers),
        texts=tuple(texts[layer] for layer in layers),
        is_narrow=is_narrow,
    )


@cache
def _vae_config(weights: WeightsPlan) -> VaeConfig:
    with open_weights(weights.path) as file:
        return infer_vae_config(file.shapes, file.metadata)
