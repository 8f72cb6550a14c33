"""What a user is told when something cannot be done.

Every error that reaches a user is a PyioTraceError: one line that says what
is wrong and what to do, and a slug that names its entry in docs/messages.md.
The command line prints the line and exits with status 2.
"""

from __future__ import annotations

import os


class PyioTraceError(Exception):
    """An error of the user's situation, not of the program.

    slug: the entry in docs/messages.md, such as ``"not-a-log"``.
    """

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug

    def __str__(self) -> str:
        return printable(f"{self.args[0]} [{self.slug}]")


class LogError(PyioTraceError):
    """A log cannot be read: not there, not one, of another version, broken."""


class ConfigError(PyioTraceError):
    """An option, environment variable or pyproject setting is wrong."""


class CaptureError(PyioTraceError):
    """Tracing cannot start here (no log directory, no native core, ...)."""


#: Control characters, line breaks, marks that turn the direction of text round, halves of characters.
UNPRINTABLE = "[\\x00-\\x1f\\x7f-\\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


def printable(text: str) -> str:
    """One line that does nothing to a terminal but print: names in a log are the traced program's, not ours.

    What would do more is written as in a Python string: an escape as ``\\x1b``, a line break as ``\\n``.
    """
    if text.isprintable():
        return text
    import re  # not at the top: a traced program waits for this module

    return re.sub(UNPRINTABLE, lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str) -> None:
    """A line of ours on the traced program's stderr, past its buffers."""
    try:
        os.write(2, f"pyio-trace: {text}\n".encode(errors="backslashreplace"))
    except OSError:
        pass  # stderr is closed, or a full disk: nobody to tell
