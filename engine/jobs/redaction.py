"""Texts for a report without what is private: only what the program itself could say is kept.

A list of what is private is never whole. So a word of a text stays if it is one of the program's
own: of its messages, catalogues, sources and modules, of the errors of Python and the system, of
the names of this computer's CPUs. All others are replaced.
"""

from __future__ import annotations

import os
import pkgutil
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from engine.core import paths
from engine.hardware import devices
from engine.settings.schema import EngineSettings, JobSettings, describe

# A name may have spaces: it goes back to a colon, a quotation mark or the beginning of the line.
_SUFFIXES = (
    "mp4|m4v|mkv|mov|avi|webm|m?ts|m2ts|mpe?g|wmv|flv|nut|gif|a?png|tiff?|jpe?g|webp|bmp|exr|dpx"
    "|srt|ass|ttf|otf|safetensors|gguf|pth?|ckpt|latent|toml|whl|exe|dll|zip"
)
_NAME = re.compile(rf"[^\n:\"'<>|*?]+\.({_SUFFIXES})\b", re.IGNORECASE)
_PATH = re.compile(
    r"(?:\\\\\?\\(?:[A-Za-z]:)?|\b[A-Za-z]:[\\/]|\\\\|(?<![\w<>/.:])~?/(?=\w))(?:[^\n:\"'<>|*?]|'(?=\w))*"
)
_URL = re.compile(r"\b([a-z][a-z0-9+.-]*)://(?:[^\s/@\"'<>]*@)?([\w.-]*)[^\s\"'<>]*", re.IGNORECASE)
_ADDRESS = re.compile(
    r"[\w.+-]+@[\w-]+\.[\w.-]+"  # of a person
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)(?::\d+)?"
    r"|\[?(?<![\w:])(?:(?:[0-9a-f]{1,4}:){5,7}[0-9a-f]{1,4}|[0-9a-f:]*::[0-9a-f:.]*)(?:%\w+)?\]?(?::\d+)?"
    r"|(?<![\w.-])[A-Za-z][\w.-]*:\d{4,5}(?![\w.])",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?<!\w)(?:'([^'\n]*)'|\"([^\"\n]*)\"|“([^”\n]*)”|„([^“\n]*)“)(?!\w)")
