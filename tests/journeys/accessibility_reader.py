"""Prints what a program shows to screen readers; run by Debian's own Python, which has Atspi.

Each line of standard input is the id of a process. The answer is one line of JSON: a list of nodes
in the order of the tree, each with role, name, description, text, rectangle on the screen in
pixels, states and depth. What is not on the screen is left out, except rows of lists.
"""

import json
import sys

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402 - the version has to be chosen first

_STATES = {
    "showing": Atspi.StateType.SHOWING,
    "enabled": Atspi.StateType.ENABLED,
    "checked": Atspi.StateType.CHECKED,
    "focused": Atspi.StateType.FOCUSED,
    "selected": Atspi.StateType.SELECTED,
}
_WITH_ROWS = ("list", "table")


def nodes_of(process):
    """Nodes of every window of a process; empty while it shows none."""
    desktop = Atspi.get_desktop(0)
    desktop.set_cache_mask(Atspi.Cache.NONE)  # else states of before are answered
    found = []
    for at in range(desktop.get_child_count()):
        application = desktop.get_child_at_index(at)
        if application is not None and application.get_process_id() == process:
            _walk(application, 0, True, found)
    return found


def _walk(node, depth, is_row, found):
    states = node.get_state_set()
    if not is_row and not states.contains(Atspi.StateType.SHOWING):
        return
    role = node.get_role_name()
    knows = node.get_interfaces()
    place = None
    if "Component" in knows:
        place = Atspi.Component.get_extents(node, Atspi.CoordType.SCREEN)
    found.append(
        {
            "role": role,
            "name": node.get_name() or "",
            "description": node.get_description() or "",
            "text": Atspi.Text.get_text(node, 0, -1) if "Text" in knows else "",
            "box": [place.x, place.y, place.width, place.height] if place is not None else None,
            "states": [name for name, state in _STATES.items() if states.contains(state)],
            "depth": depth,
        }
    )
    if role == "combo box":
        return  # its rows are a list that is closed
    for at in range(node.get_child_count()):
        child = node.get_child_at_index(at)
        if child is not None:
            _walk(child, depth + 1, depth == 0 or role in _WITH_ROWS and _is_row(child), found)


def _is_row(node):
    return node.get_role_name() in ("list item", "table cell")


def main():
    """Answer until standard input ends."""
    for line in sys.stdin:
        try:
            answer = nodes_of(int(line))
        except GLib.Error:  # a control went, or the program ended, while it was read
            answer = None
        print(json.dumps(answer), flush=True)


main()
