"""What an instrument knows about a library's object, for as long as the object lives.

Readers and writers seldom know their path once they exist.  The object must not
be kept alive or modified, and no callback may run when it dies, because that
would be a call of ours in the middle of the program.  So the map holds weak
references by id, and drops the dead ones as it grows.
"""

from __future__ import annotations

from _weakref import ref

from pyio_trace import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FEW = 256

#: id(), but without the audit event that a hook of the program would receive.
address: Callable[[object], int] = id if native.core is None else native.core.address


class WeakIdMap:
    """Values by object; a value must not keep its object alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], Any]] = {}
        self._limit = _FEW

    def set(self, key: object, value: object) -> None:
        """Store the value of an object."""
        if len(self._known) >= self._limit:
            for number, (weak, _) in list(self._known.items()):
                if weak() is None:
                    self._known.pop(number, None)
            self._limit = max(_FEW, 2 * len(self._known))
        self._known[address(key)] = ref(key), value

    def get(self, key: object) -> Any:
        """The value of this very object; None if there is none."""
        found = self._known.get(address(key))
        return found[1] if found is not None and found[0]() is key else None
