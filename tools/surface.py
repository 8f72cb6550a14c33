"""Checks that every function of libc is hooked, or is not for a stated reason; writes docs/reference/surface.md.

    python -m tools.surface                write docs/reference/surface.md
    python -m tools.surface --learn LIBC   add the names of another libc.so to the lists beside this file

The lists are under version control, so that check and page do not depend on the machine.  tools/libc/glibc.txt has each
name with the version of glibc that introduced it (PRIVATE: for other parts of glibc only).  It comes from the symbol
versions of the newest glibc at hand, which has all old ones too.  tools/libc/musl.txt has the names of musl.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "csrc" / "core"
LISTS = Path(__file__).resolve().parent / "libc"
PAGE = ROOT / "docs" / "reference" / "surface.md"

#: The libcs on the page: glibc by version, and musl.
GLIBCS = ("2.17", "2.36", "2.43")
MUSL = "1.2.3"

#: A name that contains one of these may be about files.  No pattern covers it: it needs a decision of its own.
FILE_WORDS = re.compile(
    "open|close|read|write|file|dir|stat|link|seek|sync|trunc|rename|mount|chmod|chown|access|xattr|splice|mmap|aio|fts|"
    "ftw|glob|temp|tmp|print|scan|puts|flush|pipe|dup|fd|exec|spawn|fork|mkn|path|utime|fcntl|ioctl|lockf|flock"
)
#: The least number of literal letters in a pattern.
LEAST_LITERAL = 3

_HOOK = re.compile(r"\b(?:HOOK|THROUGH)\((\w+), (\w+)(?:, (\w+))?\)")
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Group:
    """Functions that are not hooked, for one and the same reason."""

    title: str
    why: str
    files: bool  #: whether they are about files at all
    names: frozenset[str]
    patterns: tuple[str, ...]

    def covers(self, name: str) -> bool:
        """Whether a function is one of them."""
        return name in self.names or (not sounds_like_files(name) and any(fnmatchcase(name, p) for p in self.patterns))


def sounds_like_files(name: str) -> bool:
    """Whether a name contains a word that names of file functions have.  `thread` does not count as `read`."""
    return FILE_WORDS.search(name.replace("thread", "")) is not None


def hooked() -> dict[str, str]:
    """Hooked names, from hooks.def: name -> family."""
    text = (CORE / "hooks" / "hooks.def").read_text().split("#endif", 1)[1]  # past the explanation
    return {name: family for name, family, _ in _HOOK.findall(text)}


def groups() -> list[Group]:
    """The groups of not_hooked.toml."""
    raw = tomllib.loads((CORE / "hooks" / "not_hooked.toml").read_text())
    return [
        Group(
            each["title"], each["why"], each.get("files", False),
            frozenset(itertools.chain.from_iterable(expand(name) for name in each.get("names", []))),
            tuple(each.get("patterns", [])),
        )
        for each in raw["group"]
    ]  # fmt: skip


def expand(name: str) -> Iterator[str]:
    """Expands braces: `a{b,c}d` gives `abd` and `acd`."""
    match = _BRACES.search(name)
    if match is None:
        yield name
        return
    for part in match[1].split(","):
        yield from expand(name[: match.start()] + part + name[match.end() :])


# ---- the lists ------------------------------------------------------------------------


def version(text: str) -> tuple[int, ...]:
    """A version as numbers, which compare as versions do: 2.4 < 2.17."""
    return tuple(int(part) for part in text.split("."))


def glibc() -> dict[str, str]:
    """The names of glibc: name -> the version that introduced it, or PRIVATE."""
    return dict(line.split() for line in (LISTS / "glibc.txt").read_text().splitlines())


def musl() -> set[str]:
    """The names of musl."""
    return set((LISTS / "musl.txt").read_text().split())


def glibc_at(wanted: str) -> set[str]:
    """The names that programs can use with that version of glibc: all but the private ones."""
    return {name for name, since in glibc().items() if since != "PRIVATE" and version(since) <= version(wanted)}


def exported(libc: Path) -> dict[str, str]:
    """The functions of a libc.so: name -> version ("" for none), or PRIVATE where only glibc itself may use it."""
    listing = subprocess.run(["nm", "-D", "--defined-only", str(libc)], check=True, capture_output=True, text=True)
    found: dict[str, str] = {}
    for line in listing.stdout.splitlines():
        _, kind, symbol = line.split()
        if kind not in "TtWwi":
            continue
        name, _, since = symbol.partition("@")
        since = since.lstrip("@").removeprefix("GLIBC_")
        known = found.get(name)
        if known is None or known == "PRIVATE" or (since != "PRIVATE" and version(since) < version(known)):
            found[name] = since
    return found


def learn(libc: Path) -> None:
    """Adds the names of a libc to the lists."""
    found = exported(libc)
    if any(found.values()):
        names = glibc()
        for name, since in found.items():
            known = names.get(name, "PRIVATE")
            names[name] = since if known == "PRIVATE" else min(known, since, key=_private_last)
        (LISTS / "glibc.txt").write_text("".join(f"{name} {names[name]}\n" for name in sorted(names)))
    else:
        (LISTS / "musl.txt").write_text("".join(f"{name}\n" for name in sorted(musl() | found.keys())))


def _private_last(since: str) -> tuple[int, ...]:
    return (1000,) if since == "PRIVATE" else version(since)


# ---- the check --------------------------------------------------------------------------


def unaccounted(names: Iterable[str]) -> list[str]:
    """The names that are neither hooked nor in a group."""
    known, reasons = hooked(), groups()
    return sorted(name for name in names if name not in known and not any(group.covers(name) for group in reasons))


def problems() -> list[str]:
    """What is wrong with the tables; empty if nothing is wrong."""
    known, reasons, listed = hooked(), groups(), glibc()
    public = {name for name, since in listed.items() if since != "PRIVATE"} | musl()
    named = [name for group in reasons for name in group.names]
    found = [f"{name}: neither hooked nor given a reason" for name in unaccounted(public)]
    found += [f"{name}: hooked, but no libc has it" for name in sorted(known.keys() - public)]
    found += [f"{name}: given a reason, but no libc has it" for name in sorted(set(named) - public)]
    found += [f"{name}: hooked, and given a reason" for name in sorted(known) if any(g.covers(name) for g in reasons)]
    found += [f"{name}: given two reasons" for name in sorted({name for name in named if named.count(name) > 1})]
    for group in reasons:
        for pattern in group.patterns:
            if len(re.sub(r"[^A-Za-z0-9_]", "", pattern)) < LEAST_LITERAL or pattern.strip("*_") == "":
                found.append(f"{pattern}: a pattern this broad says nothing")
            elif not any(fnmatchcase(name, pattern) for name in public):
                found.append(f"{pattern}: a pattern that covers nothing")
    return found


# ---- the page ---------------------------------------------------------------------------------


def page() -> str:
    """The text of docs/reference/surface.md."""
    known, reasons = hooked(), groups()
    tables = {f"glibc {each}": glibc_at(each) for each in GLIBCS} | {f"musl {MUSL}": musl()}
    public = set().union(*tables.values())
    private = sum(since == "PRIVATE" for since in glibc().values())
    lines = [
        "# The surface",
        "",
        "Every function that libc exports is hooked, or is not for a reason. `python -m tools.surface` writes this",
        "page from `hooks.def` and `not_hooked.toml` in `csrc/core/hooks`; a test keeps it current, and fails for a",
        "function of the machine's own libc that neither of the two knows.",
        "",
        "| libc | functions | hooked | with a reason | unaccounted |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for title, names in tables.items():
        left = len(unaccounted(names))
        on = len(names & known.keys())
        lines.append(f"| {title} | {len(names)} | {on} | {len(names) - on - left} | {left} |")
    lines += [
        "",
        f"The {len(known)} hooked names are spellings of {len(set(known.values()))} functions. glibc's lists are those",
        "of the symbol versions up to that release, so they have the old names too (`__xstat`) that programs of its",
        f"time still call; {private} further names are `GLIBC_PRIVATE`, for other parts of glibc: no program has them.",
        "",
        "## Hooked",
        "",
    ]
    lines += _wrapped(sorted(known))
    for title, about_files in (("## Not hooked, about files", True), ("## Not hooked, not about files", False)):
        lines += ["", title]
        for group in reasons:
            if group.files == about_files:
                covered = [f"{p} ({sum(_by_pattern(group, name, p) for name in public)})" for p in group.patterns]
                lines += ["", f"**{group.title}**: {group.why}.", "", *_wrapped(sorted(group.names) + covered)]
    return "\n".join(lines) + "\n"


def _by_pattern(group: Group, name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and not sounds_like_files(name) and name not in group.names


def _wrapped(words: list[str]) -> list[str]:
    """Lines of code spans, 118 columns wide."""
    lines = [""]
    for word in words:
        span = f"`{word}`"
        if len(lines[-1]) + len(span) > 117:
            lines.append("")
        lines[-1] += f" {span}" if lines[-1] else span
    return lines


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.surface", description="Accounts for libc's functions.")
    parser.add_argument("--learn", type=Path, metavar="LIBC", help="add the names of this libc.so to the lists")
    options = parser.parse_args()
    if options.learn:
        learn(options.learn)
    wrong = problems()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    PAGE.write_text(page())
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
