"""The text embedding that the transformer is given: one tensor in a file, never code."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from engine.core.errors import UnsafeWeights, WeightsDamaged, WeightsError, WrongModel
from engine.core.messages import Message, message
from engine.files.formats.open_weights import open_weights
from engine.models.identify import content_message, recognise
from engine.models.seedvr2.dit.config import DitConfig


def load_text_embedding(path: Path, config: DitConfig | None = None) -> Tensor:
    """Read an embedding.

    Args:
        path: File of torch.save or safetensors with one tensor.
        config: Configuration of the transformer that will read it; None: any width is right.

    Returns:
        [L, D] in the file's dtype, on the CPU.

    Raises:
        WeightsMissing, WeightsUnreadable, NotSafetensors, WeightsTruncated, WeightsDamaged: No
            file of these formats, or not whole.
        WrongModel: It holds something else, or code, which was not run.
    """
    tensor = _only_tensor(path)
    if tensor.ndim == 3 and len(tensor) == 1:
        tensor = tensor[0]
    if tensor.ndim != 2 or not len(tensor) or not tensor.is_floating_point():
        raise _other(path, message("content.tensor", shape=_shape(tensor), dtype=tensor.dtype))
    if config is not None and tensor.shape[1] != config.text_in_dim:
        raise WrongModel(
            "text-width",
            name=path.name,
            path=str(path),
            found=tensor.shape[1],
            wanted=config.text_in_dim,
        )
    if not bool(tensor.float().isfinite().all()):
        raise WeightsDamaged("not-finite", name=path.name, path=str(path))
    return tensor


def _only_tensor(path: Path) -> Tensor:
    try:
        file = open_weights(path)
    except UnsafeWeights as err:
        raise WrongModel("more-than-tensors", name=path.name, path=str(path)) from err
    with file:
        if len(file.shapes) != 1:
            count = message("content.tensors", count=len(file.shapes))
            content = recognise(file.shapes)
            raise _other(path, content_message(content) if content else count)
        return file.tensor(next(iter(file.shapes)))


def _other(path: Path, content: Message) -> WeightsError:
    return WrongModel("not-text", name=path.name, path=str(path), content=content)


def _shape(tensor: Tensor) -> str:
    return "x".join(str(side) for side in tensor.shape) or "scalar"
