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


#: Characters without a picture that str.isprintable() passes: joiners, fillers and blanks of some scripts, and
#: selectors of variants.  Any number of them may hide between two letters, and say something to a program.
_UNSEEN = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
#: What CI services take for commands: ``::error::`` where a line begins, perhaps after it was wrapped at a blank, and
#: ``##[error]``, ``##vso[...]`` and the like anywhere.
_COMMAND = r"(?:^|(?<=\s))::(?=[A-Za-z-]+(?:\s.*?)?::)|##(?=\w*\[)"


def is_plain(text: str) -> bool:
    """Whether a reader sees each character of a text where it stands: none is a control character, invisible, changes
    the direction, is a blank other than the usual one, or half a surrogate pair.

    What Unicode joins emoji with counts too: a reader cannot tell it from other invisible characters.
    """
    return text.isprintable() and (text.isascii() or not any(one in _UNSEEN for one in text))


def printable(text: str) -> str:
    """The text as one line whose characters are all seen (is_plain), which names from a traced program may not be, and
    without commands to a CI service that shows it.

    They are escaped as in a Python string: ``\\x1b``, ``\\n``, ``\\u200b``, ``\\x3a:``.
    """
    plain = is_plain(text)
    if plain and "::" not in text and "##" not in text:
        return text
    import re  # not at the top: traced programs wait for this module's import

    if not plain:
        text = "".join(one if is_plain(one) else one.encode("unicode_escape").decode() for one in text)
    return re.sub(_COMMAND, lambda found: f"\\x{ord(found[0][0]):x}{found[0][1]}", text)


def say(text: str) -> None:
    """Write a line to stderr, bypassing its buffers.  In a traced program use native.say()."""
    try:
        os.write(2, f"pyio-trace: {printable(text)}\n".encode(errors="backslashreplace"))
    except OSError:
        pass  # stderr is closed or the disk is full: there is nowhere to report it
