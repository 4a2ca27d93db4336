"""Promises of documents and the cases that answer them: `resources/claims.toml`. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from engine.core.messages import Message, hint_of, message, title
from engine.core.paths import resource
from engine.core.serialization import from_plain, read_toml
from engine.protocol.report import MeasuredSwitch


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A promise in a document; its texts are `claim.<name>` in the catalogue.

    A hint there says why there is nothing to switch on or to measure.

    Attributes:
        source: Document that makes it.
        rows: Names of the optimisation cases that answer it.
        modules: Files that do it.
        settings: Assignments that choose it, besides the switches of the rows.
        measured: Measurements of other documents, in English.
    """

    source: str
    rows: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    measured: str = ""


@cache
def claims() -> Mapping[str, Claim]:
    """All claims by name, in the order of the table."""
    table = read_toml(resource("claims.toml"))
    return {name: from_plain(Claim, row) for name, row in table.items()}


def claim_of(row: str) -> Message | None:
    """Returns the promise for a row; the first one where there are several."""
    name = next((name for name, claim in claims().items() if row in claim.rows), "")
    return _promise(name) if name else None


def why_not(name: str) -> str:
    """Why nothing of a claim can be switched on or measured, in English; "" where it can."""
    return hint_of(message(f"claim.{name}"))


def unmeasured() -> Iterator[MeasuredSwitch]:
    """Lines for claims that no row answers: the promise, and as note the reason."""
    for name, claim in claims().items():
        if not claim.rows:
            code = f"claim.{name}"
            yield MeasuredSwitch(
                name=code,
                title=title(code),
                exactness="",
                is_default=False,
                claim=_promise(name),
                note=message(code).hint,
            )


def _promise(name: str) -> Message:
    code = f"claim.{name}"
    return message("bench.claim", title=title(code), promise=message(code))
