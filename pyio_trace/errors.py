"""Errors for the user, and text that is safe on a terminal.

Every error that reaches a user is a PyioTraceError: one line that says what is
wrong and what to do, and a slug, which is its heading in docs/reference/messages.md.  The
command line prints the line and exits with status 2.
"""

import os


class PyioTraceError(Exception):
    """Something that the user can change is wrong.

    slug: the heading in docs/reference/messages.md, such as ``"not-a-log"``.
    """

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug

    def __reduce__(self) -> "tuple[type[PyioTraceError], tuple[str, str]]":
        return type(self), (self.slug, self.args[0])  # pickling would forget the slug

    def __str__(self) -> str:
        return printable(f"{self.args[0]} [{self.slug}]")


class LogError(PyioTraceError):
    """A log cannot be read: it is missing, damaged, not a log, or of another version."""


class ConfigError(PyioTraceError):
    """An option, environment variable or pyproject setting is wrong."""


class CaptureError(PyioTraceError):
    """Tracing cannot start here (no log directory, no native core, ...)."""


#: Control characters, line breaks, marks that change the direction of text, lone surrogates.
UNPRINTABLE = "[\\x00-\\x1f\\x7f-\\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
#: What CI services take for commands: ``::error::`` where a line begins, perhaps after it was wrapped at a blank, and
#: ``##[error]``, ``##vso[...]`` and the like anywhere.
_COMMAND = r"(?:^|(?<=\s))::(?=[A-Za-z-]+(?:\s.*?)?::)|##(?=\w*\[)"


def printable(text: str) -> str:
    """The text as one line without control characters, which names from a traced program may contain, and without
    commands to a CI service that shows it.

    They are escaped as in a Python string: ``\\x1b``, ``\\n``, ``\\x3a:``.
    """
    if text.isprintable() and "::" not in text and "##" not in text:
        return text
    import re  # not at the top: traced programs wait for this module's import

    text = re.sub(UNPRINTABLE, lambda found: found[0].encode("unicode_escape").decode(), text)
    return re.sub(_COMMAND, lambda found: f"\\x{ord(found[0][0]):x}{found[0][1]}", text)


def say(text: str) -> None:
    """Write a line to stderr, bypassing its buffers.  In a traced program use native.say()."""
    try:
        os.write(2, f"pyio-trace: {printable(text)}\n".encode(errors="backslashreplace"))
    except OSError:
        pass  # stderr is closed or the disk is full: there is nowhere to report it
