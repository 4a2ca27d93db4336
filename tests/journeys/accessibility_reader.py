"""Prints what a program shows to screen readers; run by Debian's own Python, which has Atspi.

Each line of standard input is the id of a process. The answer is one line of JSON: a list of nodes
in the order of the tree, each with role, name, description, text, states, depth and rectangle: the
part of it that is not scrolled away, in pixels of the screen. What is not shown is left out, except
rows of lists.
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
_ROWS = ("list item", "table cell")
_WINDOWS = ("frame", "dialog", "alert", "window", "popup menu")  # not clipped by their parent


def nodes_of(process):
    """Nodes of every window of a process; empty while it shows none."""
    desktop = Atspi.get_desktop(0)
    desktop.set_cache_mask(Atspi.Cache.NONE)  # else states of before are answered
    found = []
    for at in range(desktop.get_child_count()):
        application = desktop.get_child_at_index(at)
        if application is not None and application.get_process_id() == process:
            for number in range(application.get_child_count()):
                window = application.get_child_at_index(number)
                if window is not None:
                    _walk(window, 0, None, found)
    return found


def _walk(node, depth, clip, found):
    """Note a node and all below it; `clip` is what those above it leave visible, None for all."""
    states = node.get_state_set()
    role = node.get_role_name()
    if role not in _ROWS and not states.contains(Atspi.StateType.SHOWING):
        return
    knows = node.get_interfaces()
    box = clip
    if "Component" in knows:
        place = Atspi.Component.get_extents(node, Atspi.CoordType.SCREEN)
        box = _common([place.x, place.y, place.width, place.height], clip)
    if role not in _ROWS and box[2] * box[3] == 0:
        return
    found.append(
        {
            "role": role,
            "name": node.get_name() or "",
            "description": node.get_description() or "",
            "text": Atspi.Text.get_text(node, 0, -1) if "Text" in knows else "",
            "box": box,
            "states": [name for name, state in _STATES.items() if states.contains(state)],
            "depth": depth,
        }
    )
    if role == "combo box":
        return  # its rows are a list that is closed
    for at in range(node.get_child_count()):
        child = node.get_child_at_index(at)
        if child is not None:
            is_window = child.get_role_name() in _WINDOWS
            _walk(child, depth + 1, None if is_window else box, found)


def _common(one, other):
    """What two rectangles share."""
    if other is None:
        return one
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right = min(one[0] + one[2], other[0] + other[2])
    bottom = min(one[1] + one[3], other[1] + other[3])
    return [left, top, max(0, right - left), max(0, bottom - top)]


def main():
    """Answer until standard input ends."""
    for line in sys.stdin:
        try:
            answer = nodes_of(int(line))
        except GLib.Error:  # a control went, or the program ended, while it was read
            answer = None
        print(json.dumps(answer), flush=True)


main()
