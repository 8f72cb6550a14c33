"""Why tracing could not start, in words; imported only when it could not."""

from __future__ import annotations

import errno

from pyio_trace.errors import CaptureError


def explained(problem: OSError, live: str) -> CaptureError:
    """What the errno of a failed start means.  The core uses some errnos for its own reasons (csrc/core/log/file.h)."""
    elsewhere = "name another place with -o"
    not_mapped = f"the log {live!r} cannot be mapped here; {elsewhere} (a local disk, /dev/shm)"
    reasons = {
        errno.E2BIG: ("too-many-rules", "more rules than there is room for (256, 16 KiB): use fewer, wider patterns"),
        errno.EEXIST: ("not-a-file", f"{live!r} is not a regular file, and a log would replace it: name a file"),
        errno.EPROTO: ("not-a-log", f"{live!r} is not a live log of this version of pyio_trace"),
        errno.EBADMSG: ("not-a-log", f"{live!r} is not a live log: its header is damaged"),
        errno.ENOTBLK: ("not-a-file", f"the log {live!r} cannot be joined: it is not a regular file"),
        errno.ELOOP: ("not-a-file", f"the log {live!r} cannot be joined: it is a symbolic link"),
        errno.EKEYREJECTED: ("log-not-ours", f"the log {live!r} cannot be joined: it is another user's"),
        errno.EBADE: ("log-not-ours", f"the log {live!r} cannot be joined: other users may write to it; chmod go-w it"),
        errno.EREMCHG: ("other-place", f"the log {live!r} was made on another host, or before the last boot"),
        errno.EXDEV: ("other-place", f"the log {live!r} was made in another container (pid namespace)"),
        errno.EBUSY: ("log-in-use", f"the log {live!r} is being written by another run; name another with -o"),
        errno.ENOTUNIQ: ("log-exists", f"{live!r} exists and is not a log of yours: name another file with -o"),
        errno.ESTALE: ("run-ended", f"the run of {live!r} has ended"),
        errno.ENOSPC: ("log-disk-full", f"no room for the log {live!r}: the disk is full; {elsewhere}"),
        errno.EDQUOT: ("log-disk-full", f"no room for the log {live!r}: the disk quota is used up; {elsewhere}"),
        errno.ENOSYS: ("log-refused", f"the kernel refused room for the log {live!r} (a seccomp filter?)"),
        errno.EFBIG: ("log-limit", f"the file-size limit (ulimit -f) leaves no room for the log {live!r}"),
        errno.ENOMEM: ("log-not-mapped", not_mapped),
        errno.ENODEV: ("log-not-mapped", not_mapped),
        errno.EBADFD: ("log-not-private", f"the log {live!r} cannot be kept from other users here; {elsewhere}"),
    }
    default = ("unwritable-log", f"the log {live!r} cannot be written: {problem.strerror}")
    return CaptureError(*reasons.get(problem.errno or 0, default))
