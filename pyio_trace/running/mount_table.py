"""The file systems of a process: which one a descriptor or a path is on.  No path is looked at."""

from __future__ import annotations

import re
from typing import NamedTuple

from pyio_trace.running.kernel_process import KernelProcess

_OCTAL = re.compile(r"\\([0-7]{3})")
#: Those whose answers come from another machine or another process.
_REMOTE = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "9p",
    "afs",
    "orangefs",
    "virtiofs",
    "pvfs2",
)


class Mount(NamedTuple):
    """number: its device's minor number, which names a FUSE connection; folder: where it is; kind: such as "ext4"."""

    number: int
    folder: str
    kind: str

    @property
    def is_fuse(self) -> bool:
        """Whether a process answers for this file system."""
        return self.kind == "fuse" or self.kind.startswith(("fuse.", "fuseblk"))

    @property
    def is_remote(self) -> bool:
        """Whether what answers is outside of this kernel."""
        return self.is_fuse or self.kind in _REMOTE


class Mounts:
    """The mounts of a process's namespace."""

    def __init__(self, process: KernelProcess) -> None:
        self._by_id: dict[int, Mount] = {}
        for line in process.text("mountinfo").splitlines():
            before, _, after = line.partition(" - ")
            fields, kind = before.split(" "), after.split(" ")[0]
            if len(fields) >= 5 and fields[0].isdecimal() and fields[2].partition(":")[2].isdecimal():
                minor = int(fields[2].partition(":")[2])
                self._by_id[int(fields[0])] = Mount(minor, _plain(fields[4]), kind)

    def of_id(self, identity: int) -> Mount | None:
        """The mount of a descriptor, whose fdinfo has its id."""
        return self._by_id.get(identity)

    def of_path(self, path: str) -> Mount | None:
        """The mount that an absolute path leads to, as far as its words tell; the latest one counts."""
        found = None
        for mount in self._by_id.values():
            inside = mount.folder in ("/", path) or path.startswith(mount.folder + "/")
            if inside and (found is None or len(mount.folder) >= len(found.folder)):
                found = mount
        return found


def _plain(text: str) -> str:
    """A name as it is: mountinfo has blanks and the like as octal numbers."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
