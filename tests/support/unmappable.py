"""python unmappable.py FOLDER MOUNTPOINT [FAULT]: mounts the folder as a file system without shared mappings.

With a fault it has them.  owner: every file is one user's; mode: every file can be read by all; stall: reads of a
file named stuck wait until a file named go is in the folder.

What some network and cluster file systems are like: FUSE with direct I/O, of
which the kernel maps nothing that is to be written back.
"""

from __future__ import annotations

import os
import sys
import time

import mfusepy


class Mirror(mfusepy.Operations):
    """A folder's files under other names."""

    use_ns = True
    _STAT = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino")

    def __init__(self, root: str, fault: str = "") -> None:
        self.root = root
        self.fault = fault

    def getattr(self, path, fh=None):
        status = os.lstat(self.root + path)
        told = {name: getattr(status, name) for name in self._STAT} | {"st_mtime": status.st_mtime_ns}
        if self.fault == "owner":
            told["st_uid"] = 65534
        if self.fault == "mode":
            told["st_mode"] |= 0o644
        return told

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.root + path)]

    def create(self, path, mode, fi=None):
        return os.open(self.root + path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path, flags):
        return os.open(self.root + path, flags)

    def read(self, path, size, offset, fh):
        while self.fault == "stall" and path == "/stuck" and not os.path.exists(self.root + "/go"):
            time.sleep(0.02)
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(self.root + path, length)

    def release(self, path, fh):
        os.close(fh)

    def unlink(self, path):
        os.unlink(self.root + path)

    def rename(self, old, new):
        os.rename(self.root + old, self.root + new)

    def chmod(self, path, mode):
        os.chmod(self.root + path, mode)


if __name__ == "__main__":
    faults = sys.argv[3:]
    mfusepy.FUSE(Mirror(sys.argv[1], *faults), sys.argv[2], foreground=True, direct_io=not faults, nothreads=True)
