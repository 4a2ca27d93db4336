"""Pins the NVIDIA runtimes of a release: size and SHA-256 of every wheel, from an index.

    python -m installer.pin_runtime INDEX       fill in resources/runtime.toml
    python -m installer.pin_runtime --check     fail unless everything is filled in

INDEX is the address of the official wheels: for a runtime "cu130" its page `cu130/torch/` has a
link to each wheel that ends in `#sha256=...`. Nothing is written unless the index has every wheel
with its hash, and the server reports its size.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import ZipInfo

from engine.core.errors import EngineError
from engine.core.zip_reader import UnreadableZip, ZipReader
from engine.delivery import wheels
from engine.delivery.wheels import place_of
from engine.files import http_client
from engine.files.http_client import HttpError
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, Wheel, load
from installer.project import ROOT, PackagingError

CATALOGUE = ROOT / "resources" / "runtime.toml"
_TIMEOUT_S = 60.0
_TAIL_BYTES = 2**23  # enough for the list of members of a wheel
_PINS = ("bytes", "sha256", "place", "unpacked_bytes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Pin, or check; the exit status."""
    parser = argparse.ArgumentParser(description="Pin the NVIDIA runtimes of a release.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("index", nargs="?", help="address of the official wheels")
    action.add_argument("--check", action="store_true", help="only check that all are pinned")
    parser.add_argument("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    args = parser.parse_args(arguments)
    try:
        if args.index:
            _pin(args.catalogue, args.index)
        missing = unpinned(load(args.catalogue))
    except (PackagingError, EngineError, HttpError, OSError, UnreadableZip) as err:
        print(f"not pinned: {err}", file=sys.stderr)
        return 1
    for name in missing:
        print(f"not pinned: {name}", file=sys.stderr)
    return 1 if missing else 0


def unpinned(known: RuntimeCatalogue) -> list[str]:
    """Names of the values that are missing."""
    names = []
    for runtime in known:
        names += [wheel.filename for wheel in runtime.wheels if not wheel.is_pinned]
        names += [] if runtime.unpacked_bytes else [f"unpacked_bytes of {runtime.id}"]
    return names


def _pin(path: Path, index: str) -> None:
    known = load(path)
    base = index.rstrip("/") + "/"
    runtimes = [_pinned(runtime, base) for runtime in known]
    path.write_text(filled_in(path.read_text("utf-8"), base, runtimes), encoding="utf-8")
    for runtime in runtimes:
        for wheel in runtime.wheels:
            print(f"{wheel.sha256}  {wheel.bytes:>12,}  {wheel.filename}")


def _pinned(runtime: Runtime, base: str) -> Runtime:
    found = wheels.from_index(runtime, base)
    unpacked = sum(
        info.file_size
        for wheel in found.wheels
        for name, info in _members(wheel.address(base), wheel.bytes).items()
        if place_of(name)
    )
    return dataclasses.replace(found, unpacked_bytes=unpacked)


def _members(url: str, size: int) -> Mapping[str, ZipInfo]:
    """The list of a wheel's members, from its last bytes."""
    begin = max(0, size - _TAIL_BYTES)
    with http_client.get(url, begin=begin, timeout_s=_TIMEOUT_S) as reply:
        if begin and reply.content_range != (begin, size):
            raise PackagingError(f"{url}: the server ignores ranges")
        tail = b"".join(iter(reply.read, b""))
    return ZipReader(io.BytesIO(tail)).members


def filled_in(text: str, index: str, runtimes: Sequence[Runtime]) -> str:
    """The catalogue's text with these pins; comments stay."""
    wheels: dict[str, Wheel] = {wheel.filename: wheel for r in runtimes for wheel in r.wheels}
    ids = {runtime.id: runtime for runtime in runtimes}
    lines = []
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition("="))
        value = value.strip('"')
        if key in _PINS:
            continue
        lines.append(f'index = "{index}"' if key == "index" else line)
        if key == "filename":
            wheel = wheels[value]
            lines += [f"bytes = {wheel.bytes}", f'sha256 = "{wheel.sha256}"']
            lines.append(f'place = "{wheel.place}"')
        elif key == "id":
            lines.append(f"unpacked_bytes = {ids[value].unpacked_bytes}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
