"""The paths of files that a program gives to a library, without running the program's code.

A file object may be of any class: it may open its file on first use, have a name
that is a property with side effects, or count its calls.  So only objects of
exactly the C types of the standard library, and of pathlib's types, are asked.
Of others, only the type is inspected.  csrc/ext/watch/extract.c does the same.
"""

from __future__ import annotations

import sys
from _io import BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOWrapper

from pyio_trace.capture.instrumentation.exception_origin import is_the_programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BUFFERED = (BufferedReader, BufferedWriter, BufferedRandom)


def path_of(given: Any) -> str | bytes | None:
    """The path of a path object or of one of Python's own file objects; None if it has none, or is of another type."""
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
    except (AttributeError, ValueError) as problem:  # detached
        if is_the_programs(problem):
            raise
        return None


def plain(text: str) -> str:
    """The text of a str, also of a subclass, whose methods may be the program's."""
    return str.__str__(text)


def is_path(given: object) -> bool:
    """Whether a library would accept it as a path; classes of the program may be, too."""
    return isinstance(given, (str, bytes)) or has(type(given), "__fspath__")


def may_have(given: object, method: str) -> bool:
    """Whether its class has that method, or __getattr__, as proxies do."""
    return has(type(given), method) or has(type(given), "__getattr__")


def attribute(thing: object, name: str) -> object:
    """The attribute in the object's own dictionary, without descriptors of its class; None if there is none."""
    try:
        return object.__getattribute__(thing, "__dict__").get(name)
    except AttributeError as problem:  # its class has slots
        if is_the_programs(problem):
            raise
        return None


def has(kind: type, name: str) -> bool:
    """Looks into the classes' dictionaries, since a metaclass could run code of the program."""
    return any(name in type.__getattribute__(base, "__dict__") for base in type.__getattribute__(kind, "__mro__"))
