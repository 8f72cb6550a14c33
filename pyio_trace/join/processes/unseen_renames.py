"""Finds files that were renamed by calls that bypassed the hooks.

Checkpoints are often written under a temporary name.  If the rename was not seen, the log has only that name.  On the
machine where the log was made, the file system tells the rest: the name is gone, though the log has no removal or
rename of it, and the file has another name, which was opened later or is in the same folder.  Such renames are inferred
and marked as such.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Any

from pyio_trace.join.references.file_table import Files

#: Limits of the search: written files, folders, entries of a folder.
_MOST_FILES = 4096
_MOST_FOLDERS = 64
_MOST_ENTRIES = 4096
#: What the kernel's names of files without a name end with: their inodes soon belong to other files.
_NAMELESS = " (deleted)"

#: (device, inode)
Identity = tuple[int, int]


def find_renames(files: Files, since: int) -> list[dict[str, Any]]:
    """One dict a file: file (its number), path (the name it was written under), to (the name it has), how: "reopened"
    under that name, or "found" there.  since: ns since the epoch; a file last changed before is another one."""
    folders: dict[str, dict[int, str]] = {}
    found = []
    for number, identity, names in _written(files):
        for name in names:
            if name in files.changed or _identity(name, 0) == identity:
                continue
            to, how = next((other for other in names if _identity(other, since) == identity), None), "reopened"
            if to is None:
                to, how = _in_folder(os.path.dirname(name), identity, since, folders), "found"
            if to is not None:
                found.append({"file": number, "path": name, "to": to, "how": how})
    return found


def _written(files: Files) -> Iterator[tuple[int, Identity, list[str]]]:
    """The files that were opened for writing: number, identity, the names they were opened by."""
    names: dict[tuple[int, Identity], dict[str, None]] = {}
    for number, device, inode, path in zip(*(column.tolist() for column in files.written), strict=True):
        if len(names) == _MOST_FILES and (number, (device, inode)) not in names:
            break
        names.setdefault((number, (device, inode)), {})[files.paths.texts[path]] = None
    for (number, identity), paths in names.items():
        yield number, identity, [path for path in paths if path.startswith("/") and not path.endswith(_NAMELESS)]


def _identity(path: str, since: int) -> Identity | None:
    """None: there is no such file, or it was not written during the run."""
    try:
        found = os.lstat(path) if "\\x" not in path else _lstat_escaped(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_mtime_ns < since:
        return None
    return found.st_dev, found.st_ino


def _lstat_escaped(path: str) -> os.stat_result:
    """The status of a file whose path has \\x escapes: of the bytes they stand for, or of those very characters."""
    try:
        return os.lstat(re.sub(rb"\\x([0-9a-f]{2})", lambda byte: bytes.fromhex(byte[1].decode()), path.encode()))
    except FileNotFoundError:
        return os.lstat(path)


def _in_folder(folder: str, identity: Identity, since: int, folders: dict[str, dict[int, str]]) -> str | None:
    if folder not in folders:
        folders[folder] = _entries(folder) if len(folders) < _MOST_FOLDERS else {}
    path = folders[folder].get(identity[1])
    return path if path is not None and _identity(path, since) == identity else None


def _entries(folder: str) -> dict[int, str]:
    """Inode -> path; empty for a folder that cannot be read, and incomplete for a very large one."""
    entries: dict[int, str] = {}
    try:
        with os.scandir(folder) as found:
            for entry in found:
                if len(entries) == _MOST_ENTRIES:
                    break
                entries[entry.inode()] = os.fsencode(entry.path).decode("utf-8", "backslashreplace")
    except (OSError, ValueError):
        pass
    return entries
