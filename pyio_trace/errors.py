"""What a user is told when something cannot be done.

Every error that reaches a user is a PyioTraceError: one line that says what
is wrong and what to do, and a slug that names its entry in docs/messages.md.
The command line prints the line and exits with status 2.
"""

from __future__ import annotations


class PyioTraceError(Exception):
    """An error of the user's situation, not of the program.

    slug: the entry in docs/messages.md, such as ``"not-a-log"``.
    """

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug

    def __str__(self) -> str:
        return f"{self.args[0]} [{self.slug}]"


class LogError(PyioTraceError):
    """A log cannot be read: not there, not one, of another version, broken."""


class ConfigError(PyioTraceError):
    """An option, environment variable or pyproject setting is wrong."""


class CaptureError(PyioTraceError):
    """Tracing cannot start here (no log directory, no native core, ...)."""
