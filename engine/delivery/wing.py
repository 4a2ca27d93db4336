"""NVIDIA runtimes and updates of the program as a wing of the engine. Loads without torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.core.wings import Wing


class DeliveryWing(Wing):
    """Commands `runtime` and `update`, and those of the window."""

    def add_commands(self, add: Callable[..., Any]) -> None:
        """Add `runtime` and `update`."""
        from engine.delivery import commands

        commands.register(add)

    def services(self, host: Any) -> tuple[Any, ...]:
        """Answer commands about runtimes and updates."""
        from engine.delivery.runtime_service import RuntimeService
        from engine.delivery.updates import UpdateService

        return RuntimeService(), UpdateService()

    def tidy(self) -> None:
        """Delete the setup that brought this version, and complete the runtime in use."""
        from engine.delivery.runtime_service import compile_in_background
        from engine.delivery.updates import UpdateStore

        UpdateStore().tidy()
        compile_in_background()

    def start_update(self) -> Path:
        """Start the downloaded setup; see `engine.delivery.updates.start_update`."""
        from engine.delivery.updates import start_update

        return start_update()


WING = DeliveryWing()
