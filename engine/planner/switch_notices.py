"""What a user should know of the optimisations that were asked for."""

from __future__ import annotations

from collections.abc import Iterator

from engine.protocol.plan import Notice
from engine.settings.optimisations import optimisations
from engine.settings.schema import JobSettings
from engine.settings.switches import changes_of, without_effect


def switch_notices(
    settings: JobSettings, device: str, capability: tuple[int, int] | None
) -> Iterator[Notice]:
    """Switches that do nothing on this device, and those that change the result.

    Args:
        settings: What the user wants.
        device: "cpu" or "cuda".
        capability: Of the card.
    """
    idle = without_effect(settings.switches, device, capability)
    for name in idle:
        yield Notice(
            code="switch-without-effect",
            severity="info",
            message=f"The optimisation {name} does nothing on this device.",
            params={"switch": name},
        )
    wanted = changes_of(settings.switches)
    for entry in optimisations():
        if entry.exactness == "inexact" and wanted.get(entry.key) is True and entry.key not in idle:
            yield Notice(
                code="switch-inexact",
                severity="info",
                message=f"The optimisation {entry.key} is inexact: the result will be another one.",
                params={"switch": entry.key},
            )
