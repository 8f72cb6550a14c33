"""Lines of strace, parsed: one system call each, with what strace -y says of descriptors.

Strings in a line may hold anything that the program wrote, cut off or escaped, so
a line is parsed from both ends: the name and first arguments from the front, the
result from the back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pyio_trace.light_dataclass import dataclass

#: A line that begins so: perhaps the process (without -ff), the moment (-ttt), a call, an end or a signal.
BEGINS = re.compile(r"(?:\[pid +(\d+)\] |(\d+) +)?(\d{9,11}\.\d{1,9}) (?:(\w+)\(|\+\+\+ |--- |<\.\.\. (\w+) resumed>)")
_RESULT = re.compile(
    r"\) += (-?\d+|0x[0-9a-f]+|\?)(?=[ <]|$)(?:<((?:[^<>\\]|\\.)*)>(?:\(deleted\))?)?(?: (E[A-Z0-9]+) )?"
)
_DURATION = re.compile(r"<(\d{1,9}\.\d{1,9})>$")
_DESCRIPTOR = re.compile(r"(AT_FDCWD|-?\d+)(?:<((?:[^<>\\]|\\.)*)>(?:\(deleted\))?)?")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\.\.\.)?')
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|(.))")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}
#: Longest line that is parsed; strace shows 32 characters of each string unless it is told otherwise.
LONGEST = 1 << 20
#: How often a result is looked for further left, as what follows it may have brackets too.
_TRIES = 8
_CHUNK = 1 << 16


@dataclass
class Line:
    """One system call.  time, duration: ns (duration -1: not known); arguments: as text; result: None where there is
    none; path: of the descriptor that it returned; error: the name of the error, "" for none."""

    time: int
    name: str
    arguments: str
    result: int | None
    path: str
    error: str
    duration: int


def parse(line: str, at: int, time: int, name: str) -> Line | None:
    """The call on a line whose arguments begin at `at`; None: the line makes no sense."""
    duration = _DURATION.search(line, max(len(line) - 32, 0))
    place = len(line)
    for _ in range(_TRIES):
        place = line.rfind(")", at - 1, place)
        if place < 0:
            break
        found = _RESULT.match(line, place)
        if found is not None:
            return Line(
                time, name, line[at:place], _number(found[1]), unescaped(found[2] or ""), found[3] or "",
                -1 if duration is None else nanoseconds(duration[1]),
            )  # fmt: skip
    return None


def descriptor(arguments: str, at: int = 0) -> tuple[int, str, int]:
    """(number, path, where it ends) of the descriptor that the arguments begin with; -1 and "" for none."""
    found = _DESCRIPTOR.match(arguments, at)
    if found is None:
        return -1, "", at
    number = -1 if found[1] == "AT_FDCWD" else _number(found[1]) or 0
    return number, unescaped(found[2] or "").removesuffix(" (deleted)"), found.end()


def strings(arguments: str) -> list[str]:
    """The texts in quotation marks, unescaped."""
    return [unescaped(one[1]) for one in _strings(arguments)]


def without_strings(arguments: str) -> str:
    """The arguments with empty strings."""
    parts, at = [], 0
    for one in _strings(arguments):
        parts.append(arguments[at : one.start()])
        at = one.end()
    return '""'.join([*parts, arguments[at:]])


def _strings(arguments: str) -> Iterator[re.Match[str]]:
    """The quoted strings; what follows one that has no end is none, so that each character is looked at once."""
    found = None
    while (at := arguments.find('"', found.end() if found else 0)) >= 0:
        found = _STRING.match(arguments, at)
        if found is None:
            return
        yield found


def numbers_at_end(arguments: str, most: int) -> list[int]:
    """The last arguments that are numbers, in their order."""
    found: list[int] = []
    for word in reversed(arguments.rsplit(", ", most)[-most:]):
        number = _number(word) if len(found) < most else None
        if number is None:
            break
        found.insert(0, number)
    return found


def unescaped(text: str) -> str:
    """A text as it was; bytes that are no UTF-8 are shown as escapes."""
    if "\\" not in text:
        return text
    raw = _ESCAPE.sub(_character, text)
    return raw.encode("latin-1", "replace").decode("utf-8", "backslashreplace")


def _character(found: re.Match[str]) -> str:
    octal, digits, other = found.groups()
    if octal is not None or digits is not None:
        return chr((int(octal, 8) if octal is not None else int(digits, 16)) & 0xFF)
    return _NAMED.get(other, other)


def nanoseconds(seconds: str) -> int:
    """A decimal number of seconds, exactly."""
    whole, _, part = seconds.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0")[:9])


def _number(text: str) -> int | None:
    try:
        found = int(text, 0)
    except ValueError:
        return None
    return found if abs(found) < 1 << 63 else None


def lines_of(path: Path, lost: list[int]) -> Iterator[str]:
    """The lines of a file, which is open only while a piece of it is read: a run may have thousands.  lost[0] grows by
    the bytes of lines that are too long."""
    at, rest, too_long = 0, b"", False
    while True:
        with path.open("rb") as file:
            file.seek(at)
            piece = file.read(_CHUNK)
        if not piece:
            break
        at += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if too_long:
                lost[0] += len(line)
                too_long = False
            else:
                yield line.decode("utf-8", "backslashreplace")
        if len(rest) > LONGEST:
            lost[0] += len(rest)
            rest, too_long = b"", True
    if rest and not too_long:
        yield rest.decode("utf-8", "backslashreplace")
