"""Prints what a program shows to screen readers; run by Debian's own Python, which has Gio.

Each line of standard input is the id of a process. The answer is one line of JSON: a list of nodes
in the order of the tree, each with role, name, description, text, states, depth and rectangle: the
part of it that is not scrolled away, in pixels of the screen. What is not shown is left out, except
rows of lists.

All children of a node come in one answer. Asked one by one, Qt's scroll areas look up an index
without a check, and the program crashes where a scroll bar has gone since they were counted:
`tests/trials/qt_scroll_area_crash.py` shows it.
"""

import json
import sys

from gi.repository import Gio, GLib

_NODE = "org.a11y.atspi.Accessible"
_BOX = "org.a11y.atspi.Component"
_TEXT = "org.a11y.atspi.Text"
_ON_SCREEN = 0  # of AtspiCoordType
_SHOWING = 25  # of AtspiStateType, as the others
_STATES = {
    **{"checked": 4, "enabled": 8, "focusable": 11, "focused": 12, "selected": 23},
    **{"showing": _SHOWING, "checkable": 41},
}
_ROWS = ("list item", "table cell")
_WINDOWS = ("frame", "dialog", "alert", "window", "popup menu")  # not clipped by their parent
_PATIENCE_MS = 20_000


class Bus:
    """The accessibility bus; a node is the name of a connection and the path of an object."""

    def __init__(self):
        session = Gio.bus_get_sync(Gio.BusType.SESSION)
        where = session.call_sync(
            *("org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress"),
            *(None, None, Gio.DBusCallFlags.NONE, _PATIENCE_MS),
        )
        flags = Gio.DBusConnectionFlags
        self._bus = Gio.DBusConnection.new_for_address_sync(
            where.unpack()[0], flags.AUTHENTICATION_CLIENT | flags.MESSAGE_BUS_CONNECTION
        )

    def ask(self, node, interface, method, *arguments):
        """The answer of a node; `arguments` are pairs of type and value."""
        kinds = "".join(kind for kind, _ in arguments)
        sent = GLib.Variant(f"({kinds})", tuple(value for _, value in arguments))
        flags = Gio.DBusCallFlags.NONE
        answer = self._bus.call_sync(
            *node, interface, method, sent, None, flags, _PATIENCE_MS
        ).unpack()
        return answer[0] if len(answer) == 1 else answer

    def value(self, node, interface, name):
        """A property of a node."""
        kind = "org.freedesktop.DBus.Properties"
        return self.ask(node, kind, "Get", ("s", interface), ("s", name))

    def windows(self, process):
        """Nodes of the windows of a process; none while it shows none."""
        bus = ("org.freedesktop.DBus", "/org/freedesktop/DBus")
        root = ("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root")
        found = []
        for program in self.ask(root, _NODE, "GetChildren"):
            question = "GetConnectionUnixProcessID", ("s", program[0])
            if self.ask(bus, "org.freedesktop.DBus", *question) == process:
                found += self.ask(program, _NODE, "GetChildren")
        return found


def walk(bus, node, depth, clip, found):
    """Note a node and all below it; `clip` is what those above it leave visible, None for all."""
    low, high = bus.ask(node, _NODE, "GetState")
    states = low | high << 32
    role = bus.ask(node, _NODE, "GetRoleName")
    if role not in _ROWS and not states >> _SHOWING & 1:
        return
    interfaces = bus.ask(node, _NODE, "GetInterfaces")
    box = clip
    if _BOX in interfaces:
        whole = bus.ask(node, _BOX, "GetExtents", ("u", _ON_SCREEN))
        box = _common(whole, None if role in _WINDOWS else clip)
    if role not in _ROWS and box is not None and box[2] * box[3] == 0:
        return
    is_text = _TEXT in interfaces
    found.append(
        {
            "role": role,
            "name": bus.value(node, _NODE, "Name"),
            "description": bus.value(node, _NODE, "Description"),
            "text": bus.ask(node, _TEXT, "GetText", ("i", 0), ("i", -1)) if is_text else "",
            "box": box or (0, 0, 0, 0),
            "states": [name for name, bit in _STATES.items() if states >> bit & 1],
            "depth": depth,
        }
    )
    if role == "combo box":
        return  # its rows are a list that is closed
    for child in bus.ask(node, _NODE, "GetChildren"):
        walk(bus, child, depth + 1, box, found)


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
    bus = Bus()
    for line in sys.stdin:
        found = []
        try:
            for window in bus.windows(int(line)):
                walk(bus, window, 0, None, found)
        except GLib.Error as err:  # a control went, or the program ended, while it was read
            print(err.message, file=sys.stderr)
            found = []
        print(json.dumps(found), flush=True)


main()
