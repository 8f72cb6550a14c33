"""Which file systems hold no data: their files are made up by the kernel, and reading one can have effects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

#: Types of file systems whose files are made up by the kernel, or mounted when somebody looks.
_MADE_UP = frozenset((
    "autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
    "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs",
    "securityfs", "selinuxfs", "sysfs", "tracefs",
))  # fmt: skip


@cache
def made_up_devices() -> frozenset[int]:
    """Devices (st_dev) of file systems of the types above; none if /proc does not say."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return frozenset()
    return frozenset(_devices(lines))


def _devices(lines: list[bytes]) -> Iterator[int]:
    for line in lines:
        words = line.split()
        if b"-" in words[6:] and words[words.index(b"-", 6) + 1].decode(errors="replace") in _MADE_UP:
            major, _, minor = words[2].partition(b":")
            yield os.makedev(int(major), int(minor))
