"""Files of a SwiftVR job and the sizes in their headers. Loads no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from engine.core.errors import UnknownKeys, WeightsDamaged
from engine.core.serialization import from_plain, read_json
from engine.files import catalogue
from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.files.formats.safetensors_file import SafetensorsFile
from engine.files.model_files import Store, named, planned
from engine.models.shapes import size, stated_in
from engine.models.swiftvr.dit.config import SWIFT_DIT, SwiftDitConfig, infer_swift_config
from engine.models.swiftvr.plan import SwiftVrPlan
from engine.models.swiftvr.vae.config import REAE, ReaeConfig, infer_reae_config
from engine.protocol.model_file_state import PublishedState
from engine.protocol.plan import WeightsPlan
from engine.settings.schema import JobSettings

CONFIG = "config.json"  # beside the published transformer
PROMPT = "prompt_emb"
# Rows of a prompt that differ, of one that was not read: all of the published one's.
MOST_ROWS = 512
# Formats of products by the type of the matrices in a converted file.
NARROW = {"I8": "int8", "F8_E4M3": "fp8"}
_CONVERTED = ".attn2.keys"  # only a converted file has it, once a block
_ORDER = ("bf16", "fp16", "int8", "fp8", "fp32")  # of transformers; the last is the published one


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Transformer, autoencoder and prompt of a job; a converted transformer needs no prompt."""

    dit: WeightsPlan
    vae: WeightsPlan
    text: WeightsPlan | None


def files_of(
    model: str,
    settings: JobSettings,
    store: Store | None = None,
    *,
    refused: Collection[str] = (),
) -> ModelFiles:
    """The files for a model: the user's own where they are named, else those of the catalogue.

    Of several transformers on this computer a converted one is taken, in the format of products
    that the settings name if there is one, else in the widest one.

    Args:
        model: "swiftvr".
        settings: Names of files, and the format of products.
        store: Store of model files; None for the user's.
        refused: Precisions that the device cannot multiply.

    Raises:
        WeightsMissing: A file that the user named is not there.
        WeightsError: A transformer is none of SwiftVR.
    """
    own = {"dit": settings.dit, "vae": settings.vae, "text": settings.text_embedding}
    store = store or Store()
    listed = () if all(own.values()) else _listed(model, store)

    def found(kind: str) -> WeightsPlan:
        if own[kind]:
            return named(Path(own[kind]))
        rank = partial(_rank, products=settings.matmul, refused=refused)
        return planned(min((one for one in listed if one.kind == kind), key=rank), store)

    dit = found("dit")
    text = None if dit.is_here and is_converted(dit) else found("text")
    return ModelFiles(dit=dit, vae=found("vae"), text=text)


def _listed(model: str, store: Store) -> tuple[PublishedState, ...]:
    ids = [file.id for file in catalogue.catalogue() if model in file.models]
    states = store.standings_of(ids).values()
    return tuple(one for one in states if model in one.models and (one.is_here or not one.is_own))


def _rank(
    state: PublishedState, products: str, refused: Collection[str]
) -> tuple[bool, bool, int, bool]:
    """Order of files of a kind: those on this computer, and of transformers the converted ones."""
    at = _ORDER.index(state.precision) if state.precision in _ORDER else len(_ORDER)
    is_other = state.kind == "dit" and products != state.precision
    is_refused = state.kind == "dit" and state.precision in refused
    return not state.is_here or is_refused, is_other, at if is_other else 0, state.is_own


@cache
def is_converted(dit: WeightsPlan) -> bool:
    """Whether a transformer has the constants in the place of what they are computed from.

    Raises:
        WeightsError: The file was removed, or cannot be read.
    """
    with open_weights(dit.path) as file:
        return has_constants(file)


def has_constants(file: WeightsFile) -> bool:
    """Whether an open file is a converted one."""
    return any(name.endswith(_CONVERTED) for name in file.shapes)


def stored_products(file: WeightsFile) -> str:
    """Format of products that an open file was rounded for; "none" for 16 and 32 bits."""
    return NARROW.get(file.dtypes.get("blocks.0.ffn.net.2.weight", ""), "none")


@cache
def products_of(dit: WeightsPlan) -> str:
    """See `stored_products`; of a file that is missing it is "none".

    Raises:
        WeightsError: The file was removed, or cannot be read.
    """
    if not dit.is_here:
        return "none"
    with open_weights(dit.path) as file:
        return stored_products(file)


def stated_sizes(file: WeightsFile, config: Path | None = None) -> Mapping[str, Any]:
    """Sizes that an open published file, or the configuration next to it, states.

    Raises:
        WeightsDamaged: The configuration cannot be read.
    """
    path = config or file.path.parent / CONFIG
    if config is None and not path.is_file():
        return stated_in(file.metadata)
    try:
        stated = read_json(path)
    except (OSError, ValueError) as err:
        raise WeightsDamaged("configuration", name=path.name, path=str(path)) from err
    return stated if isinstance(stated, dict) else {}


def converted_sizes(file: WeightsFile) -> tuple[SwiftDitConfig, int]:
    """Sizes that a converted file states, and rows of its prompt that differ.

    Raises:
        UnknownKeys: They are missing, or do not fit its tensors.
    """
    layers = sum(name.endswith(_CONVERTED) for name in file.shapes)
    try:
        config = from_plain(SwiftDitConfig, stated_in(file.metadata))
        if config.layers != layers:
            raise ValueError(f"{layers} of {config.layers} blocks")
    except (ValueError, TypeError, KeyError) as err:
        raise UnknownKeys("swiftvr-sizes", reason=str(err)) from err
    return config, size(file.shapes, "blocks.0.attn2.log_counts", 0, 1)


def configs(plan: SwiftVrPlan) -> tuple[SwiftDitConfig, int, ReaeConfig]:
    """Sizes of a planned job's transformer, rows of its prompt that differ, and of its autoencoder.

    Of missing files they are those of the published ones.

    Raises:
        WeightsError: A file was removed or replaced.
    """
    sizes = SWIFT_DIT, MOST_ROWS
    if plan.dit.is_here:
        sizes = _dit_sizes(plan.dit, plan.text)
    return *sizes, _vae_config(plan.vae) if plan.vae.is_here else REAE


@cache
def _dit_sizes(dit: WeightsPlan, text: WeightsPlan | None) -> tuple[SwiftDitConfig, int]:
    with open_weights(dit.path) as file:
        if has_constants(file):
            return converted_sizes(file)
        config = infer_swift_config(file.shapes, stated_sizes(file))
    return config, _rows_of(text.path) if text is not None and text.is_here else MOST_ROWS


def _rows_of(prompt: Path) -> int:
    """Rows of a prompt that differ."""
    with SafetensorsFile(prompt) as file:
        rows = file.shapes.get(PROMPT, (1, 1, 1))[-2:][0]
        content = file.content(PROMPT) if PROMPT in file.shapes else b""
    each = len(content) // max(1, rows)
    return len({content[each * row : each * (row + 1)] for row in range(rows)}) or 1


@cache
def _vae_config(weights: WeightsPlan) -> ReaeConfig:
    with open_weights(weights.path) as file:
        return infer_reae_config(file.shapes)
