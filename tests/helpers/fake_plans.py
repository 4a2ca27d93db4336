"""Plans for cards that nobody has, with plausible figures."""

from __future__ import annotations

import dataclasses

from engine.protocol.plan import (
    Alternative,
    Notice,
    Plan,
    Reasons,
    StagePlan,
)

GIB = 2**30
CARD = "RTX 5070 Ti, 16 GB"

PRETENDED = Notice(
    code="pretended-card",
    severity="refusal",
    message=f"This was planned for a card that is not in this machine: {CARD}.",
)

REASONS = Reasons(
    limited_by="video-memory",
    params={"size": "11.4 GB", "budget": "15.0 GB"},
    choices=(
        Notice(code="model", severity="info", message="The model in half precision."),
        Notice(code="clips", severity="info", message="Clips of 45 frames."),
    ),
    alternatives=(
        Alternative(
            code="longer-clips",
            message="Clips of 49 frames",
            device_bytes=16 * GIB,
            ram_bytes=6 * GIB,
            seconds=2600.0,
            fits=False,
        ),
        Alternative(
            code="smaller-decode-tiles",
            message="Decoded in smaller tiles",
            device_bytes=9 * GIB,
            ram_bytes=6 * GIB,
            seconds=2940.0,
            fits=True,
        ),
    ),
)


def on_card(plan: Plan, *, needed: float = 11.4, limit: float = 15.0) -> Plan:
    """The same plan for a card.

    Args:
        plan: Any.
        needed: Most that is needed on the card, GiB.
        limit: Of it, GiB.
    """
    shares = {"encode": 0.8, "transformer": 0.9, "decode": 1.0}
    on_device = tuple(
        StagePlan(
            stage=stage,
            peak_bytes=5 * GIB,
            seconds=900.0,
            device_bytes=round(share * needed * GIB),
        )
        for stage, share in shares.items()
    )
    around = tuple(stage for stage in plan.stages if stage.stage in ("read", "write"))
    return dataclasses.replace(
        plan,
        stages=(*around[:1], *on_device, *around[1:]),
        card=CARD,
        device_bytes=round(needed * GIB),
        device_budget_bytes=round(limit * GIB),
        peak_bytes=6 * GIB,
        budget_bytes=20 * GIB,
        seconds=2700.0,
        seconds_error=240.0,
        is_measured=True,
        reasons=REASONS,
    )


def pretended(plan: Plan) -> Plan:
    """A plan on a card that is not here: it fits, and cannot start."""
    return dataclasses.replace(plan, is_pretended=True, notices=(*plan.notices, PRETENDED))
