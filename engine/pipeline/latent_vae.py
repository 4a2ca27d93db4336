"""The VAE that some latents need, which has to be here and has to be the published one."""

from __future__ import annotations

from engine.core.control import Control
from engine.core.errors import CheckpointMismatch, WeightsMissing
from engine.model_files.store import Store
from engine.models import registry
from engine.models.wan.files import WanFiles, files_of_wan
from engine.models.wan.latents.spaces import MODELS


def ready_vae(model: str, own: str = "", *, control: Control | None = None) -> WanFiles:
    """Find it, and read it unless that was done before: a published one must be what it says.

    Args:
        model: "wan21-vae" or "wan22-vae".
        own: File of the user's; "" for the published one.
        control: May stop the reading.

    Raises:
        WeightsMissing: It is not on this machine; `file` among the params is its id.
        HashMismatch, WeightsError: It cannot be used.
        Cancelled: `control` said so.
    """
    found = files_of_wan(model, own)
    if found.missing:
        name, file = found.vae.path.name, found.missing[0]
        raise WeightsMissing(
            f"The VAE of {MODELS[model].title} is not on this machine yet: {name}.",
            hint=f"Get it with `models download {file}`, or in the list of models.",
            file=file,
            name=name,
        )
    if found.vae.published:
        path = Store().ready(found.vae.published, control=control)
        if path != found.vae.path or registry.is_changed(found.vae):
            raise CheckpointMismatch(
                "The model file was changed just now.", hint="Try again.", what="weights"
            )
    return found
