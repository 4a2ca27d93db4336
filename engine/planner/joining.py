"""Other computers that can join a job, as a plan sees them. A wing of the engine knows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.core.wings import wings
from engine.hardware.budget import Budget
from engine.planner.rates import Rates
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan


class OtherComputers:
    """Base class: without a wing that knows any, there are no other computers."""

    def paired(self) -> Mapping[str, str]:
        """Names of the computers that this one is paired with, by their fingerprint."""
        return {}

    def let_in(self, plan: Plan, media: MediaInfo) -> Plan:
        """The plan of a job that they can join; its images stay the same."""
        return plan

    def notices(self, media: MediaInfo) -> Iterable[Notice]:
        """Why they cannot help, although they are wanted."""
        return ()

    def choices(
        self, plan: Plan, media: MediaInfo, paired: Mapping[str, str], budget: Budget, known: Rates
    ) -> Iterable[Notice]:
        """Notices about what they gain.

        Args:
            plan: Plan with its predictions, which they can join.
            media: The source.
            paired: Result of `paired`.
            budget: Memory and devices of this computer.
            known: Speed of this computer and of the others.
        """
        return ()


def other_computers() -> OtherComputers:
    """Other computers that wings know."""
    found = (wing.other_computers() for wing in wings())
    return next((one for one in found if one is not None), OtherComputers())
