"""Names in the published files of Wan VAEs -> names of our modules, which are Wan's own.

The original files and those repackaged for ComfyUI have Wan's names, some with a prefix. Those
of diffusers name blocks and levels instead of counting parts: each level of the 2.1 decoder has
three residual blocks and an upsampler, so part 4 * level + block.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from engine.core.errors import ExtraKeys
from engine.files.formats.keymap import KeyMap
from engine.files.formats.open_weights import WeightsFile
from engine.models.identify import WAN_VAES, other_model, recognise
from engine.models.wan.vae.config import WanConfig, infer_wan_config

_PREFIX = r"^((?:model|vae|first_stage_model)\.)+"
_LEVELS, _UP_BLOCKS, _DOWN_BLOCKS = 4, 3, 2

_IN_A_BLOCK = KeyMap(
    (
        (r"(\.\d+)\.norm1\.gamma$", r"\1.residual.0.gamma"),
        (r"(\.\d+)\.conv1\.", r"\1.residual.2."),
        (r"(\.\d+)\.norm2\.gamma$", r"\1.residual.3.gamma"),
        (r"(\.\d+)\.conv2\.", r"\1.residual.6."),
        (r"(\.\d+)\.conv_shortcut\.", r"\1.shortcut."),
    )
)
_ENDS = (
    (r"^quant_conv\.", "conv1."),
    (r"^post_quant_conv\.", "conv2."),
    (r"\.conv_in\.", ".conv1."),
    (r"\.norm_out\.", ".head.0."),
    (r"\.conv_out\.", ".head.2."),
)
_MIDDLE = (
    (r"\.mid_block\.resnets\.0\.", ".middle.0."),
    (r"\.mid_block\.attentions\.0\.", ".middle.1."),
    (r"\.mid_block\.resnets\.1\.", ".middle.2."),
)
_FLAT_LEVELS = (
    (r"^encoder\.down_blocks\.", "encoder.downsamples."),
    *(
        (rf"^decoder\.up_blocks\.{level}\.{part}\.", f"decoder.upsamples.{4 * level + index}.")
        for level in range(_LEVELS)
        for index, part in enumerate(
            (*(rf"resnets\.{block}" for block in range(_UP_BLOCKS)), r"upsamplers\.0")
        )
    ),
)
_NESTED_LEVELS = (
    (r"^encoder\.down_blocks\.(\d+)\.resnets\.", r"encoder.downsamples.\1.downsamples."),
    (
        r"^encoder\.down_blocks\.(\d+)\.downsampler\.",
        rf"encoder.downsamples.\1.downsamples.{_DOWN_BLOCKS}.",
    ),
    (r"^decoder\.up_blocks\.(\d+)\.resnets\.", r"decoder.upsamples.\1.upsamples."),
    (
        r"^decoder\.up_blocks\.(\d+)\.upsampler\.",
        rf"decoder.upsamples.\1.upsamples.{_UP_BLOCKS}.",
    ),
)


def wan_keys(names: Collection[str]) -> KeyMap:
    """The rules for the names of a file: original, with a prefix, or those of diffusers.

    A prefix is taken off where all names have it.
    """
    prefix = _common_prefix(names)
    rules = _layout_rules([name.removeprefix(prefix) for name in names])
    return KeyMap(((f"^{re.escape(prefix)}", ""),), then=rules) if prefix else rules


def _common_prefix(names: Collection[str]) -> str:
    found = re.match(_PREFIX, min(names, default=""))
    prefix = found.group() if found else ""
    return prefix if all(name.startswith(prefix) for name in names) else ""


def _layout_rules(names: Collection[str]) -> KeyMap:
    """Diffusers has one flat list of down blocks in 2.1 and levels of them in 2.2."""
    if not any(name.startswith(("encoder.down_blocks.", "decoder.up_blocks.")) for name in names):
        return KeyMap()
    is_nested = any(re.search(r"\.(up|down)sampler\.", name) for name in names)
    levels = _NESTED_LEVELS if is_nested else _FLAT_LEVELS
    return KeyMap((*_ENDS, *_MIDDLE, *levels), then=_IN_A_BLOCK)


def wan_config_of(file: WeightsFile) -> WanConfig:
    """The configuration of the VAE in an open file.

    Raises:
        WrongModel: It has another model, or an unknown kind of a Wan VAE.
        ExtraKeys: It has one tensor under two names.
        UnknownKeys: Its sizes are impossible.
    """
    content = recognise(file.shapes)
    if content not in WAN_VAES:
        raise other_model("not-wan", file.path, content)
    try:
        names = wan_keys(file.shapes).published(file.shapes)
    except ValueError as err:
        raise ExtraKeys("two-names", name=file.path.name, path=str(file.path)) from err
    return infer_wan_config({ours: file.shapes[name] for ours, name in names.items()})
