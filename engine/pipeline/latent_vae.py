"""The VAE that some latents need, which has to be here and has to be the published one."""

from __future__ import annotations

from engine.core.control import Control
from engine.core.errors import CheckpointMismatch, WeightsMissing
from engine.model_files.store import Store
from engine.models import registry
from engine.models.planned_files import is_changed
from engine.protocol.plan import WeightsPlan


def ready_vae(model: str, own: str = "", *, control: Control | None = None) -> WeightsPlan:
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
    latents = registry.latent_format_of(model)
    vae = latents.weights(model, own)
    if not vae.is_here:
        title = latents.titles[model]
        raise WeightsMissing("vae", model=title, names=vae.path.name, file=vae.published)
    if vae.published:
        path = Store().ready(vae.published, control=control)
        if path != vae.path or is_changed(vae):
            raise CheckpointMismatch("just-now", what="weights")
    return vae
