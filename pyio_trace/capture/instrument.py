"""What an instrument is: which functions of one library are watched, and what a
call of each is about.

An instrument is a file NAME.py in capture/instruments/, or a module that a
distribution names in the entry-point group ``pyio_trace.instruments``; in it,
``instrument = Instrument(...)``.  capture/engine.py reads it when the library
is imported, and csrc/ext/watched.c does what it says.  Instruments are read
inside traced programs: nothing here, or in them, may import anything that the
program has not.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    Details = Callable[..., Mapping[str, object] | None]

#: What a call does: a call of the library's, one that reads or writes data, one of the layers below.
KINDS = ("call", "read", "write", "hdf5", "mpiio")  # kinds[] in csrc/ext/watched.c
#: What a call's bytes are: nothing, the result itself, its length, its nbytes.
MOVED = (None, "result", "len", "nbytes")  # enum pt_moved in csrc/ext/target.h
MARKS = 3  # enum pt_hand_over in csrc/ext/context.h, whose others are in threads.py


class Target:
    """One function that is watched: each call is a span.

    where: ``"function"`` or ``"Class.method"`` in `module` (default: the
    instrument's own).  name: of the operation in the log; default: `where`, a function with its
    library's name before it (numpy.load, Dataset.__getitem__).
    path: the argument that has the path, by its name, or ``path(*args,
    **kwargs)``; paths may be str, bytes, pathlib's, descriptors, Python's own
    file objects, or a list of one (others are not asked); NotImplemented from the function: this call
    is about no file, and in no row; (path, details): both in one question.
    position: of that argument where the function is not Python's own and cannot
    be asked.
    details: ``details(*args, **kwargs)``, a dict for `detail`, before the call
    (what stays the same can be rendered once: native.core.details_members, under the key "");
    after: ``after(result, *args, **kwargs)``, likewise once it has returned.
    moved: bytes that the call moved: "result", "len", "nbytes" (see MOVED) or
    ``moved(result, *args, **kwargs)``, None where there are none.
    kind: one of KINDS; what "read" and "write" move counts as asked for by the
    program where they are outermost.  steps: name of the steps of the iterator
    that it returns, each a span of its own; `moved` then says whether their
    nbytes count: None where not.  optional: it is no fault if this version has none.
    hands_over: MARKS, where the call is no operation but the beginning or the end of one that is
    longer (a task's): details and after (with None, if it raised) are called all the same, and may
    open and close a native.core.Span; what they return is not looked at.

    The functions given here run inside the program: they must be quick, do no
    I/O, change nothing, and may fail (then the details are missing, once with a
    warning).
    """

    __slots__ = (
        "after", "details", "hands_over", "kind", "module", "moved", "name", "optional", "path", "position", "steps",
        "where",
    )  # fmt: skip

    def __init__(
        self,
        where: str,
        *,
        module: str | None = None,
        name: str | None = None,
        path: str | Callable[..., object] | None = None,
        position: int | None = None,
        details: Details | None = None,
        after: Details | None = None,
        moved: str | Callable[..., int | None] | None = None,
        kind: str = "call",
        optional: bool = False,
        hands_over: int = 0,
        steps: str | None = None,
    ) -> None:
        self.where = where
        self.module = module
        self.name = name
        self.path = path
        self.position = position
        self.details = details
        self.after = after
        self.moved = moved
        self.kind = kind
        self.optional = optional
        self.hands_over = hands_over
        self.steps = steps


class Instrument:
    """One library.  module: its name as one imports it; targets: what is watched;
    minimum, below: the versions that are supported, such as "3.0", as [minimum,
    below); version: asks the module for it, None where the library is the
    standard library's; arm: called with the module once it is imported, for what
    targets cannot say, and disarm to undo that.
    """

    __slots__ = ("arm", "below", "disarm", "minimum", "module", "targets", "version")

    def __init__(
        self,
        module: str,
        targets: Iterable[Target],
        *,
        minimum: str | None = None,
        below: str | None = None,
        version: Callable[[ModuleType], str | None] = lambda module: getattr(module, "__version__", None),
        arm: Callable[[ModuleType], object] | None = None,
        disarm: Callable[[], object] | None = None,
    ) -> None:
        self.module = module
        self.targets = tuple(targets)
        self.minimum = minimum
        self.below = below
        self.version = version
        self.arm = arm
        self.disarm = disarm

    def unsupported(self, module: ModuleType) -> str | None:
        """Why this version of the library is not supported; None: it is."""
        version = self.version(module)
        if version is None or (self.minimum is None and self.below is None):
            return None
        if self.minimum is not None and _key(version) < _key(self.minimum):
            return f"{self.module} {version} is older than {self.minimum}"
        if self.below is not None and _key(version) >= _key(self.below):
            return f"{self.module} {version} is newer than this instrument knows (below {self.below})"
        return None


def _key(version: str) -> tuple[int, ...]:
    """Of "3.16.0rc1": (3, 16, 0)."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
