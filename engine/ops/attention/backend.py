"""One way to compute attention: a name, a function, and whether it rounds like the formula."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Attention = Callable[[Tensor, Tensor, Tensor, float], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A backend as data; whether it works on a device is found out by running it.

    Attributes:
        name: What settings call it.
        run: q [N, heads, Q, d], k and v [N, heads, L, d] and the factor of the scores to
            [N, heads, Q, d]. Raises whatever it likes where it cannot run, ImportError where its
            package is not there.
        package: What has to be installed for it; empty: torch itself is enough.
        is_exact: Equal to the formula but for the rounding of the dtype.
    """

    name: str
    run: Attention
    package: str = ""
    is_exact: bool = True


def foreign(module: str, function: str) -> Callable[..., Any]:
    """A function of a package that need not be there.

    Raises:
        ImportError: The package is not installed, or has no such function.
    """
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except AttributeError as err:
        raise ImportError(f"{module} has no {function}") from err
    return found
