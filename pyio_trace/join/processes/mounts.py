"""The file systems that are mounted on the machine that wrote a log.

The mount table is the machine's present one, so it counts only for a log written on
this machine since it last started.  A packed log keeps the table of the time of
packing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

_MOUNTS, _BOOT = "/proc/self/mountinfo", "/proc/sys/kernel/random/boot_id"
_LARGEST = 1 << 20  # bytes
#: Mounts that are kept; those of containers may be very many.
_MOST = 1000
_ESCAPED = re.compile(r"\\([0-7]{3})")
#: Types that have no data of programs.
_NO_DATA = (
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "sysfs", "tracefs",
)  # fmt: skip
#: Types that several hosts share: a path leads to the same file on all of them.
SHARED = frozenset(
    ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "cifs", "smb3", "pvfs2", "afs", "panfs", "wekafs",
     "orangefs", "ocfs2", "gfs2", "fuse.dfuse", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.juicefs",
     "fuse.mfs", "fuse.s3fs", "fuse.gcsfuse")
)  # fmt: skip
#: Options that are kept, as the kernel has them: those that say how far locks reach.  Others may name users or hosts.
OPTIONS = frozenset(
    ("nolock", "local_lock=all", "local_lock=flock", "local_lock=posix", "local_lock=none", "localflock", "localflocks",
     "nobrl", "flock=local")
)  # fmt: skip


def mounts_of(host: str, boot: str) -> dict[str, str] | None:
    """Mount point (without a last slash) -> type of file system, such as "ext4"; None: the log is not of this machine
    since its last start.  host, boot: as in the log."""
    return parsed(_table()) if _is_here(host, boot) else None


def options_of(host: str, boot: str) -> dict[str, str] | None:
    """Mount point -> those of its options that say how far locks reach, such as "local_lock=all", with commas; only
    points that have some."""
    return parsed_options(_table()) if _is_here(host, boot) else None


def type_of(path: str, types: Mapping[str, str]) -> str:
    """The type of file system that an absolute path is on; "": not known.  types: see mounts_of()."""
    folder = os.path.normpath(path) if path.startswith("/") else ""
    while folder.strip("/") and folder not in types:
        folder = folder.rpartition("/")[0]
    return types.get(folder, "")


def parsed(mountinfo: str) -> dict[str, str]:
    """The text of /proc/self/mountinfo as a table of types."""
    return {point: kind for point, (kind, _) in _seen(mountinfo).items()}


def parsed_options(mountinfo: str) -> dict[str, str]:
    """The same, as a table of options."""
    chosen = {
        point: ",".join(sorted(OPTIONS & {*options.split(",")})) for point, (_, options) in _seen(mountinfo).items()
    }
    return {point: options for point, options in chosen.items() if options}


def _seen(mountinfo: str) -> dict[str, tuple[str, str]]:
    """Mount point -> (type, options of the file system), of what is not mounted over."""
    found: dict[str, tuple[str, str]] = {}
    for point, kind, options in _mounts(mountinfo):
        if point in found or len(found) < _MOST:
            found[point] = kind, options  # the last one mounted there is the one that is seen
    return found


def _mounts(mountinfo: str) -> Iterator[tuple[str, str, str]]:
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, described = before.split(" "), after.split(" ")
        if dash and len(fields) > 4 and described[0] not in _NO_DATA:
            point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4]).rstrip("/")
            yield point, described[0], described[2] if len(described) > 2 else ""


def kind_at(path: str, mounts: dict[str, str]) -> str:
    """The type of the file system that a path is on; "": not known."""
    folder = path
    while folder:
        if folder in mounts:
            return mounts[folder]
        folder = folder.rpartition("/")[0]
    return mounts.get("", "")


def agreed(tables: Sequence[dict[str, str] | None]) -> dict[str, str] | None:
    """What holds in all of several logs; a point that has not the same value in all of them has the value ""."""
    known = [table for table in tables if table is not None]
    if not known or len(known) < len(tables):
        return None
    points = {point for table in known for point in table}
    return {point: known[0].get(point, "") if _alike(known, point) else "" for point in sorted(points)}


def _alike(tables: Sequence[dict[str, str]], point: str) -> bool:
    return len({table.get(point) for table in tables}) == 1


def _is_here(host: str, boot: str) -> bool:
    return host == os.uname().nodename and boot != "" and boot == _text(_BOOT).strip()


def _table() -> str:
    return _text(_MOUNTS).rpartition("\n")[0]  # a longer table is cut off within a line


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST).decode(errors="replace")
    except OSError:
        return ""
