"""The description of one library: which functions to watch, and what each call does.

An instrument is a file NAME.py in capture/instruments/, or a module that a
distribution names in the entry-point group ``pyio_trace.instruments``.  It
contains ``instrument = Instrument(...)``.  instrument_registry.py reads it when the library
is imported, and csrc/ext/watch carries it out.  Since that happens inside
the traced program, neither this module nor an instrument may import anything
that the program has not imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    Details = Callable[..., Mapping[str, object] | None]

#: What a call is: a request to storage, of any sort or one that reads or writes data; one of a lower layer; a wait for
#: another thread or process; a container, which only groups; the start of what others wait for.  csrc/ext/watch/watch.c
#: has the same order.
KINDS = ("call", "read", "write", "hdf5", "mpiio", "wait", "container", "starting")
#: How many bytes a call moved: none, its result, the result's length, the result's nbytes.
MOVED = (None, "result", "len", "nbytes")  # enum pt_bytes_source in csrc/ext/watch/target.h
MARKS = 3  # enum pt_role in csrc/ext/watch/target.h, whose others are in instrument_registry.py


class Target:
    """One function to watch; each call of it becomes a span.

    where: ``"function"`` or ``"Class.method"`` in `module`.
    module: default: the instrument's.
    name: the operation's name in the log.  Default: `where`, and for a plain
    function the library's name before it (numpy.load, Dataset.__getitem__).
    path: the name of the argument with the path, or ``path(*args, **kwargs)``.
    A path may be str, bytes, a pathlib path, a descriptor, one of Python's own
    file objects, or a list of one; other objects are left alone.  The function
    may return (path, details), or NotImplemented for a call that concerns no
    file: it then gets no row.
    position: the index of that argument, where the function is not written in
    Python and cannot be inspected.
    details: ``details(*args, **kwargs)``, called before the call; returns a dict
    for the column `detail`.  Text that stays the same can be rendered once, with
    native.core.details_members, and returned under the key "".
    after: ``after(result, *args, **kwargs)``, likewise, called after the call.
    moved: the bytes that the call moved: "result", "len" or "nbytes" (see MOVED),
    or ``moved(result, *args, **kwargs)``, which may return None.
    kind: one of KINDS.  The bytes of an outermost "read" or "write" count as
    requested by the program.  A "wait" that has a container beneath it in its own
    process counts as a container.
    steps: the name for the steps of the iterator that the call returns; each step
    is a span.  `moved` then says whether the nbytes of the steps count.
    only_if: an attribute of the object whose method it is, a number of bytes.  A
    call while that is missing or below 64 KiB gets no row, and costs next to nothing.
    optional: a version of the library without this function is not an error.
    hands_over: MARKS, if the call is not an operation but the beginning or end of
    a longer one, such as a task.  Then `details` and `after` (with None if the
    call raised) are called too and may begin and end a native.core.Span, which is
    a container; their results are ignored.

    These functions run inside the program.  They must be quick, do no I/O and
    change nothing.  They may fail; the details are then missing, and a warning is
    printed once.
    """

    __slots__ = (
        "after", "details", "hands_over", "kind", "module", "moved", "name", "only_if", "optional", "path", "position",
        "steps", "where",
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
        only_if: str | None = None,
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
        self.only_if = only_if
        self.optional = optional
        self.hands_over = hands_over
        self.steps = steps


class Instrument:
    """One library.

    module: its name in an import statement.  targets: the functions to watch.
    minimum, below: the supported versions, such as "3.0": from minimum up to, but
    without, below.  version: returns the module's version; None for modules of
    the standard library.  arm: called with the module after its import, for what
    targets cannot express.  disarm: undoes that.
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
        """Why this version of the library is not supported; None if it is."""
        version = self.version(module)
        if version is None or (self.minimum is None and self.below is None):
            return None
        if self.minimum is not None and _key(version) < _key(self.minimum):
            return f"{self.module} {version} is older than {self.minimum}"
        if self.below is not None and _key(version) >= _key(self.below):
            return f"{self.module} {version} is newer than this instrument knows (below {self.below})"
        return None


def _key(version: str) -> tuple[int, ...]:
    """ "3.16.0rc1" as (3, 16, 0)."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
