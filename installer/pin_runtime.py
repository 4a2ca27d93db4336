"""Pins the NVIDIA runtimes: size and SHA-256 of every wheel, from the index of the catalogue.

    python -m installer.pin_runtime             fill in what resources/runtime.toml has no pin of
    python -m installer.pin_runtime --check     fail unless everything is pinned as in the index

For a runtime "cu130" the page `cu130/torch/` of the index has a link to each wheel that ends in
`#sha256=...`. A pin is never replaced: where the index has another file, both commands fail. For
another version of torch remove the old pins first. Nothing is written unless the index has every
wheel with its hash, and the server reports its size.
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
from engine.runtimes.catalogue import Runtime, Wheel, load
from installer.project import ROOT, PackagingError

CATALOGUE = ROOT / "resources" / "runtime.toml"
_TIMEOUT_S = 60.0
_TAIL_BYTES = 2**23  # enough for the list of members of a wheel
_PINS = ("bytes", "sha256", "place", "unpacked_bytes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Pin, or check; the exit status."""
    parser = argparse.ArgumentParser(description="Pin the NVIDIA runtimes.")
    parser.add_argument("--check", action="store_true", help="only compare the pins with the index")
    parser.add_argument("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    args = parser.parse_args(arguments)
    try:
        known = load(args.catalogue)
        runtimes = [pinned(runtime, known.index) for runtime in known]
        missing = [runtime.id for runtime in known if not runtime.is_pinned]
        if args.check and missing:
            raise PackagingError(f"{', '.join(missing)} in {args.catalogue.name}")
        if not args.check:
            runtimes = [_with_unpacked_bytes(runtime, known.index) for runtime in runtimes]
            text = filled_in(args.catalogue.read_text("utf-8"), runtimes)
            args.catalogue.write_text(text, encoding="utf-8")
    except (PackagingError, EngineError, HttpError, OSError, UnreadableZip) as err:
        print(f"not pinned: {err}", file=sys.stderr)
        return 1
    for runtime in runtimes:
        for wheel in runtime.wheels:
            print(f"{wheel.sha256}  {wheel.bytes:>12,}  {wheel.filename}")
    return 0


def pinned(runtime: Runtime, index: str) -> Runtime:
    """A runtime with the pins that it has; those that it lacks are the index's.

    Raises:
        PackagingError: The index has another file than one that is pinned.
        EngineError: A wheel is not in the index, or the index does not answer.
    """
    found = wheels.from_index(runtime, index)
    return dataclasses.replace(runtime, wheels=tuple(map(_same, runtime.wheels, found.wheels)))


def _same(pin: Wheel, found: Wheel) -> Wheel:
    if not pin.is_pinned:
        return found
    if (pin.bytes, pin.sha256) != (found.bytes, found.sha256):
        raise PackagingError(
            f"the index has {pin.filename} with {found.bytes:,} bytes and SHA-256 {found.sha256}, "
            f"the pin is {pin.bytes:,} bytes and {pin.sha256}"
        )
    return pin


def _with_unpacked_bytes(runtime: Runtime, index: str) -> Runtime:
    unpacked = sum(
        info.file_size
        for wheel in runtime.wheels
        for name, info in _members(wheel.address(index), wheel.bytes).items()
        if place_of(name)
    )
    return dataclasses.replace(runtime, unpacked_bytes=unpacked)


def _members(url: str, size: int) -> Mapping[str, ZipInfo]:
    """The list of a wheel's members, from its last bytes."""
    begin = max(0, size - _TAIL_BYTES)
    with http_client.get(url, begin=begin, timeout_s=_TIMEOUT_S) as reply:
        if begin and reply.content_range != (begin, size):
            raise PackagingError(f"{url}: the server ignores ranges")
        tail = b"".join(iter(reply.read, b""))
    return ZipReader(io.BytesIO(tail)).members


def filled_in(text: str, runtimes: Sequence[Runtime]) -> str:
    """The catalogue's text with these pins; comments stay."""
    wheels: dict[str, Wheel] = {wheel.filename: wheel for r in runtimes for wheel in r.wheels}
    ids = {runtime.id: runtime for runtime in runtimes}
    lines = []
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition("="))
        value = value.strip('"')
        if key in _PINS:
            continue
        lines.append(line)
        if key == "filename":
            wheel = wheels[value]
            lines += [f"bytes = {wheel.bytes:_}", f'sha256 = "{wheel.sha256}"']
            lines.append(f'place = "{wheel.place}"')
        elif key == "id":
            lines.append(f"unpacked_bytes = {ids[value].unpacked_bytes:_}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
