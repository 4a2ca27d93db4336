"""The manual that the window opens: pages of HTML with pictures, made of `docs/manual/*.md`.

    python -m tools.manual [--renew]

Pictures are states of `tools.screenshots`; "state-part" is a widget of one by its object name. They
are committed, as WebP: the source tree opens the manual without a build, and every package, also
one that is packed where no window can be rendered, has the same one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image
from PySide6.QtCore import QSizeF, QUrl
from PySide6.QtGui import QTextDocument

from app.i18n import LANGUAGES
from engine.core import paths
from engine.core.geometry import Size
from tools.screenshots.render import render
from tools.screenshots.shots import Shot

SOURCES = Path(__file__).parents[1] / "docs" / "manual"
PAGE = Size(660, 960)  # what A4 has between its margins, CSS px
_WINDOW, _SCALE = Size(1200, 720), 1.5
_QUALITY = 78  # of WebP
_CONTENTS = {"en": "Contents", "zh_CN": "目录"}
_TEMPLATE = """<!DOCTYPE html>
<html lang="{tag}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 60em; margin: 2em auto; padding: 0 1em; line-height: 1.6;
  font-family: "Segoe UI", "Microsoft YaHei UI", "Noto Sans CJK SC", sans-serif; }}
h1, h2 {{ line-height: 1.25; }}
h2 {{ margin-top: 2em; break-after: avoid; }}
p, li, nav {{ max-width: 46em; }}
p:has(img) {{ max-width: none; }}
nav ol {{ columns: 2; }}
img {{ max-width: 100%; height: auto; border-radius: 6px; }}
code {{ font-family: Consolas, monospace; }}
pre {{ overflow-x: auto; }}
td, th {{ padding: 0.25em 1em 0.25em 0; text-align: left; vertical-align: top; }}
@media print {{
  body {{ max-width: none; margin: 0; font-size: 10pt; line-height: 1.4; }}
  h2 {{ margin-top: 1em; }}
  nav {{ display: none; }}
  img {{ max-width: 560px; }}
}}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def main() -> None:
    """Build the manual in every language."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--renew", action="store_true", help="also the pictures that are there")
    parser.add_argument("--recording", type=Path, help="as of tools.screenshots.render")
    options = parser.parse_args()
    _make_pictures(options.recording, is_renewed=options.renew)
    for language in LANGUAGES:
        page = folder(language) / "index.html"
        page.write_text(html(language), encoding="utf-8", newline="\n")
        kilobytes = sum(file.stat().st_size for file in page.parent.iterdir()) / 1000
        print(f"{page}: {kilobytes:.0f} kB")


def folder(language: str) -> Path:
    """Folder from which the manual of a language is shipped."""
    return paths.resource("manual", language)


def tokens(language: str, widest: int = _WINDOW.width) -> list[Token]:
    """The text of a language as Markdown's parts, with places of chapters and sizes of pictures.

    Args:
        language: One of `LANGUAGES`.
        widest: Width of a picture at most, CSS px.
    """
    made = _markdown().parse((SOURCES / f"{language}.md").read_text("utf-8"))
    chapters = (one for one in made if one.type == "heading_open" and one.tag == "h2")
    for number, heading in enumerate(chapters, start=1):
        heading.attrSet("id", f"chapter-{number}")
    for picture in _pictures(made):
        path = SOURCES / str(picture.attrs["src"])
        picture.attrSet("src", path.name)
        if path.exists():
            picture.attrSet("width", str(min(widest, round(Image.open(path).width / _SCALE))))
    return made


def html(language: str) -> str:
    """The whole manual as one page, which finds its pictures next to it."""
    made = tokens(language)
    title = next(one.content for one in made if one.type == "inline")
    after_title = 3  # opening, text and end of the first heading
    body = [
        _rendered(made[:after_title]),
        f"<nav>\n<p>{_CONTENTS[language]}</p>\n<ol>",
        *(f'<li><a href="#{place}">{escape(text)}</a></li>' for place, text in _chapters(made)),
        "</ol>\n</nav>",
        _rendered(made[after_title:]),
    ]
    tag = language.replace("_", "-")
    return _TEMPLATE.format(tag=tag, title=escape(title), body="\n".join(body))


def pictures(language: str) -> list[str]:
    """Names of the pictures in the text, in order."""
    return [Path(str(one.attrs["src"])).stem for one in _pictures(tokens(language))]


def document(language: str) -> QTextDocument:
    """The manual as it is printed, on `pageCount` pages of A4; needs an application of Qt."""
    made = QTextDocument()
    made.setBaseUrl(QUrl.fromLocalFile(f"{folder(language)}/"))
    font = made.defaultFont()
    font.setPixelSize(13)  # 10 pt
    made.setDefaultFont(font)
    made.setPageSize(QSizeF(PAGE.width, PAGE.height))
    made.setDocumentMargin(0)
    made.setHtml(_rendered(tokens(language, widest=560)))
    return made


def _make_pictures(recording: Path | None, *, is_renewed: bool) -> None:
    named = [
        folder(language) / f"{name}.webp" for language in LANGUAGES for name in pictures(language)
    ]
    for file in {file for language in LANGUAGES for file in folder(language).glob("*.webp")}:
        if is_renewed or file not in named:
            file.unlink()
    shots = {file: _shot(file) for file in named if not file.exists()}
    if not shots:
        return
    with tempfile.TemporaryDirectory() as place:
        render(list(shots.values()), Path(place), recording)
        for file, shot in shots.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            picture = Image.open(Path(place, shot.name)).convert("RGB")
            picture.save(file, quality=_QUALITY, method=6)


def _shot(file: Path) -> Shot:
    state, _, part = file.stem.partition("-")
    return Shot(state, file.parent.name, scale=_SCALE, size=_WINDOW, part=part)


def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _rendered(made: list[Token]) -> str:
    return str(_markdown().renderer.render(made, _markdown().options, {}))


def _pictures(made: list[Token]) -> Iterator[Token]:
    for block in made:
        yield from (part for part in block.children or () if part.type == "image")


def _chapters(made: list[Token]) -> Iterator[tuple[str, str]]:
    for heading, text in pairwise(made):
        if heading.tag == "h2" and heading.type == "heading_open":
            yield str(heading.attrs["id"]), text.content


if __name__ == "__main__":
    main()
