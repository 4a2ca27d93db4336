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
import re
import sys
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin
from zipfile import ZipInfo

from engine.core.serialization import from_plain, read_toml
from engine.core.zip_reader import UnreadableZip, ZipReader
from engine.delivery.wheels import place_of
from engine.files import http_client
from engine.files.http_client import HttpError
from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, Wheel
from installer.project import ROOT, PackagingError

CATALOGUE = ROOT / "resources" / "runtime.toml"
_TIMEOUT_S = 60.0
_MOST_PAGE_BYTES = 2**23
_HREF = re.compile(r"""\bhref\s{0,9}=\s{0,9}["']([^"'<>\s]{1,2000})""", re.IGNORECASE)
_TAIL_BYTES = 2**23  # enough for the list of members of a wheel
_PINS = ("bytes", "sha256", "place", "unpacked_bytes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Pin, or check; the exit status."""
    parser = argparse.ArgumentParser(description="Pin the NVIDIA runtimes.")
    parser.add_argument("--check", action="store_true", help="only compare the pins with the index")
    parser.add_argument("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    args = parser.parse_args(arguments)
    try:
        known, missing = pinned(read_toml(args.catalogue))
        runtimes = list(known)
        if args.check and missing:
            raise PackagingError(f"{', '.join(missing)} in {args.catalogue.name}")
        if not args.check:
            runtimes = [_with_unpacked_bytes(runtime, known.index) for runtime in known]
            text = filled_in(args.catalogue.read_text("utf-8"), runtimes)
            args.catalogue.write_text(text, encoding="utf-8")
    except (PackagingError, HttpError, OSError, UnreadableZip) as err:
        print(f"not pinned: {err}", file=sys.stderr)
        return 1
    for runtime in runtimes:
        for wheel in runtime.wheels:
            print(f"{wheel.sha256}  {wheel.bytes:>12,}  {wheel.filename}")
    return 0


def pinned(data: dict[str, Any]) -> tuple[RuntimeCatalogue, list[str]]:
    """The catalogue with the pins that it has, and with the index's where it has none.

    Args:
        data: The catalogue as it is read; a wheel may have its file name alone.

    Returns:
        The catalogue, and the ids of runtimes that were not pinned.

    Raises:
        PackagingError: The index does not have a wheel, or another file than one that is pinned.
        HttpError: The index does not answer.
    """
    missing = []
    for runtime in data["runtimes"]:
        for wheel in runtime["wheels"]:
            found = on_index(wheel["filename"], runtime["id"], data["index"])
            if "sha256" not in wheel:
                wheel.update(dataclasses.asdict(found))
                missing.append(runtime["id"])
            elif (wheel["bytes"], wheel["sha256"]) != (found.bytes, found.sha256):
                raise PackagingError(
                    f"the index has {found.filename} with {found.bytes:,} bytes and SHA-256 "
                    f"{found.sha256}, the pin is {wheel['bytes']:,} bytes and {wheel['sha256']}"
                )
    return from_plain(RuntimeCatalogue, data), missing


# --- the index


def on_index(filename: str, runtime: str, index: str) -> Wheel:
    """Address, size and SHA-256 of a wheel, as an index gives them.

    Args:
        filename: Name of the wheel.
        runtime: Id of its runtime: the page of the project is `<id>/torch/` below the index.
        index: Base address.

    Raises:
        PackagingError: It has no link to the wheel, or one without SHA-256 (PEP 503); the server
            does not state the size; an address is not https.
        HttpError: The server does not answer.
    """
    base = index.rstrip("/") + "/"
    project = filename.partition("-")[0].replace("_", "-")
    with _reply(f"{base}{runtime}/{project}/") as reply:
        text = reply.read_whole(_MOST_PAGE_BYTES).decode("utf-8", "replace")
        url, digest = links_in(text, reply.url).get(filename, ("", ""))
    if not digest:
        lack = f"no SHA-256 of {url}" if url else f"no link to {filename}"
        raise PackagingError(f"the index has {lack}")
    with _reply(url) as reply:
        if reply.status != 200:
            raise HttpError("status", status=reply.status)
        size = reply.content_bytes
    if not size:
        raise PackagingError(f"the size of {url} is not stated")
    return Wheel(filename=filename, bytes=size, sha256=digest, place=url.removeprefix(base))


def _reply(url: str) -> http_client.Reply:
    if not http_client.is_safe(url):
        raise PackagingError(f"{url} is not an https:// address")
    return http_client.get(url, timeout_s=_TIMEOUT_S)


def links_in(page: str, address: str) -> dict[str, tuple[str, str]]:
    """Address and SHA-256 ("" if the page does not name it) of each wheel by its file name."""
    found = {}
    for href in _HREF.findall(page):
        try:
            url, fragment = urldefrag(urljoin(address, unescape(href)))
        except ValueError:  # no address
            continue
        digest = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment)
        found[unquote(url.rpartition("/")[2])] = (url, digest[1] if digest else "")
    return {name: link for name, link in found.items() if name.endswith(".whl")}


# --- the catalogue


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
