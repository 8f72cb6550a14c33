"""The names of files in fingerprints: the same on every run, worker and machine.

Folders that differ from run to run get a name in braces, digits and random parts
become ``*``, and files that are not the project's are left out.
"""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Mapping

#: Folders of the system, whose files are those of the machine and not of the test.
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/cache", "/var/lib")
#: Names that tools keep their own files under.
_TOOLS = frozenset((
    "__pycache__", ".git", ".hg", ".hypothesis", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".tox",
))  # fmt: skip
_TEMPORARY, _HOME = "{tempdir}", "{home}"
#: What tempfile, uuid and hashes make of a name, and numbers.
_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?<![0-9A-Za-z])[0-9a-f]{8,}(?![0-9A-Za-z])"
    r"|(?<=tmp)[a-z0-9_]{8}(?![a-z0-9_])"
    r"|\d+"
)
#: Digits of a suffix such as .h5 stay.
_SUFFIX = re.compile(r"\.(?:[A-Za-z][A-Za-z0-9]{0,5}|7z)$")
_DELETED = " (deleted)"


class Names:
    """Gives files their names.  folders: path of a folder -> its name; None: what is in it is left out."""

    def __init__(self, folders: Mapping[str, str | None], ignored: Iterable[Callable[[str], bool]] = ()) -> None:
        self._folders = sorted(folders.items(), key=lambda one: -len(one[0]))
        self._ignored = list(ignored)

    def of(self, path: str, tmp_path: str | None = None) -> str | None:
        """The name of a file in the fingerprint of a test with this tmp_path; None: it is left out."""
        path = path.removesuffix(_DELETED)
        if any(matches(path) for matches in self._ignored):
            return None
        if tmp_path is not None and (rest := below(path, tmp_path)) is not None:
            return rolled_up("{tmp}", rest)
        for folder, name in self._folders:
            if (rest := below(path, folder)) is not None:
                return None if name is None else _in_folder(name, rest)
        return rolled_up("", path.lstrip("/"), "/")


def folders_of(root: str, basetemp: str) -> dict[str, str | None]:
    """The folders of this process, for Names: the project's root, pytest's folder for temporary files, and others."""
    folders: dict[str, str | None] = dict.fromkeys(_SYSTEM)
    python = {sys.prefix, sys.base_prefix, site.getusersitepackages(), *site.getsitepackages()}
    python |= set(sysconfig.get_paths().values())
    known: list[tuple[str, str | None]] = [(os.path.expanduser("~"), _HOME), (tempfile.gettempdir(), _TEMPORARY)]
    known += [(path, None) for path in python]
    known += [(root, ""), (basetemp, "{basetemp}")]
    for path, name in known:
        for spelling in {os.path.abspath(path), os.path.realpath(path)} - {"/"}:
            folders[spelling] = name
    return folders


def below(path: str, folder: str) -> str | None:
    """The rest of a path below a folder, "" for the folder itself; None: it is not there."""
    if path == folder:
        return ""
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def rolled_up(start: str, rest: str, separator: str = "") -> str:
    """A name with ``*`` for what differs from run to run, below the folder `start`."""
    parts = [_rolled_up_part(part) for part in rest.split("/") if part]
    return separator + "/".join([start, *parts] if start else parts) or "."


def _rolled_up_part(part: str) -> str:
    suffix = _SUFFIX.search(part)
    stem, end = (part[: suffix.start()], suffix[0]) if suffix else (part, "")
    return re.sub(r"\*+", "*", _RANDOM.sub("*", stem)) + end


def _in_folder(name: str, rest: str) -> str | None:
    parts = rest.split("/")
    if not _TOOLS.isdisjoint(parts) or parts[-1].startswith(".coverage") or parts[-1].endswith(".pyc"):
        return None
    if name == _HOME and parts[0].startswith("."):  # settings and caches of programs
        return None
    if name == _TEMPORARY and rest:  # a name that tempfile has made up, whatever its prefix
        suffix = _SUFFIX.search(parts[0])
        return rolled_up(f"{name}/*{suffix[0] if suffix else ''}", "/".join(parts[1:]))
    return rolled_up(name, rest)
