r"""Foreign text as plain text: names of files and computers, tags, error texts of servers.

Such a text may hold characters that steer a terminal, begin a line of its own, or reverse the order
of what stands around it. They are shown as escapes, like "\n" and "\u202e", on each way out:
`engine.core.log` (records), `engine.cli.console` (lines of a terminal), `engine.core.messages` and
`app.i18n` (values in a sentence) and `app.widgets.plain` (all that the window shows).
"""

from __future__ import annotations

import re

# Control characters, separators of lines, embeddings, overrides and isolates of the bidirectional
# algorithm, and halves of surrogate pairs, which no encoding takes.
_ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """A foreign text in one line, as plain text; applied twice it is the same."""
    if text.isprintable():
        return text
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def printable(text: str) -> str:
    """A text of ours in several lines, with foreign parts: line feeds are kept."""
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))
