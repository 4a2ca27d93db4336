"""Languages of the window: catalogues keyed by the English text, switched while it is open."""

from __future__ import annotations

import json
import logging
from pathlib import PurePath

from PySide6.QtCore import QCoreApplication, QLocale, QObject, QTranslator

from app.bound import show_language
from engine.core import paths
from engine.core.messages import Value
from engine.core.plain_text import one_line

_log = logging.getLogger(__name__)

CONTEXT = "Upreel"
_THIN_SPACE = "\u202f"  # narrow and never broken: groups digits in every language
LANGUAGES = {"en": "EN", "zh_CN": "中文"}  # what the switch shows: each in itself


def tr(source: str, **values: object) -> str:
    """`source` in the current language, with `{name}` replaced by values.

    Integers are `grouped`; a text is foreign: it is shown as plain text in one line.
    `{count:frame|frames}` stands for one of two words, as in messages of the engine.
    """
    text = QCoreApplication.translate(CONTEXT, source)
    return text.format(**{name: _shown(v) for name, v in values.items()}) if values else text


def _shown(value: object) -> object:
    if isinstance(value, str | PurePath):
        return Value(one_line(str(value)))
    return Value(grouped(value)) if type(value) is int else value


def grouped(number: int) -> str:
    """A whole number with its digits in groups of three: "1 204"."""
    return f"{number:,}".replace(",", _THIN_SPACE)


def mark(source: str) -> str:
    """Mark a text of a table for the catalogue; it is translated when it is shown."""
    return source


class Catalogue(QTranslator):
    """Translations of one language from `resources/i18n/<language>.json`."""

    def __init__(self, language: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.texts = read_catalogue(language)

    def isEmpty(self) -> bool:
        """Qt ignores translators that are empty."""
        return not self.texts

    def translate(
        self, context: str, source: str, disambiguation: str | None = None, n: int = -1
    ) -> str:
        """The text in this language, or the English one: PySide would show "" as nothing."""
        return self.texts.get(source, source)


def read_catalogue(language: str) -> dict[str, str]:
    """English text to translated text; empty for English, which needs none."""
    path = paths.resource("i18n") / f"{language}.json"
    if not path.is_file():
        return {}
    try:
        texts: dict[str, str] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as err:
        _log.warning("%s cannot be read: %s", path.name, err)
        return {}
    return texts


def system_language() -> str:
    """The language of this user's desktop, where we have it; else English."""
    return "zh_CN" if QLocale.system().language() == QLocale.Language.Chinese else "en"


def current_language() -> str:
    """The language of the window, one of `LANGUAGES`."""
    app = QCoreApplication.instance()
    language = app.property("language") if app is not None else None
    return str(language or "en")


class Languages:
    """Installs one catalogue at a time; widgets show their bound texts again, see `app.bound`."""

    def __init__(self, app: QCoreApplication) -> None:
        self._app = app
        self._installed: Catalogue | None = None
        self.current = "en"

    def use(self, language: str) -> None:
        """Switch; an unknown language (an old settings file) means English."""
        if self._installed is not None:
            self._app.removeTranslator(self._installed)
            self._installed = None
        self.current = language if language in LANGUAGES else "en"
        self._app.setProperty("language", self.current)
        catalogue = Catalogue(self.current)
        if not catalogue.isEmpty():
            self._installed = catalogue
            self._app.installTranslator(catalogue)
        show_language()
