"""A VAE from its file, in the plain or the fast variant: the same for every family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from engine.files.formats.keymap import KeyMap
from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.models.load import FileWeights, Form, Shapes, fill, on_meta
from engine.models.video_vae.runner import FastSlicedVae
from engine.ops.kernels.block_formats import BLOCKS
from engine.settings.optimisations import VaeSwitches

AnyPlain = TypeVar("AnyPlain", bound=nn.Module)
AnyFast = TypeVar("AnyFast", bound=FastSlicedVae[Any, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeLoader(Generic[AnyPlain, AnyFast]):
    """Both variants of a family's VAEs, and the files that they are read from.

    Attributes:
        plain: Makes the plain variant from a configuration.
        fast: Makes the fast one from a configuration and weights by name.
        config_of: Sizes of the VAE in an open file; a WeightsError if it is another model.
        keys_of: Rules for the names of its tensors, from their shapes.
        weights: Reads single tensors, and may refuse their values.
    """

    plain: type[AnyPlain]
    fast: type[AnyFast]
    config_of: Callable[[WeightsFile], Any]
    keys_of: Callable[[Shapes], KeyMap]
    weights: type[FileWeights] = FileWeights

    def load(
        self,
        path: Path,
        *,
        form: Form,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        switches: VaeSwitches | None = None,
        config: Any = None,
    ) -> AnyPlain | AnyFast:
        """Read the weights strictly; the model is ready for inference.

        Args:
            path: Safetensors, PyTorch or GGUF file with published names.
            form: "plain" follows the specification, "fast" gives the same sooner.
            device: Device that it computes on.
            dtype: Type that it computes in; the file's values are converted once.
            switches: Optimisations of the fast variant; None: the usual ones.
            config: None reads it from the file.

        Raises:
            WeightsMissing, WeightsUnreadable, NotSafetensors, WeightsTruncated, WeightsDamaged,
                UnsafeWeights: No file of these formats, not whole, or more than a list of tensors.
            WrongModel: A whole file, but of another model.
            MissingKeys, ExtraKeys, WrongShapes, UnknownKeys: Not exactly the tensors of such a VAE.
            WrongNumbers: Tensors of a format that we cannot read, or values that `weights` refuses.

        Memory: the model, one tensor of the file, and for the fast variant the tables of one layer.
        """
        with open_weights(path) as file:
            config = config or self.config_of(file)
            plain = self._checked(file, config)
            keys = self.keys_of(file.shapes)
            if form == "plain":
                fill(plain, self.weights(file, keys, device=device, dtype=dtype))
                return plain.eval()
            weights = self.weights(file, keys)
            return self.fast(config, weights, device=device, dtype=dtype, switches=switches)

    def check(self, path: Path) -> None:
        """Checks that a file has exactly the tensors of such a VAE; reads none of their values.

        Raises:
            WeightsError: Raised by `load`.
        """
        with open_weights(path) as file:
            self._checked(file, self.config_of(file))

    def _checked(self, file: WeightsFile, config: Any) -> AnyPlain:
        found = FileWeights(file, self.keys_of(file.shapes)).shapes
        return on_meta(lambda: self.plain(config), file, found, also=BLOCKS)
