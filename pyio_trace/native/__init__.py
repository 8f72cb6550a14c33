"""The compiled core, or the reason why there is none.

Only this module imports it, so reading logs works where the core does not
(another platform, a source tree).
"""

import os

from pyio_trace import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from pyio_trace.native import _capture as core

    reason: str | None = None
else:
    core: "ModuleType | None"
    reason: str | None = None
    try:
        from pyio_trace.native import _capture as core
    except ImportError as problem:
        core = None
        reason = f"the compiled core cannot be loaded ({problem})"


_environ = os.environ  #: The program may put another mapping in its place, for a while.


def package_folder() -> str:
    """The folder of the package pyio_trace."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def program(name: str) -> str:
    """The path of a program that lies beside the core."""
    return os.path.join(os.path.dirname(os.path.abspath((core and core.__file__) or "")), name)


def say(text: str) -> None:
    """Write a line to the traced program's stderr, bypassing its buffers.

    If descriptor 2 is another file than it was at the start, the text goes into
    the process table instead: that file may hold the program's data.
    """
    if core is not None:
        core.say(errors.printable(text))
    else:
        errors.say(text)


def set_variable(name: str, value: "str | None") -> None:
    """Set a variable of this process, or remove it (None), without the audit events of os.environ's own methods.

    A program may refuse those, and would keep our variables.
    """
    words = [os.fsencode(word) for word in (name, value) if word is not None]
    if core is not None:
        core.set_variable(*words)
    for environ in {id(one): one for one in (_environ, os.environ)}.values():
        known = getattr(environ, "_data", None)  # by bytes
        if type(known) is dict:
            _put(known, *words)
        else:
            _put(environ, *(word for word in (name, value) if word is not None))


def _put(mapping: "Any", name: object, value: object = None) -> None:
    if value is None:
        mapping.pop(name, None)
    else:
        mapping[name] = value


def available() -> bool:
    """Whether tracing can start in this interpreter; if not, `reason` says why."""
    return reason is None
