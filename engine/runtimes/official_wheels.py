"""Wheels that this build pins no SHA-256 of: what an index says of them, and what a name says.

The user sees file, size and SHA-256 before such a wheel is used.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from html import unescape
from urllib.parse import unquote, urldefrag, urljoin

from engine.core.control import Control
from engine.core.errors import DownloadFailed, UnsuitableWheel
from engine.core.messages import message
from engine.files import http_client
from engine.files.http_client import HttpError
from engine.files.transfer import host
from engine.runtimes.catalogue import Runtime, Wheel

_MOST_PAGE_BYTES = 2**23
_TIMEOUT_S = 60.0
_HREF = re.compile(r"""\bhref\s{0,9}=\s{0,9}["']([^"'<>\s]{1,2000})""", re.IGNORECASE)


def from_index(runtime: Runtime, index: str, control: Control | None = None) -> Runtime:
    """A runtime with address, size and SHA-256 of its wheels, as an index gives them.

    Args:
        runtime: A runtime of the catalogue.
        index: Base address. The page of the project `torch` is `<id of the runtime>/torch/` below
            it; a link of a page ends in `#sha256=` and the sum (PEP 503).
        control: Cancels it.

    Raises:
        UnsuitableWheel: There is no such wheel, no sum of it, or an address is not encrypted.
        DownloadFailed: The server does not answer.
        Cancelled: The control was cancelled.
    """
    base = index.rstrip("/") + "/"
    found = (_from_index(wheel, f"{base}{runtime.id}/", base, control) for wheel in runtime.wheels)
    return dataclasses.replace(runtime, wheels=tuple(found))


def _from_index(wheel: Wheel, folder: str, base: str, control: Control | None) -> Wheel:
    page = urljoin(folder, f"{_project(wheel.filename).replace('_', '-')}/")
    try:
        with _reply(page, wheel, control) as reply:
            text = reply.read_whole(_MOST_PAGE_BYTES).decode("utf-8", "replace")
            url, digest = links_in(text, reply.url).get(wheel.filename, ("", ""))
        if not digest:
            case = "no-sum" if url else "no-link"
            raise UnsuitableWheel(case, host=host(page), name=wheel.filename, address=url)
        with _reply(url, wheel, control) as reply:
            if reply.status != 200:
                raise HttpError("status", status=reply.status)
            size = reply.content_bytes
        if not size:
            raise UnsuitableWheel("no-size", host=host(url), name=wheel.filename)
    except HttpError as err:
        raise DownloadFailed(
            "server",
            host=host(page),
            name=wheel.filename,
            file=wheel.filename,
            why=err.why,
            help=message("help.transfer.connection"),
        ) from err
    return dataclasses.replace(wheel, bytes=size, sha256=digest, place=url.removeprefix(base))


def _reply(url: str, wheel: Wheel, control: Control | None) -> http_client.Reply:
    if not http_client.is_safe(url):
        raise UnsuitableWheel("not-https", name=wheel.filename, address=url)
    return http_client.get(url, timeout_s=_TIMEOUT_S, control=control)


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


def check_name(name: str, known: Iterable[Runtime]) -> None:
    """Check that a file is named like a wheel of one of these runtimes.

    Raises:
        UnsuitableWheel: It is not, and why: project, version of torch, CUDA build, Python, system.
    """
    runtimes = tuple(known)
    wheels = [wheel.filename for runtime in runtimes for wheel in runtime.wheels]
    if name in wheels:
        return
    parts = name.removesuffix(".whl").split("-")
    if not name.endswith(".whl") or len(parts) < 5:
        raise UnsuitableWheel("no-wheel", name=name, wheels=tuple(wheels))
    project, version = parts[:2]
    if project not in map(_project, wheels):
        raise UnsuitableWheel("project", name=name, project=project)
    torch, _, build = version.partition("+")
    if all(runtime.torch.partition("+")[0] != torch for runtime in runtimes):
        wanted = runtimes[0].torch.partition("+")[0]
        raise UnsuitableWheel("torch", name=name, torch=torch, wanted=wanted)
    if all(runtime.torch != version for runtime in runtimes):
        builds = tuple(runtime.id for runtime in runtimes)
        raise UnsuitableWheel("cuda", name=name, build=build or "cpu", wanted=builds)
    raise UnsuitableWheel("system", name=name, wheels=tuple(wheels))


def _project(filename: str) -> str:
    return filename.partition("-")[0]
