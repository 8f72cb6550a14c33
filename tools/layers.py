"""Whether the folders of csrc are layers: `python -m tools.layers` names each line that looks upwards.

The order is `csrc/layers.txt`.  Two things are read in each file, without a compiler: what it includes, and which
functions and variables it names that another file defines.  Exit status 1 if a file includes or names what stands in
a higher folder, or lies in a folder that is not in the list.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CSRC = Path(__file__).resolve().parent.parent / "csrc"
SUFFIXES = (".c", ".h", ".def")

_COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_NOT_DEFINED_HERE = re.compile(r"\b(?:static|extern|typedef|_Static_assert)\b")
_TAG = re.compile(r"\b(struct|union|enum)(\s+)\w+")
_HOOK = re.compile(r"\bPT_HOOK_DECLARE\([^,]+,\s*(\w+)")


@dataclass(frozen=True)
class Breach:
    """A line that looks upwards."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        """Return it as compilers do."""
        return f"{self.path}:{self.line}: {self.what}"


def order(csrc: Path) -> dict[str, int]:
    """Each folder's floor, from the list."""
    lines = (csrc / "layers.txt").read_text().splitlines()
    folders = [line.split()[0] for line in lines if line and not line.startswith("#")]
    return {folder: floor for floor, folder in enumerate(folders)}


def blank(text: str) -> str:
    """Return C without comments, and with empty strings; lines stay where they are."""
    return _COMMENT_OR_STRING.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def definitions(text: str) -> set[str]:
    """Functions and variables that other files can name, of C without comments."""
    names = {f"real_{family}" for family in _HOOK.findall(text)}
    for head, has_body in _top_level(_DIRECTIVE.sub("", text)):
        head = re.sub(r"__attribute__\s*\(\(.*?\)\)(?=[^)]|$)", " ", head)
        if _NOT_DEFINED_HERE.search(head):
            continue
        flat, calls = _flatten(head)
        if has_body and calls:
            names.add(calls[-1])
        elif not calls:
            names.update(found[1] for found in re.finditer(r"(\w+)\s*(?:\[[^]]*\]\s*)*(?:,|$)", flat.strip()))
    return {name for name in names if not name[0].isdigit()} - {"struct", "union", "enum"}


def _top_level(text: str) -> Iterator[tuple[str, bool]]:
    """Each declaration outside of braces: what stands before its braces or value, and whether it has a body."""
    depth, start, head = 0, 0, None
    for found in re.finditer(r"[{};=]", text):
        at, sign = found.start(), found[0]
        if sign == "{":
            if depth == 0 and head is None:
                head = (text[start:at], True)
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0 and head and head[1] and "(" in head[0]:
                yield head
                start, head = at + 1, None
        elif depth == 0 and sign == "=" and head is None:
            head = (text[start:at], False)
        elif depth == 0 and sign == ";":
            yield head or (text[start:at], False)
            start, head = at + 1, None


def _flatten(head: str) -> tuple[str, list[str]]:
    """What stands outside of parentheses, and the names that parentheses follow."""
    flat, calls, depth = "", [], 0
    for found in re.finditer(r"\(|\)|[^()]+", head):
        if found[0] == "(":
            words = _WORD.findall(flat)
            if depth == 0 and words:
                calls.append(words[-1])
            depth += 1
        elif found[0] == ")":
            depth -= 1
        elif depth == 0:
            flat += found[0]
    return flat, calls


def breaches(csrc: Path) -> list[Breach]:
    """All lines that look upwards."""
    floors = order(csrc)
    files = sorted(path for path in csrc.rglob("*") if path.suffix in SUFFIXES)
    folders = {path: _folder(path.relative_to(csrc), floors) for path in files}
    found = [Breach(path, 1, "its folder is not in layers.txt") for path in files if folders[path] is None]
    texts = {path: _TAG.sub(r"\1\2", blank(path.read_text())) for path in files if folders[path] is not None}
    homes = {name: path for path, text in texts.items() if path.suffix == ".c" for name in definitions(text)}
    for path, text in texts.items():
        here = folders[path]
        assert here is not None
        for line, what, target in [*_includes(path, csrc), *_names(path, text, homes)]:
            there = folders.get(target)
            if there is not None and floors[there] > floors[here]:
                found.append(Breach(path, line, f"{here} {what} of {there}, which stands above it"))
    return sorted(found, key=lambda each: (each.path, each.line))


def _folder(path: Path, floors: dict[str, int]) -> str | None:
    name = path.parent.as_posix()
    return name if name in floors else None


def _includes(path: Path, csrc: Path) -> Iterator[tuple[int, str, Path]]:
    text = path.read_text()
    for found in _INCLUDE.finditer(text):
        for root in (path.parent, csrc, csrc / "core", csrc / "ext"):
            if (root / found[1]).is_file():
                yield text.count("\n", 0, found.start()) + 1, f"includes {found[1]}", root / found[1]
                break


def _names(path: Path, text: str, homes: dict[str, Path]) -> Iterator[tuple[int, str, Path]]:
    for found in _WORD.finditer(text):
        home = homes.get(found[0])
        if home is not None and home != path:
            yield text.count("\n", 0, found.start()) + 1, f"names {found[0]}", home


def main() -> int:
    """Print what looks upwards."""
    found = breaches(CSRC)
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