# A frame of a traceback in a module of the program or of Python, and its line of source.
_FRAME = re.compile(r'^(\s*)File "<(?:program|python)>[^"]*", line \d+,?(?: in .*)?$')
_TOKEN = re.compile(r"<[a-z]+>(?:\.\w+)?|\w+(?:[-.+@]\w+)*")
_PART = re.compile(r"[-.+@_]+")
_NUMBER = re.compile(
    r"\d{1,15}(?:x\d{1,15}|[a-zA-Z]{1,3})?|0x[0-9a-f]{1,16}|e\d{1,2}", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+")
_FRACTION = re.compile(r"-?[\d:T/. +-]{1,40}")
_MODULES = ("engine", "app")  # packages whose sources are read
_COMMANDS = [name for name, one in describe(EngineSettings).items() if one.kind == "command"]


class Redaction:
    """Replaces what may be private in texts and values.

    Args:
        names: Known to be private, whatever stands around them.
        known: Words that stay besides those of the program, such as identifiers of jobs.
        with_names: Keep everything but commands, and what is secret in addresses of servers.
    """

    def __init__(
        self, names: Iterable[str], known: Iterable[str] = (), *, with_names: bool = False
    ) -> None:
        self._with_names = with_names
        found = sorted({name for name in names if len(name) > 2}, key=len, reverse=True)
        any_of = "|".join(map(re.escape, found)) or r"(?!)"
        self._names = re.compile(rf"(?<!\w)(?:{any_of})(?!\w)", re.IGNORECASE)
        self._known = frozenset(known)
        program = Path(__file__).parents[2]
        pythons = {sys.prefix, sys.base_prefix} - {"/usr", "/"}
        places = [(program, "<program>"), *((Path(one), "<python>") for one in pythons)]
        self._places = sorted(places, key=lambda place: -len(str(place[0])))

    def redacted(self, text: str) -> str:
        """The text with only words that the program knows; endings of files stay."""
        if self._with_names:
            return _URL.sub(_without_secrets, text)
        for folder, name in self._places:
            text = text.replace(str(folder), name)
        lines, frame = [], ""
        for line in text.split("\n"):
            is_source = bool(frame) and line.startswith(frame + "  ")
            found = _FRAME.match(line)
            frame = found[1] if found else frame if is_source else ""
            lines.append(line if found or is_source else self._line(line))
        return "\n".join(lines)

    def plain(self, data: Any, key: str = "") -> Any:
        """Plain data of a record: numbers, and texts that the program's own sources have."""
        match data:
            case dict():
                return {
                    name if self._with_names or self._is_own(name) else f"<key {index}>": (
                        self.plain(value, name)
                    )
                    for index, (name, value) in enumerate(data.items())
                }
            case list() | tuple():
                return [self.plain(value, key) for value in data]
            case str() if key in _COMMANDS and data:
                return "<command>"
            case str() if self._with_names:
                return self.redacted(data)
            case str() if not self._is_own(data):
                suffix = re.search(rf"\.({_SUFFIXES})$", data, re.IGNORECASE)
                return f"<text>{suffix[0] if suffix else ''}"
        return data

    def texts(self, data: Any) -> Any:
        """Plain data whose names are the program's own, with each text redacted."""
        match data:
            case dict():
                return {name: self.texts(value) for name, value in data.items()}
            case list() | tuple():
                return [self.texts(value) for value in data]
            case str():
                return self.redacted(data)
        return data

    def _is_own(self, text: str) -> bool:
        return (
            not text or text in self._known or text in _own()[1] or bool(_FRACTION.fullmatch(text))
        )

    def _line(self, line: str) -> str:
        line = _URL.sub(self._server, line)
        line = _PATH.sub(_shown, line)
        line = _NAME.sub(lambda found: f"<name>.{found[1]}", line)
        line = self._names.sub("<name>", line)
        line = _ADDRESS.sub("<address>", line)
        line = _QUOTED.sub(self._quoted, line)
        return _TOKEN.sub(lambda found: found[0] if self._is_kept(found[0]) else "<word>", line)

    def _quoted(self, found: re.Match[str]) -> str:
        text = next(filter(None, found.groups()), "")
        is_one = re.fullmatch(r"\S*", text) or text in _own()[1] or "<" in text
        return found[0] if is_one else f"{found[0][0]}<text>{found[0][-1]}"

    def _server(self, found: re.Match[str]) -> str:
        is_own = "." in found[2] and found[2].lower() in _own()[0]
        return f"{found[1]}://{found[2]}" if is_own else "<address>"

    def _is_kept(self, token: str) -> bool:
        if token.startswith("<") or token in self._known:
            return True
        words = _own()[0]
        return token in words or all(
            part in words or _NUMBER.fullmatch(part) for part in filter(None, _PART.split(token))
        )


def _without_secrets(found: re.Match[str]) -> str:
    """An address of a server without name, password and what follows a question mark."""
    address = found[0].replace(found[0][: found.start(2) - found.start()], f"{found[1]}://", 1)
    return re.sub(r"[?#].*", "?<text>", address)


def _shown(found: re.Match[str]) -> str:
    suffix = re.search(rf"\.({_SUFFIXES})$", found[0].strip(), re.IGNORECASE)
    return f"<path>{suffix[0] if suffix else ''}"


@cache
def _own() -> tuple[frozenset[str], frozenset[str]]:
    """Words of the program's own texts, and its short texts as a whole."""
    words: set[str] = set()
    texts: set[str] = set()
    for text in _own_texts():
        words.update(_WORD.findall(text))
        if len(text) <= 60:
            texts.add(text)
    words.update([word.lower() for word in words])
    return frozenset(words | {text for text in texts if "." in text}), frozenset(texts)


def _own_texts() -> Iterator[str]:
    for path in paths.resources().rglob("*"):
        if path.suffix in (".toml", ".json"):
            text = path.read_text("utf-8", "replace")
            yield text
            yield from re.findall(r"[\w.-]+", text)
    for name in _MODULES:
        package = sys.modules.get(name)
        if package is not None:
            for code in _codes(package.__path__, name):
                yield from _texts_of(code)
    for settings in (JobSettings, EngineSettings):
        for setting in describe(settings).values():
            yield from map(str, setting.choices)
    for module in (*sys.modules, *sys.stdlib_module_names):
        yield from module.split(".")
    yield from map(os.strerror, range(1, 134))
    yield from _exceptions(BaseException)
    yield "Traceback"
    yield from (platform.platform(), platform.machine(), devices.cpu_name())
    yield from (gpu.name for gpu in devices.gpus())
    ffmpeg = sys.modules.get("av")
    for names in ("library_versions", "codecs_available", "formats_available"):
        yield from getattr(ffmpeg, names, ())


def _codes(folders: Iterable[str], package: str) -> Iterator[CodeType]:
    """The code of every module of a package, also of those that were not imported."""
    for found in pkgutil.iter_modules(folders, f"{package}."):
        spec = found.module_finder.find_spec(found.name, None)
        get_code = getattr(spec and spec.loader, "get_code", None)
        code = get_code(found.name) if get_code is not None else None
        if isinstance(code, CodeType):
            yield code
        if spec is not None and spec.submodule_search_locations:
            yield from _codes(spec.submodule_search_locations, found.name)


def _texts_of(code: CodeType) -> Iterator[str]:
    yield code.co_name
    yield from (*code.co_names, *code.co_varnames)
    for one in code.co_consts:
        yield from _texts_in(one)


def _texts_in(constant: object) -> Iterator[str]:
    match constant:
        case str():
            yield constant
        case CodeType():
            yield from _texts_of(constant)
        case tuple() | frozenset():
            for one in constant:
                yield from _texts_in(one)


def _exceptions(kind: type[BaseException]) -> Iterator[str]:
    yield kind.__name__
    for one in type.__subclasses__(kind):
        yield from _exceptions(one)
