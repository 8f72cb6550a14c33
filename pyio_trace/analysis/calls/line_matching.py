"""Matches the source lines of two runs between which the source has changed.

Lines are matched within a function.  Those with the same number are the same if
all lines of the function are; otherwise, the lines of both runs are aligned in
their order by the operations that they made.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from difflib import SequenceMatcher

#: A site (file, line, function), and the operations that it made.
Site = tuple[str, int, str]
Operations = frozenset[str]

#: Lines of a function beyond which only those with the same number are matched: aligning takes quadratic time.
_MANY = 400


def parse_site(text: str, folder: str | None) -> Site:
    """The parts of file:line:function, the file without `folder`, if that is given."""
    parts = text.rsplit(":", 2)
    file, line, function = parts if len(parts) == 3 else (text, "", "")
    if folder is not None and file.startswith(folder + "/"):
        file = "." + file[len(folder) :]
    number = int(line) if line.isascii() and line.isdigit() and len(line) < 10 else 0
    return file, number, function


def match_lines(before: Mapping[Site, Operations], after: Mapping[Site, Operations]) -> dict[Site, Site]:
    """The line of `after` for each one of `before` that has one there."""
    moved = _moved_files({site[0] for site in before}, {site[0] for site in after})
    old, new = _by_function(before, moved), _by_function(after, {})
    result: dict[Site, Site] = {}
    for function, lines in old.items():
        result.update(_aligned(lines, new.get(function, []), before, after))
    return result


def _by_function(sites: Mapping[Site, Operations], moved: Mapping[str, str]) -> dict[tuple[str, str], list[Site]]:
    found: dict[tuple[str, str], list[Site]] = defaultdict(list)
    for site in sorted(sites):
        found[moved.get(site[0], site[0]), site[2]].append(site)
    return found


def _moved_files(before: set[str], after: set[str]) -> dict[str, str]:
    """Files that have another folder in `after`: those whose name is in no other file there, nor here."""
    gone, come = before - after, after - before
    names = Counter(_name(file) for file in gone), Counter(_name(file) for file in come)
    new = {_name(file): file for file in come}
    return {file: new[_name(file)] for file in gone if names[0][_name(file)] == names[1][_name(file)] == 1}


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _aligned(
    old: list[Site], new: list[Site], before: Mapping[Site, Operations], after: Mapping[Site, Operations]
) -> dict[Site, Site]:
    numbers = {site[1]: site for site in new}
    if [site[1] for site in old] == [site[1] for site in new] or len(old) > _MANY or len(new) > _MANY:
        return {site: numbers[site[1]] for site in old if site[1] in numbers}
    result: dict[Site, Site] = {}
    matcher = SequenceMatcher(None, [before[site] for site in old], [after[site] for site in new], autojunk=False)
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag == "equal":
            result.update(zip(old[first:last], new[new_first:new_last], strict=True))
        elif tag == "replace":
            left = new[new_first:new_last]
            for site in old[first:last]:  # in order, those that have an operation in common
                partner = next((n for n, other in enumerate(left) if before[site] & after[other]), None)
                if partner is not None:
                    result[site] = left[partner]
                    left = left[partner + 1 :]
    return result
