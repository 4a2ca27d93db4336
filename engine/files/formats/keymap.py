"""Key maps: from tensor names in a published file to those of our modules, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyMap:
    """Renames tensors, one to one: the first rule whose pattern matches is applied, once."""

    # Pairs of a regular expression and its replacement; none: names are ours already.
    renames: tuple[tuple[str, str], ...] = ()
    # Regular expressions of our names that may be in a file and are not needed.
    ignored: tuple[str, ...] = ()
    then: KeyMap | None = None  # a second map, applied to the result of this one

    def ours(self, published: str) -> str:
        """Our name for a published name."""
        name = published
        for pattern, replacement in self.renames:
            name, count = re.subn(pattern, replacement, published, count=1)
            if count:
                break
        return name if self.then is None else self.then.ours(name)

    def published(self, names: Iterable[str]) -> dict[str, str]:
        """Published name by our name, for all names of a file that are not ignored.

        Raises:
            ValueError: Two names become one; an error in the rules.
        """
        result: dict[str, str] = {}
        for name in names:
            ours = self.ours(name)
            if any(re.search(pattern, ours) for pattern in self.ignored):
                continue
            if ours in result:
                raise ValueError(f"{result[ours]} and {name} both become {ours}")
            result[ours] = name
        return result
