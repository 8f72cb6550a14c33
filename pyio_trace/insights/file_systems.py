"""Which file systems the files of findings are on, and what that changes about a remedy.

Log.info() has the mounts of the machine, if the log was packed there, or is read
there.  Nothing is asked of the files themselves, as a log may name anything.
Where nothing is known, remedies stay as rules give them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from pyio_trace.insights.finding import Finding, Remedy

#: Kind -> types of file systems, as the kernel calls them.  Any other type is "local" if it is on a device.
_KINDS = {
    "memory": ("tmpfs", "ramfs", "hugetlbfs"),
    "overlay": ("overlay",),
    "nfs": ("nfs", "nfs4"),
    "lustre": ("lustre",),
    "network": ("ceph", "gpfs", "beegfs", "glusterfs", "cifs", "smb3", "9p", "pvfs2", "afs", "panfs", "wekafs"),
    "fuse": ("fuse",),
}

#: What a rule is about -> kind of file system -> a sentence for its remedy.  "order" is about where bytes are, "size"
#: about how many at a time, "shared" about several processes and one file.
_SENTENCES: Mapping[str, Mapping[str, str]] = {
    "metadata": {
        "memory": "The files are in memory already (tmpfs): only the number of calls counts.",
        "nfs": "On NFS each of these calls may be a message to the server; actimeo= lets the client keep answers.",
        "lustre": "On Lustre the metadata server answers each of these calls; new small files can live there as well: "
        "lfs setstripe -E 64K -L mdt -E -1 FOLDER.",
        "network": "Each of these calls may be a message to a server.",
        "fuse": "Each of these calls is a message to a FUSE daemon, perhaps to a server behind it.",
        "overlay": "The files are in a container's overlay; a volume has shorter ways.",
    },
    "size": {
        "memory": "The files are in memory (tmpfs): only the number of calls counts.",
        "nfs": "NFS moves up to rsize or wsize bytes in a message, mostly 1 MiB.",
        "lustre": "On Lustre an access of a whole stripe goes to one server: lfs getstripe FILE shows its size.",
        "network": "Each call may be a message to a server.",
        "fuse": "Each call is a message to a FUSE daemon.",
    },
    "order": {
        "memory": "The files are in memory (tmpfs), where the order costs nothing.",
        "nfs": "On NFS a jump ends the client's reading ahead.",
        "lustre": "On Lustre an access that crosses a stripe takes two servers: lfs getstripe FILE shows the stripes; "
        "lfs setstripe -S 4M FOLDER sets them for new files.",
        "network": "On a network file system a jump ends the client's reading ahead.",
    },
    "sync": {
        "memory": "The files are in memory (tmpfs), which a sync does not make durable: leave it out.",
        "nfs": "On NFS a sync waits for the server, and so does each close after writing.",
        "lustre": "On Lustre a sync waits for all servers of the file's stripes.",
        "network": "Each sync waits for a server.",
        "fuse": "Each sync waits for a FUSE daemon, perhaps for a server behind it.",
    },
    "close": {
        "memory": "The files are in memory (tmpfs): a close frees what was deleted, and writes nothing.",
        "nfs": "On NFS a close after writing waits until the server has all of it.",
        "lustre": "On Lustre a close is a message to the metadata server.",
        "network": "On a network file system a close writes what the server does not have yet.",
        "fuse": "A FUSE daemon may write to its server at the close.",
    },
    "shared": {
        "nfs": "NFS does not separate the writes of two clients, and each lock is a message to the server.",
        "lustre": "On Lustre, stripes spread the file over servers: lfs setstripe -c 8 FOLDER before it is made.",
        "network": "Servers hand out the right to write a range, and call it back when another client wants it.",
    },
}  # fmt: skip
#: What a rule may be about.
TOPICS = tuple(_SENTENCES)


#: Calls that lock a file: those of BSD, and POSIX's.
_FLOCK, _POSIX = frozenset(("flock",)), frozenset(("fcntl", "lockf"))
#: Type of file system -> option -> the locks that it keeps within the machine.  Other types, such as FUSE and BeeGFS,
#: have no option that tells.
_LOCAL_LOCKS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "nfs": {"local_lock=all": _FLOCK | _POSIX, "local_lock=flock": _FLOCK, "local_lock=posix": _POSIX},
    "lustre": {"localflock": _FLOCK | _POSIX},
    "cifs": {"nobrl": _FLOCK | _POSIX},
    "gfs2": {"localflocks": _FLOCK | _POSIX},
    "ocfs2": {"localflocks": _FLOCK | _POSIX},
    "afs": {"flock=local": _FLOCK | _POSIX},
}
#: Types that are other versions of one of these.
_VERSIONS = {"nfs4": "nfs", "smb3": "cifs"}


class FileSystems:
    """The mounts of a machine."""

    def __init__(self, types: Mapping[str, str] | None = None, options: Mapping[str, str] | None = None) -> None:
        """types, options: mount point -> type, and options about locks, as in Log.info(); None: not known."""
        self._types = dict(types or {})
        self._options = dict(options or {})

    def type_of(self, path: str) -> str:
        """The type of file system that a path is on, such as "ext4"; "": not known."""
        return self._types.get(self._point_of(path), "") if path.startswith("/") else ""

    def _point_of(self, path: str) -> str:
        """Where the file system of an absolute path is mounted, without a last slash."""
        folder = os.path.normpath(path).replace("//", "/")
        while folder not in self._types and folder.strip("/"):
            folder = folder.rpartition("/")[0]
        return folder if folder in self._types else ""

    def local_locks(self, path: str, op: str) -> str:
        """The mount option that keeps locks of a path by an operation ("flock", "fcntl", "lockf") within the machine;
        "": none does, or it is not known."""
        if not self._options or not path.startswith("/"):
            return ""
        options = self._options.get(self._point_of(path), "").split(",")
        known = _LOCAL_LOCKS.get(self.type_of(path), {})
        if (
            "local_lock=all" in known
            and "nolock" in options
            and not any(one.startswith("local_lock=") for one in options)
        ):
            return "nolock"  # a kernel before 2.6.37
        return next((one for one in options if op in known.get(one, ())), "")

    def kind_of(self, path: str) -> str:
        """A key of _KINDS, "local", or "": not known."""
        return kind(self.type_of(path))

    def kind_of_all(self, finding: Finding) -> str:
        """The kind that all files of a finding are on; "": several, or not known."""
        kinds = {self.kind_of(path) for path in finding.files}
        return kinds.pop() if len(kinds) == 1 else ""

    def worded(self, finding: Finding, topic: str) -> Finding:
        """The finding with the types of its file systems, and with what they change about its remedy.

        topic: one of TOPICS; "": its rule has nothing to do with file systems.  The order of accesses costs nothing in
        memory.
        """
        types = sorted({self.type_of(path) for path in finding.files} - {""})
        where = self.kind_of_all(finding) if topic else ""
        sentence = _SENTENCES.get(topic, {}).get(where)
        remedy = finding.remedy
        if remedy is not None and sentence:
            remedy = Remedy(f"{remedy.text} {sentence}", remedy.before, remedy.after, remedy.library)
        costs = not (topic == "order" and where == "memory")
        severity = finding.severity if costs else "ok"
        return replace(finding, file_systems=types, remedy=remedy, severity=severity)


def kind(name: str) -> str:
    """Of a type, such as "nfs4": a key of _KINDS, "local", or "" for no type."""
    base = name.partition(".")[0]  # fuse.sshfs
    return next((kind for kind, names in _KINDS.items() if base in names), "local" if name else "")
