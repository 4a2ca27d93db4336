"""Qt ends by a wrong access to memory when a screen reader asks for a scroll bar that has gone.

Nothing of Upreel is used, so that this file is the report of the fault as well. It needs PySide6,
Xvfb, dbus and at-spi2-core:

    xvfb-run -a dbus-run-session -- python tests/trials/qt_scroll_area_crash.py

Title: QAccessibleAbstractScrollArea::child() reads beyond its list of children (crash by AT-SPI)

Seen with: Qt and PySide6 6.11.3 of PyPI, Debian 12, x86-64, xcb on Xvfb, at-spi2-core 2.46.0.

Steps, each of them done below:
 1. Show a QScrollArea whose content is higher than the area: it has a vertical scroll bar.
 2. By AT-SPI, read its ChildCount: 2, the viewport and the container of the scroll bar.
 3. Make the content small: Qt hides the scroll bar, and ChildCount is 1.
 4. By AT-SPI, call GetChildAtIndex(1) of the scroll area, as an assistive program does which has
    read the number of children a moment before.

Expected: a reply with no object. QAccessibleWidget::child() checks its index and returns nullptr.
Seen: the program ends by SIGSEGV, and the caller receives "Message recipient disconnected".

Cause: `QAccessibleAbstractScrollArea::child` hands its index to `QList::at` of `accessibleChildren`
without a check, and `QList::at` checks it only with assertions, which a release does not have. The
AT-SPI bridge passes the index of GetChildAtIndex on as it is, unless it is negative. The children
are counted again at each call, so that no client can know a valid index: their number may change
between its two calls. Proposal: return nullptr for an index outside of the list, as
`QAccessibleWidget::child` does.

Backtrace of the program (gdb; names in brackets are inferred, as the libraries do not export them):

    Thread 1 received signal SIGSEGV, Segmentation fault.
    #0  QAccessibleCache::idForObject(QObject*) const         libQt6Gui.so.6
    #1  QAccessible::queryAccessibleInterface(QObject*)       libQt6Gui.so.6
    #2  ?? (QAccessibleAbstractScrollArea::child)             libQt6Widgets.so.6
    #3  ?? (AtSpiAdaptor::accessibleInterface)                libQt6Gui.so.6
    #4  ?? (AtSpiAdaptor::handleMessage)                      libQt6Gui.so.6
    #5  ??                                                    libQt6DBus.so.6
    #7  QObject::event(QEvent*)                               libQt6Core.so.6
    #11 QCoreApplicationPrivate::sendPostedEvents             libQt6Core.so.6
    #17 QEventLoop::exec                                      libQt6Core.so.6
    => mov (%rsi),%rax  in QAccessibleCache::idForObject: %rsi is not a QObject

Workaround of a client, which the journeys use: ask for all children at once (GetChildren), as Qt
then counts and reads them in one call.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QSocketNotifier, qVersion
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea

_LAUNCHER = "/usr/libexec/at-spi-bus-launcher"
_NODE = "org.a11y.atspi.Accessible"
_REGISTRY = ("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root")
_LINES = 100  # of text: more than the area shows
_PATIENCE_S = 20.0

T = TypeVar("T")


def show() -> int:
    """The program that crashes: each line of standard input makes its text short."""
    app = QApplication(sys.argv[:1])
    area, content = QScrollArea(), QLabel("\n".join(map(str, range(_LINES))))
    area.setWidget(content)
    area.setWidgetResizable(True)
    area.resize(300, 200)
    area.show()

    def shorten() -> None:
        if not sys.stdin.readline():
            app.quit()
            return
        content.setText("short")
        app.processEvents()
        is_gone = not area.verticalScrollBar().isVisible()
        print("the scroll bar has gone" if is_gone else "the scroll bar stays", flush=True)

    notifier = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read, area)
    notifier.activated.connect(shorten)
    return app.exec()


def asked(address: str, node: tuple[str, str], method: str, *arguments: str) -> str:
    """Reply to a call by D-Bus, as `dbus-send` prints it; what it prints of an error otherwise."""
    at = f"--bus={address}" if address else "--session"
    words = ("dbus-send", at, "--print-reply", f"--dest={node[0]}", node[1], method, *arguments)
    reply = subprocess.run(words, capture_output=True, text=True)
    return reply.stdout or reply.stderr


def children(address: str, node: tuple[str, str]) -> list[tuple[str, str]]:
    """Name of the connection and path of each child of a node."""
    found = asked(address, node, f"{_NODE}.GetChildren")
    return re.findall(r'string "(:[^"]+)"\s+object path "([^"]+)"', found)


def child_count(address: str, node: tuple[str, str]) -> int:
    """Number of children that a node states."""
    words = ("org.freedesktop.DBus.Properties.Get", f"string:{_NODE}", "string:ChildCount")
    return int(asked(address, node, *words).split()[-1])


def until(look: Callable[[], T]) -> T:
    """The first answer that is not empty."""
    end = time.monotonic() + _PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, "no accessibility bus, or no window on it"
        time.sleep(0.1)
    return found


def bus_address() -> str:
    """Address of the accessibility bus; "" while there is none."""
    reply = asked("", ("org.a11y.Bus", "/org/a11y/bus"), "org.a11y.Bus.GetAddress")
    return next(iter(re.findall(r'string "(unix:[^"]+)"', reply)), "")


def main() -> int:
    """Ask; the exit status is 0 where the program has crashed, 1 where Qt has answered."""
    print(f"Qt {qVersion()}, {sys.platform}, Python {sys.version.split()[0]}")
    launcher = subprocess.Popen((_LAUNCHER, "--launch-immediately"), stderr=subprocess.DEVNULL)
    address = until(bus_address)
    program = subprocess.Popen(
        (sys.executable, Path(__file__), "show"),
        env=os.environ | {"QT_QPA_PLATFORM": "xcb", "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        (shown,) = until(lambda: children(address, _REGISTRY))
        (area,) = until(lambda: children(address, shown))
        before = child_count(address, area)
        print("children of the scroll area:", before)
        program.stdin.write("shorten\n")
        program.stdin.flush()
        print(program.stdout.readline().strip())
        print("children of the scroll area:", child_count(address, area))
        print(f"GetChildAtIndex({before - 1}):")
        print(asked(address, area, f"{_NODE}.GetChildAtIndex", f"int32:{before - 1}").strip())
        program.stdin.close()
        status = program.wait(_PATIENCE_S)
    finally:
        program.kill()
        launcher.terminate()
    print("the program ended by", signal.Signals(-status).name if status < 0 else status)
    return int(status >= 0)


if __name__ == "__main__":
    sys.exit(show() if sys.argv[1:] == ["show"] else main())
