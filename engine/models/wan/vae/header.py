"""Which Wan VAE an open file holds, by the names and shapes in its head. Loads no torch."""

from __future__ import annotations

from engine.core.errors import ExtraKeys, WrongModel
from engine.model_files.formats.open_weights import WeightsFile
from engine.models.identify import WAN_VAES, content_message, recognise
from engine.models.wan.vae.config import WanConfig, infer_wan_config
from engine.models.wan.vae.keymap import wan_keys


def wan_config_of(file: WeightsFile) -> WanConfig:
    """The configuration of the VAE in an open file.

    Raises:
        WrongModel: It holds another model, or a variant that we do not know.
        ExtraKeys: One part stands in it under two names.
        UnknownKeys: Its sizes are impossible.
    """
    content = recognise(file.shapes)
    if content not in WAN_VAES:
        raise WrongModel(
            "not-wan",
            name=file.path.name,
            path=str(file.path),
            content=content_message(content),
        )
    try:
        names = wan_keys(file.shapes).published(file.shapes)
    except ValueError as err:
        raise ExtraKeys("two-names", name=file.path.name, path=str(file.path)) from err
    return infer_wan_config({ours: file.shapes[name] for ours, name in names.items()})
