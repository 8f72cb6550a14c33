"""Call stacks and sites as text, each worked out once.

The site of an operation is the innermost line of the program (own_code.py), which
is what a person can change.  If the thread's stack has none and the thread works
for another, the site is the innermost such line in the stacks that submitted the
work.  Failing that, it is the innermost line of an installed package on the
thread's own stack: what its threads do with the standard library is its doing.
Only if there is none, it is generated code or a line of the standard library.
It is never a line of pyio_trace.

A forked process begins within the stack of its parent.  The frames that were on
it then, and have not gone on to another line since, say nothing about what the
process does: its stacks are cut there.  Nor is the command by which
multiprocessing starts an interpreter a line of the program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.references.own_code import (
    COMMAND,
    COMMANDS_FILE,
    INSTALLED,
    NOBODY,
    OURS,
    OWN,
    STANDARD,
    STARTED,
    WRAPPER,
    OwnCode,
)
from pyio_trace.join.references.sent_code import DYNAMIC, SentCode
from pyio_trace.log.heap import Heap, ObjectNumbers
from pyio_trace.log.sorting import find

_MACHINERY = re.compile("<frozen (?:importlib|zipimport|site)")
#: What imports, or searches for a module, if it is called from outside the machinery; csrc/ext/frames/frames.c has the
#: same list.  Other functions (get_data, set_data, get_source) work for their caller.
BEGIN_IMPORT = frozenset((
    "_find_and_load", "_gcd_import", "__import__", "_handle_fromlist", "_load", "_load_unlocked", "_exec",
    "exec_module", "load_module", "create_module", "module_from_spec", "_find_spec", "find_spec", "find_module",
    "path_hook_for_FileFinder", "_path_importer_cache", "_path_hooks",
))  # fmt: skip
#: What `python -c` runs in a process that multiprocessing starts: the files that define it, and the functions.
_STARTER = re.compile(r"/multiprocess(?:ing)?/(?:spawn|forkserver|resource_tracker)\.py$")
_STARTERS = ("spawn_main", "main")
#: Kinds of lines that are the site before any other, wherever they are; and those that are on the thread's own stack.
_PROGRAMS, _OTHERS = (OWN, STARTED, COMMAND), (WRAPPER, INSTALLED, NOBODY, STANDARD)
_IMPORTING = "<frozen importlib._bootstrap"
#: Only forged logs have longer names.
_LONGEST_NAME = 4096
_LONGEST_STACK = 1 << 18

Frame = tuple[int, int]  # id of the code, line


class _Code(NamedTuple):
    """A code object, as it appears in frames."""

    file: str
    function: str
    kind: int
    machinery: bool
    begins_import: bool
    foreign: bool


def in_import_machinery(file: str) -> bool:
    """Whether a source file is part of Python's import machinery."""
    return _MACHINERY.match(file) is not None


def begins_import(file: str, function: str) -> bool:
    """Whether a function is one of the import machinery that imports if it is called from outside."""
    return in_import_machinery(file) and function.rpartition(".")[2] in BEGIN_IMPORT


def is_in_import(stack: str, own: OwnCode) -> bool:
    """Whether the innermost import of a folded stack was still loading foreign code when the call was made."""
    if _IMPORTING not in stack:
        return False
    for site in reversed(stack.split(";")):
        file, _, rest = site.partition(">:")
        if file.startswith(_IMPORTING) and begins_import(file + ">", rest.partition(":")[2]):
            return True
        if not _is_foreign(site, own.is_own(site)):
            return False
    return False


def _is_foreign(file: str, own: bool) -> bool:
    """Whether code runs on behalf of an import of a library: it is not the program's, or in no file."""
    return file.startswith("<") or not own


class _CutStacks:
    """The stacks that a forked process shares outer frames with, cut: sorted object numbers; by the same order, site,
    submitted, in_import and stack, as in Stacks."""

    def __init__(self, frames: list[tuple[int, int]]) -> None:
        """frames: the stack at which the process was forked."""
        self.frames = frames
        #: by id: frames that are left, site, submitted, in_import
        self.found: dict[int, tuple[int, int, bool, bool]] = {}
        self.numbers = self.site = self.stack = np.empty(0, np.int64)
        self.submitted = self.in_import = np.empty(0, np.bool_)


