"""Files and paths that a program gives to a library, asked for no more than can be known without its own code.

A file object may be anybody's: one that opens its file when it is first asked
for anything, one whose name is a property with side effects, one that counts
its calls.  So only types of the standard library that are written in C, and
pathlib's, are asked, and only if they are exactly these; of others, the type is
looked at and not the object.  csrc/ext/about.c does likewise.
"""

from __future__ import annotations

import sys
from _io import BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOWrapper

from pyio_trace.capture.faults import is_the_programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BUFFERED = (BufferedReader, BufferedWriter, BufferedRandom)


def path_of(given: Any) -> str | bytes | None:
    """Of a path, or of Python's own file object; None: it has none, or would have to be asked."""
    if isinstance(given, (str, bytes)):
        return given
    if _is_pathlibs(type(given)):
        return str(given)
    name = _name_of(given)
    return name if type(name) in (str, bytes) else None


def _is_pathlibs(kind: type) -> bool:
    module = sys.modules.get("pathlib")
    return module is not None and kind in (module.PosixPath, module.PurePosixPath)


def _name_of(file: Any) -> Any:
    try:
        if type(file) is TextIOWrapper:
            file = file.buffer
        if type(file) in _BUFFERED:
            file = file.raw
        return file.name if type(file) is FileIO else None
    except (AttributeError, ValueError) as problem:  # it has been detached
        if is_the_programs(problem):
            raise
        return None


def is_path(given: object) -> bool:
    """Whether a library would take it for a path: the program's own kinds too."""
    return isinstance(given, (str, bytes)) or _has(type(given), "__fspath__")


def may_have(given: object, method: str) -> bool:
    """Whether its class has that method, or would answer for any (a proxy's)."""
    return _has(type(given), method) or _has(type(given), "__getattr__")


def attribute(thing: object, name: str) -> object:
    """What it has of its own under that name, whatever its class makes of that; None: nothing."""
    try:
        return object.__getattribute__(thing, "__dict__").get(name)
    except AttributeError as problem:  # its class has slots
        if is_the_programs(problem):
            raise
        return None


def _has(kind: type, name: str) -> bool:
    """What a metaclass would answer is the program's as well."""
    return any(name in type.__getattribute__(base, "__dict__") for base in type.__getattribute__(kind, "__mro__"))
