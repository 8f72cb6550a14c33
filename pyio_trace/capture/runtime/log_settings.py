"""The settings in a live log's header, for processes that ignore their environment (python -E, -I).

The run's owner has written them there.  They are trusted only if the log
belongs to this user and nobody else can write to it.  Even then a process of the
run that has dropped its privileges since may have written over them.  So they
say what is recorded, and how: they name no module to import, and no file but the
log's own pair.
"""

from __future__ import annotations

import os
import stat

from pyio_trace.config import DOCTOR_VARIABLE, FINAL_VARIABLE, FOUND_VARIABLE
from pyio_trace.existing_files import LOG_MAGIC
from pyio_trace.log_constants import ID_SHIFT, LOG_HEADER_SIZE, LOG_VERSION
from pyio_trace.output import packed_name

MOST = 64 << 10  # bytes: PT_SETTINGS_MOST
# From csrc/core/format/log_format.h, as in log/layout.py, which needs numpy; tests/capture/test_privilege.py compares.
VERSION_AT, SETTINGS_AT = 8, 1616
STRING, STRING_SIZE = 1, 16


def read(live: str) -> dict[str, str]:
    """The variables in a live log.  Raises OSError; ValueError if they are missing or cannot be trusted."""
    named = os.lstat(live)
    if not stat.S_ISREG(named.st_mode):  # before opening it: opening a device can have effects
        raise ValueError("not a regular file")
    descriptor = os.open(live, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not os.path.samestat(named, status) or not is_only_ours(status):
            raise ValueError("another user may have written it")
        known = _decode(_settings(descriptor, status.st_size))
    finally:
        os.close(descriptor)
    for name in (DOCTOR_VARIABLE, FOUND_VARIABLE):
        known.pop(name, None)
    if known.get(FINAL_VARIABLE) != packed_name(live):
        known.pop(FINAL_VARIABLE, None)
    return known


def is_only_ours(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and nobody else can write there."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _settings(descriptor: int, size: int) -> bytes:
    """The string that the header refers to.  Each number is checked against the file's size."""
    header = os.pread(descriptor, LOG_HEADER_SIZE, 0)
    if len(header) < LOG_HEADER_SIZE or not header.startswith(LOG_MAGIC) or _number(header, VERSION_AT) != LOG_VERSION:
        raise ValueError("not a live log of this version")
    at = _number(header, SETTINGS_AT) << ID_SHIFT
    if not 0 < at <= size - STRING_SIZE:
        raise ValueError("it has no settings")
    string = os.pread(descriptor, STRING_SIZE, at)  # kind, size, base, length
    length = _number(string, 12)
    if _number(string, 0) != STRING or length > min(MOST, size - at - STRING_SIZE):
        raise ValueError("not a string")
    return os.pread(descriptor, length, at + STRING_SIZE)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _decode(settings: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(word).partition("=") for word in settings.split(b"\0"))
    return {name: value for name, _, value in pairs}
