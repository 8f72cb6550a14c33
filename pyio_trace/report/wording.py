"""How source lines, paths and waits are written in reports."""

from __future__ import annotations

from pyio_trace.units import counted, number, shortened

_CHILD = "a child process"
#: What the threads in these calls wait for.
_WAITED_FOR = {
    "DataLoader.__next__": "a batch", "wait": _CHILD, "waitpid": _CHILD, "wait3": _CHILD, "wait4": _CHILD,
    "waitid": _CHILD, "pclose": "a command", "system": "a command", "Queue.get": "a queue",
    "open": "the other end of a FIFO", "openat": "the other end of a FIFO", "read": "data in a FIFO",
    "write": "room in a FIFO", "ray.get": "Ray's tasks", "Pool.wait": "a pool", "Pool.next": "a pool",
}  # fmt: skip
_DASK = ("dask.", "Client.", "Future.")


def short_line(site: str) -> str:
    """FILE:LINE of file:line:function, without the folder; other texts as they are."""
    place, colon, _ = site.rpartition(":")
    return place.rpartition("/")[2] if colon and place.rpartition(":")[2].isdigit() else site


def none_recorded(selected: bool, missing: bool) -> str:
    """What is said of a log without operations.  missing: so are processes."""
    if selected:
        return "No operation matches the selection."
    return "No operation was recorded" + (" in the processes that are in the log." if missing else ".")


def relative(path: str, folder: str) -> str:
    """The path as seen from a folder, if it lies in it; "./" for the folder itself."""
    if folder and path == folder.rstrip("/") + "/":
        return "./"
    inside = path[len(folder) :].lstrip("/") if folder and path.startswith(folder.rstrip("/") + "/") else ""
    return inside or path


def fitting(path: str, width: int) -> str:
    """The path; if it is longer than `width`, its last names: ".../c/0/*", "*.parquet"."""
    names = path.rstrip("/").split("/")
    ends = (".../" + "/".join(names[at:]) for at in range(1, len(names)))
    return next((text for text in (path, *ends, names[-1]) if len(text) <= width), shortened(path, width))


def waits(op: str, count: int) -> str:
    """ "3 waits for a child process", "1 to_csv waits for Dask"."""
    known = _WAITED_FOR.get(op)
    if known is not None:
        return f"{counted(count, 'wait')} for {known}"
    return f"{number(count)} {op.rpartition('.')[2]} {'waits' if count == 1 else 'wait'} for {waited_for(op)}"


def waited_for(op: str) -> str:
    """What a thread in this call waits for."""
    return _WAITED_FOR.get(op) or ("Dask" if op.startswith(_DASK) else "others")
