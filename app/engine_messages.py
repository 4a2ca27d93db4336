"""Messages of the engine in the current language."""

from __future__ import annotations

from app.i18n import current_language
from engine.core.errors import EngineError, ErrorInfo
from engine.core.messages import Message, MessageCatalogue, catalogue, has_text, message
from engine.core.plain_text import one_line
from engine.protocol.plan import Notice


def _catalogue() -> MessageCatalogue:
    return catalogue(current_language(), "window")


def text(item: Message | ErrorInfo | Notice) -> str:
    """The sentence of a message, an error or a notice."""
    found = item if isinstance(item, Message) else item.as_message
    return _catalogue().text(found)


def hint(item: ErrorInfo | Notice) -> str:
    """Advice on what to do next; "" where there is nothing to do."""
    return _catalogue().hint(item.as_message)


def title(code: str) -> str:
    """Heading of a code."""
    return _catalogue().title(code)


def error_title(error: ErrorInfo) -> str:
    """Heading of an error; of all errors for a code that this version does not know."""
    return title(error.as_message.code) or title(EngineError.code)


def button(code: str) -> str:
    """Text of the button that helps with an error; "" where there is none."""
    return _catalogue().button(code)


def setting_title(name: str) -> str:
    """The name of a setting."""
    return title(f"setting.{name}")


def setting_text(name: str) -> str:
    """The description of a setting."""
    return text(message(f"setting.{name}"))


def choice_text(setting: str, value: str) -> str:
    """The name of a choice of a setting; the value itself where the catalogue has none."""
    code = f"choice.{setting}.{value}"
    return text(message(code)) if has_text(code) else one_line(str(value))


def choice_hint(setting: str, value: str) -> str:
    """Explanation of a choice; "" where there is none."""
    return text(message(f"choice.{setting}.{value}").hint)
