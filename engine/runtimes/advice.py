"""Advice for users: the NVIDIA runtime that suits this machine, and the torch in use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.messages import Message, message
from engine.core.units import bytes_text
from engine.hardware import budget, devices
from engine.hardware.budget import NeededRuntime
from engine.hardware.devices import Gpu
from engine.protocol.report import DoctorLine
from engine.runtimes import bytecode, start
from engine.runtimes import installation as folders
from engine.runtimes.catalogue import RuntimeCatalogue, catalogue, suited

_NAME = "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The runtime that suits a GPU."""

    text: Message
    runtime: str = ""  # id; "" where none does
    driver: str = ""  # the oldest version that would do; "" unless the installed one is too old


def advice(gpu: Gpu | None, known: RuntimeCatalogue) -> Advice:
    """The runtime for a GPU and its driver, or what helps where there is none."""
    if gpu is None:
        return Advice(text=message("runtime-advice.no-gpu"))
    best, about = suited(known, gpu.capability), {"gpu": gpu.name, "driver": gpu.driver}
    if best is None:
        return Advice(text=message("runtime-advice.none", **about))
    title = message("runtime-advice.runtime", cuda=best.cuda)
    if best.runs_on(gpu.driver, gpu.capability):
        return Advice(text=message("runtime-advice.suits", title=title, **about), runtime=best.id)
    about |= {"needed": best.driver, "size": bytes_text(best.bytes)}
    older = next((one for one in known if one.runs_on(gpu.driver, gpu.capability)), None)
    if older is None:
        return Advice(text=message("runtime-advice.driver", **about), driver=best.driver)
    about |= {"older": older.id, "older_size": bytes_text(older.bytes)}
    return Advice(text=message("runtime-advice.driver-or-older", **about), driver=best.driver)


def needed_runtime() -> NeededRuntime | None:
    """The runtime to install before the GPU of this machine can compute.

    None where the torch in use can use it, where no runtime is for it and this program, where its
    driver has to be updated first, and where the next start does not use an installed one: a
    checkout of the sources has its Python's torch.
    """
    gpu = devices.chosen(devices.AUTO, devices.gpus())
    if gpu is None or budget.torch_has_cuda() or not start.follows_choice():
        return None
    own = (runtime for runtime in catalogue() if runtime.suits_this_python)
    found = suited(own, gpu.capability)
    if found is None or not found.runs_on(gpu.driver, gpu.capability):
        return None
    return NeededRuntime(id=found.id, bytes=found.bytes)


def lines(gpu: Gpu | None) -> Iterator[DoctorLine]:
    """Lines of the self-test: the torch in use and why, and the runtime that suits the GPU."""
    choice = start.current()
    if choice.is_fallback:
        found = message("doctor.runtime.broken", why=choice.why, runtime=choice.runtime)
        reason = choice.why.params.get("why")
        if isinstance(reason, Message) and folders.is_block(reason):
            found = message("doctor.runtime.blocked", why=choice.why, advice=reason.hint)
        yield DoctorLine(name=_NAME, state="warning", message=found)
    elif choice.folder is not None:
        installed = folders.read(choice.folder)
        wrong = folders.first_wrong(choice.folder, installed, every=True) if installed else ""
        if installed is None or wrong:
            found = message("doctor.runtime.damaged", runtime=choice.runtime, file=wrong)
            yield DoctorLine(name=_NAME, state="problem", message=found)
        else:
            facts = {"torch": installed.torch, "files": len(installed.files)}
            found = message("doctor.runtime.whole", why=choice.why, **facts)
            yield DoctorLine(name=_NAME, state="ok", message=found)
            if count := bytecode.missing(choice.folder, installed):
                found = message("doctor.runtime.not-compiled", count=count, runtime=choice.runtime)
                yield DoctorLine(name=_NAME, state="warning", message=found)
    else:
        found = message("doctor.runtime.used", why=choice.why)
        yield DoctorLine(name=_NAME, state="ok", message=found)
    advised = advice(gpu, catalogue())
    if choice.folder is None and gpu is not None and getattr(sys, "frozen", False):
        case = "installable" if advised.runtime else "advised"
        text = message(f"doctor.runtime.{case}", advice=advised.text, runtime=advised.runtime)
        yield DoctorLine(name="runtime for the GPU", state="ok", message=text)