class Stacks:
    """Tables by object number: site (index into sites, or -1), submitted (the site is a submitter's), imported (the
    import machinery runs), in_import (an import of foreign code is under way), and stack (index into folded, or -1).

    sites, folded: the distinct texts.  stack and folded take the most time and are made at first use.  cut_in()
    changes values of site, submitted, in_import or stack to those of forked processes.
    """

    def __init__(
        self,
        heap: Heap,
        numbers: ObjectNumbers,
        used: NDArray[np.int64],
        sent: SentCode,
        own: OwnCode,
        forks: Sequence[int] = (),
        *,
        sampled: bool = False,
    ) -> None:
        """own: tells the lines of the log apart; forks: ids of the stacks at which processes were forked; sampled: the
        stacks are a sampler's, whose ids of code are not those of the process itself."""
        self._heap, self._sent, self._own, self._sampled = heap, sent, own, sampled
        self._cut = [_CutStacks((heap.frames(identity) or ([], False))[0]) for identity in forks]
        self._used = used.tolist()
        self._at = numbers.of(used.astype(np.uint32))
        self._count = numbers.count
        self._texts: dict[int, str] = {}
        self._codes: dict[int, _Code] = {}
        sites: dict[str, int] = {}
        self._submitters: dict[int, list[Frame]] = {}
        found = [self._site(identity, sites) for identity in self._used]
        sites_found, submitted, in_import, imported = zip(*found, strict=True) if found else ([], [], [], [])
        self.site = self._table(sites_found)
        self.submitted, self.in_import, self.imported = map(self._truths, (submitted, in_import, imported))
        self.sites = list(sites)
        for cut in self._cut:
            ids = np.array(list(cut.found), np.uint32)
            order = np.argsort(numbers.of(ids), kind="stable")
            cut.numbers = numbers.of(ids)[order]
            values = [cut.found[identity] for identity in ids[order].tolist()]
            cut.site = np.array([one[1] for one in values], np.int64)
            cut.submitted, cut.in_import = (np.array([one[at] for one in values], np.bool_) for at in (2, 3))

    def cut_in(self, name: str, values: NDArray[Any], numbers: NDArray[np.int64], fork: NDArray[np.int8]) -> None:
        """Changes values, which stand for these numbers in the table `name`, where the process was forked.  fork: index
        of the stack among those given, -1 for no forked process."""
        for number, cut in enumerate(self._cut):
            rows = np.flatnonzero(fork == number)
            if len(rows) and len(cut.numbers):
                at, shared = find(cut.numbers, numbers[rows])
                values[rows[shared]] = getattr(cut, name)[at[shared]]

    @property
    def stack(self) -> NDArray[np.int32]:
        return self._stacks[0]

    @property
    def folded(self) -> list[str]:
        return self._stacks[1]

    @cached_property
    def _stacks(self) -> tuple[NDArray[np.int32], list[str]]:
        folded: dict[str, int] = {}
        table = self._table([self._folded(identity, folded) for identity in self._used])
        by_number = dict(zip(self._at.tolist(), self._used, strict=True)) if self._cut else {}
        for cut in self._cut:
            ids = [by_number[number] for number in cut.numbers.tolist()]
            cut.stack = np.array([self._folded(one, folded, cut.found[one][0]) for one in ids], np.int64)
        return table, list(folded)

    def _table(self, indexes: Sequence[int]) -> NDArray[np.int32]:
        table = np.full(self._count, -1, np.int32)
        table[self._at] = indexes
        return table

    def _truths(self, values: Sequence[bool]) -> NDArray[np.bool_]:
        table = np.zeros(self._count, np.bool_)
        table[self._at] = values
        return table

    def _site(self, identity: int, sites: dict[str, int]) -> tuple[int, bool, bool, bool]:
        """(site, submitted, in_import, imported) of one stack."""
        found = self._heap.frames(identity)
        if found is None or not found[0]:
            return -1, False, False, False
        frames, submitters = found[0], self._heap.submitters(identity)
        for cut in self._cut:
            own = self._own_part(frames, cut.frames)
            if len(own) < len(frames):
                line = self._line(own, submitters, cut.frames, sites)
                cut.found[identity] = (len(own), *line, self._is_in_import(own))
        line = self._line(frames, submitters, [], sites)
        return *line, self._is_in_import(frames), self._is_import(frames)

    def _is_import(self, frames: list[Frame]) -> bool:
        """Whether the import machinery made the call, on behalf of an import or of the interpreter's start.

        Its frames are then innermost, but for helpers such as os.path.  See is_import() in csrc/ext/frames/frames.c.
        """
        outermost = None
        for identity, _ in frames:
            code = self._code(identity)
            if code.machinery:
                outermost = code
            elif outermost is not None:
                return outermost.begins_import or code.file.startswith("<frozen runpy")
            elif not code.file.startswith("<frozen "):
                return False
        return outermost is not None

    def _is_in_import(self, frames: list[Frame]) -> bool:
        """Whether there is no code of the program within the innermost import; see is_in_import()."""
        for identity, _ in frames:
            code = self._code(identity)
            if code.begins_import and code.file.startswith(_IMPORTING):
                return True
            if not code.foreign:
                return False
        return False

    def _line(
        self, frames: list[Frame], submitters: list[int], fork: list[Frame], sites: dict[str, int]
    ) -> tuple[int, bool]:
        """(site, submitted) of a stack.  fork: the stack at which the process was forked."""
        own = self._by_kind(frames)
        submitting = [self._submitting_frames(one, fork) for one in submitters]
        ways = [(by_kind.get(kind), by_kind is not own) for kind in _PROGRAMS for by_kind in (own, *submitting)]
        ways += [(own.get(kind), False) for kind in _OTHERS]
        line, submitted = next((way for way in ways if way[0] is not None), (None, False))
        site = "" if line is None else self._frame(*line)
        if not site or (site not in sites and not self._heap.room_for("sites", len(site))):
            return -1, False
        return sites.setdefault(site, len(sites)), submitted

    def _own_part(self, frames: list[Frame], fork: list[Frame]) -> list[Frame]:
        """The frames that were not on the stack when the process was forked, or have gone on since."""
        shared = 0
        while shared < min(len(frames), len(fork)) and self._same(frames[~shared], fork[~shared]):
            shared += 1
        return frames[: len(frames) - shared]

    def _same(self, frame: Frame, other: Frame) -> bool:
        if frame == other or not self._sampled:
            return frame == other
        return frame[1] == other[1] and self._code(frame[0]) == self._code(other[0])

    def _by_kind(self, frames: list[Frame]) -> dict[int, Frame]:
        """The innermost frame of each kind.  Ends at the first one of the kind that wins over all others."""
        found: dict[int, Frame] = {}
        for at, frame in enumerate(frames):
            code = self._code(frame[0])
            kind = code.kind
            if code.file == COMMANDS_FILE:
                starts = at > 0 and self._starts(frames[at - 1])
                kind = OURS if starts else self._own.kind(code.file, code.function, at == len(frames) - 1)
            found.setdefault(kind, frame)
            if kind == _PROGRAMS[0]:
                break
        return found

    def _starts(self, frame: Frame) -> bool:
        """Whether multiprocessing's code for a new interpreter runs there."""
        code = self._code(frame[0])
        return code.function in _STARTERS and _STARTER.search(code.file) is not None

    def _submitting_frames(self, submitter: int, fork: list[Frame]) -> dict[int, Frame]:
        """The innermost frame of each kind in a stack that submitted work."""
        if submitter not in self._submitters:
            found = self._heap.frames(submitter)
            self._submitters[submitter] = [] if found is None else found[0]
        return self._by_kind(self._own_part(self._submitters[submitter], fork))

    def _folded(self, identity: int, folded: dict[str, int], most: int | None = None) -> int:
        """The index of the text of one stack's innermost frames in folded; most: how many, None: all."""
        found = self._heap.frames(identity)
        if found is None or not found[0][:most]:
            return -1
        frames, truncated = found[0][:most], found[1] and most is None
        texts: list[str] = []
        length = 0
        for frame in frames:
            texts.append(self._frame(*frame))
            length += len(texts[-1]) + 1
            if length > _LONGEST_STACK:
                truncated = True
                break
        if truncated:
            texts.append("...")
        if not self._heap.room_for("stacks", length):
            return -1
        return folded.setdefault(";".join(reversed(texts)), len(folded))

    def _frame(self, identity: int, line: int) -> str:
        code = self._code(identity)
        return f"{code.file}:{line}:{code.function}"

    def _code(self, identity: int) -> _Code:
        if identity not in self._codes:
            found = self._heap.code(identity)
            file, function = ("?", "?") if found is None else (self._text(found[0]), self._text(found[1]))
            origin = self._sent.file_of(identity, function) if file == DYNAMIC else 0
            file = self._text(origin) if origin else file
            kind = self._own.kind(file, function)
            self._codes[identity] = _Code(
                file, function, kind, in_import_machinery(file), begins_import(file, function),
                _is_foreign(file, kind <= COMMAND),
            )  # fmt: skip
        return self._codes[identity]

    def _text(self, identity: int) -> str:
        if identity not in self._texts:
            text = self._heap.text(identity)
            # A ; in a name would look like the separator of two frames.
            self._texts[identity] = "?" if text is None else text[:_LONGEST_NAME].replace(";", "\\x3b")
        return self._texts[identity]
