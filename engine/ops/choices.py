"""Choices that change rounding, kept with a job: the same at each start and on each device of it.

Trials choose for the device at hand: the form of a convolution, a backend of attention, a kernel or
torch. A job keeps what its first frames were computed with. When it is resumed, or runs on another
GPU or computer, the device first checks that the choice is right there; one that fails is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from engine.core.errors import ChoiceMissing
from engine.core.messages import message

Ask = Callable[[str, str], str]

_VALUELESS = "meta"  # device whose tensors have no values
_YES, _NO = "used", "not used"


class Choices:
    """Choices of one job by their key: type of the device, kind of choice, sizes and dtype.

    The key has neither GPU nor driver: it is the same on all devices of the job. In any thread.

    Args:
        known: Choices that were made before.
        ask: Process of the job as another process sees it: gets what `agree` gets and returns its
            answer. None: this is the process of the job.
    """

    def __init__(self, known: Mapping[str, str] | None = None, ask: Ask | None = None) -> None:
        self._known, self._ask = dict(known or {}), ask
        self._lock = threading.Lock()
        self._settled: dict[Hashable, str] = {}  # those that were found right here

    @property
    def known(self) -> dict[str, str]:
        """All choices so far."""
        with self._lock:
            return dict(self._known)

    def agree(self, key: str, proposed: str = "") -> str:
        """The choice for a key; the proposed one, which is kept, if there was none.

        Returns:
            "" where nothing is known or proposed.
        """
        with self._lock:
            known = self._known.get(key, "")
        answer = self._ask(key, proposed) if self._ask is not None and not known else proposed
        if known or not answer:
            return known
        with self._lock:
            return self._known.setdefault(key, answer)

    def settle(
        self,
        device: str,
        what: str,
        about: tuple[Hashable, ...],
        propose: Callable[[], str],
        fault_of: Callable[[str], str],
    ) -> str:
        """The choice of the job; arguments and errors are those of `settled`."""
        key = device, what, about
        found = self._settled.get(key)
        if found is not None:
            return found
        text = f"{what} on {device}: {', '.join(map(str, about))}"
        own, choice = "", self.agree(text)
        if not choice:
            own = propose()
            choice = self.agree(text, own)
        if not choice:
            return ""
        if choice != own and (fault := fault_of(choice)):
            name = str(about[0]) if choice == _YES else choice
            raise ChoiceMissing(work=message(f"reason.way.{what}", name=name), fault=fault)
        self._settled[key] = choice
        return choice


@dataclass(slots=True)
class _Now:
    choices: Choices | None = None


_now = _Now()


@contextmanager
def following(choices: Choices) -> Iterator[None]:
    """Choose as a job does in all threads, and restore what was before afterwards."""
    before, _now.choices = _now.choices, choices
    try:
        yield
    finally:
        _now.choices = before


def settled(
    device: str,
    what: str,
    about: tuple[Hashable, ...],
    *,
    propose: Callable[[], str],
    fault_of: Callable[[str], str],
) -> str:
    """The choice of the running job; without a job, the proposed one.

    Args:
        device: Type of the device.
        what: Kind of choice, which has a message of the catalogue: "reason.way.<what>".
        about: Everything else that the choice depends on, but the machine.
        propose: Returns the choice of this device, from a trial or its stored result; "" for none
            that a job may keep. Not called if the job has a choice.
        fault_of: Why a choice of the job cannot be carried out here, by a trial of its result, not
            of its speed; "" if it can. Called once in a process.

    Raises:
        ChoiceMissing: The choice of the job cannot be carried out here.
    """
    job = _now.choices
    if job is None or device == _VALUELESS:
        return propose()
    return job.settle(device, what, about, propose, fault_of)


def uses(device: str, what: str, about: tuple[Hashable, ...], fault: Callable[[], str]) -> bool:
    """Whether the running job uses an operator; without a job, whether it works here.

    Args:
        device: Type of the device.
        what: Kind of choice, as for `settled`.
        about: Name of the operator, then everything else that the choice depends on.
        fault: Why it does not work here; "" if it does.

    Raises:
        ChoiceMissing: The job uses it, and it does not work here.
    """

    def fault_of(choice: str) -> str:
        if choice not in (_YES, _NO):
            return "it is unknown"
        return "" if choice == _NO else fault()

    choice = settled(
        device, what, about, propose=lambda: _NO if fault() else _YES, fault_of=fault_of
    )
    return choice == _YES
