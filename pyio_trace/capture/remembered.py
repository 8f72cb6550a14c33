"""What an instrument knows of an object of the library's, for as long as that lives.

Readers and writers seldom know their path once they are made.  The objects are
not to be kept alive, nor written on; and no callback tells when one has died,
since that would be a call of ours in the middle of the program.  So there are
weak references by id, and the dead are cleared out as their number grows.
"""

from __future__ import annotations

from _weakref import ref

from pyio_trace import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FEW = 256

#: id(), without the event by which an audit hook of the program's would hear of it.
address: Callable[[object], int] = id if native.core is None else native.core.address


class Remembered:
    """By object: any value that does not keep the object alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], Any]] = {}
        self._most = _FEW

    def note(self, made: object, what: object) -> None:
        """From here on get(made) is `what`."""
        if len(self._known) >= self._most:
            for key, (weak, _) in list(self._known.items()):
                if weak() is None:
                    self._known.pop(key, None)
            self._most = max(_FEW, 2 * len(self._known))
        self._known[address(made)] = ref(made), what

    def get(self, made: object) -> Any:
        """What was noted of this very object; None: nothing."""
        found = self._known.get(address(made))
        return found[1] if found is not None and found[0]() is made else None
