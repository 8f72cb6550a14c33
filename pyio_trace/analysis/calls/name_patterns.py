"""Patterns of file names: names in a folder that differ only in digits become one, with * for the digits.

So do folders, if there are many: the chunks of an array, or years and months.
Many names with one ending beneath a folder become one, whatever they are:
"docs/**/*.md".

The work is on distinct paths, never on operations.  It is plain Python because
importing pyarrow.compute takes as long as 40,000 paths do here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

#: From so many different names with the same ending on, those of a folder become one: "*.jpg"; so do those beneath it.
MANY_ENDINGS = 16
#: From so many folders on that differ in digits only, they become one, too.
MANY_FOLDERS = 4
_DIGITS = re.compile(r"\d+")
_DELETED = " (deleted)"
#: Role -> what its paths look like; the first that matches counts; the rest are "data".
_ROLES = {
    "shared-memory": re.compile(r"/dev/shm/|/memfd:|/SYSV"),
    "device": re.compile(r"/(dev|proc|sys)(/|$)|(pipe|socket|anon_inode):"),
    "temporary": re.compile(
        r".*/#\d+ \(deleted\)$|/tmp/(.*/)?tmp[a-z0-9_]{8}(/|$)|/tmp/pymp-|.*/dask-scratch-space(/|$)"
    ),
    "library": re.compile(r".*/(site|dist)-packages(/|$)|.*/lib/python\d[^/]*(/|$)|.*\.pyc$|/(usr|etc|lib|lib64)(/|$)"),
}


def folder_of(path: str) -> str:
    """The folder of a path, with its last slash."""
    return path[: path.rfind("/") + 1]


def last_names(path: str) -> str:
    """The last name of a path; as many as it takes until one of them has a letter: "c/*/*"."""
    names = path.rsplit("/")
    first = next((at for at in range(len(names) - 1, 0, -1) if any(map(str.isalpha, names[at]))), 0)
    return "/".join(names[first:])


def role_of(path: str) -> str:
    """ "data", or "temporary", "shared-memory", "library" (of Python and of the system), "device" """
    return next((role for role, pattern in _ROLES.items() if pattern.match(path)), "data")


def patterns(paths: Iterable[str]) -> dict[str, str]:
    """Path -> its pattern; a path that no other one is like is its own."""
    by_digits = {path: _without_digits(path) for path in paths}
    alike = Counter(by_digits.values())
    first = {path: pattern if alike[pattern] > 1 else path for path, pattern in by_digits.items()}
    endings = Counter(_ending(pattern) for pattern in set(first.values()))
    result = {}
    for path, pattern in first.items():
        ending = _ending(pattern)
        result[path] = ending if endings[ending] >= MANY_ENDINGS else pattern
    for merged in (_alike_folders, _trees):
        others = merged(set(result.values()))
        result = {path: others.get(pattern, pattern) for path, pattern in result.items()}
    return result


def _alike_folders(found: Iterable[str]) -> dict[str, str]:
    """Pattern -> the pattern of many folders that have it."""
    groups = defaultdict(list)
    for pattern in found:
        groups[_DIGITS.sub("*", pattern)].append(pattern)
    result = {}
    for patterns_ in groups.values():
        if len({folder_of(pattern) for pattern in patterns_}) >= MANY_FOLDERS:
            levels = zip(*(pattern.split("/") for pattern in patterns_), strict=True)
            merged = "/".join(names[0] if len(set(names)) == 1 else _DIGITS.sub("*", names[0]) for names in levels)
            result.update(dict.fromkeys(patterns_, merged))
    return result


def _trees(found: Iterable[str]) -> dict[str, str]:
    """Pattern -> the pattern of the deepest folder beneath which many have its ending and role."""
    groups = defaultdict(list)
    for pattern in found:
        groups[role_of(pattern), _ending(pattern).rpartition("/")[2]].append(pattern)
    result = {}
    for (_, ending), patterns_ in groups.items():
        if len(patterns_) < MANY_ENDINGS:
            continue
        beneath: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))  # by depth and folder
        for pattern in patterns_:
            folder = folder_of(pattern)
            beneath[folder.count("/")][folder].append(pattern)
        for depth in range(max(beneath), 1, -1):  # not what only the root folder has in common
            for folder, members in beneath[depth].items():
                if len(members) >= MANY_ENDINGS:
                    result.update(dict.fromkeys(members, f"{folder}**/{ending}"))
                else:
                    beneath[depth - 1][folder_of(folder[:-1])] += members
    return result


def _without_digits(path: str) -> str:
    folder, slash, name = path.removesuffix(_DELETED).rpartition("/")
    return folder + slash + _DIGITS.sub("*", name)


def _ending(pattern: str) -> str:
    """The folder, and * for the name up to its last dot."""
    folder, slash, name = pattern.rpartition("/")
    return f"{folder}{slash}*{name[name.rfind('.') :] if '.' in name[1:] else ''}"
