"""Identifies a file of the user's by its header: for files that the catalogue does not list."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from engine.files.formats.open_weights import open_weights
from engine.models import registry
from engine.models.contracts import FileUse
from engine.models.identify import other_model, recognise
from engine.protocol.model_file_state import PublishedState

_PRECISIONS = {"F8": "fp8", "I8": "int8", "F16": "fp16", "F32": "fp32", "BF": "bf16"} | {
    f"Q{bits}": f"q{bits}" for bits in (2, 3, 4, 5, 6, 8)
}


def describe(path: Path) -> PublishedState:
    """A file as one of the user's own, not yet named and without a SHA-256.

    Names and shapes of its tensors are compared with the model's; nothing in it is run. A file that
    no family knows by its names loads torch.

    Raises:
        WeightsMissing, WeightsUnreadable: It is not there, or may not be read.
        WrongModel: It is whole, but nothing that we have a use for.
        MissingKeys, ExtraKeys, WrongShapes, UnknownKeys, WrongNumbers: Its tensors are not exactly
            those of the model that it looks like.
        WeightsError: It is of another kind, damaged or cut short; see `open_weights`.
    """
    with open_weights(path) as file:
        content = recognise(file.shapes)
        precision = _precision(file.shapes, file.dtypes)
    use = _use_of(content, path)
    if use is None:
        raise other_model("unused" if content else "unknown", path, content)
    return PublishedState(
        id="own",
        title=path.name,
        kind=use.kind,
        models=use.models,
        precision=precision,
        filename=path.name,
        bytes=path.stat().st_size,
        licence=use.licence,
        network=use.network,
    )


def _use_of(content: str, path: Path) -> FileUse | None:
    """Use of a file, by the names of its tensors, else by what a family finds in it."""
    for family in registry.families():
        use = family.use_of(content)
        if use is not None:
            family.check_file(content, path)
            return use
    found = (family.use_of_file(path) for family in registry.families())
    return next((use for use in found if use is not None), None)


def _precision(shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str]) -> str:
    """Precision of most of the weights."""
    counts: Counter[str] = Counter()
    for name, shape in shapes.items():
        counts[dtypes[name]] += math.prod(shape)
    most = max(counts, key=counts.__getitem__, default="")
    return next((word for start, word in _PRECISIONS.items() if most.startswith(start)), most)
