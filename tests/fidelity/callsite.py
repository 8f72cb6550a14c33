"""Who made a system call, worked out from its stack.

The frames of libc are passed over; the first frame of another object is who asked libc.  If that is a hook, the call
came through a patched slot and must have its row.  If it is the core but no hook, the call is our own.  If it is the
loader, a library is being loaded.  Anything else went past the slots, and the libc function that it called is the
evidence for why that is.
"""

from __future__ import annotations

import functools
import os.path
from enum import Enum
from typing import NamedTuple


class Way(Enum):
    """The way by which a system call was made."""

    SLOT = "through a slot"
    OURS = "our own"
    LOADER = "the loader's"
    RAW = "a system call instruction outside libc"
    LOADING = "a library's constructor or destructor"
    NAMES = "a library of libc's name service"
    PAST = "past the slots"
    UNKNOWN = "not known"


class Site(NamedTuple):
    """name: of the hook (SLOT), of the libc function (PAST), of the object (RAW).

    inside: how many functions of libc were beneath it.
    """

    way: Way
    name: str
    inside: int


def _kind(path: str) -> str:
    name = os.path.basename(path)
    if name.startswith(("libc.so", "libc-2", "libpthread", "libc.musl")):
        return "libc"
    if name.startswith("libpyio_trace"):
        return "core"
    if name.startswith("_capture"):
        return "extension"
    if name.startswith(("ld-linux", "ld-2", "ld-musl")):
        return "loader"
    return "other"


@functools.cache
def site_of(frames: tuple[tuple[str, str], ...]) -> Site:
    """Who made the call with this stack."""
    inside = 0
    while inside < len(frames) and _kind(frames[inside][0]) == "libc":
        inside += 1
    outermost = frames[inside - 1][1] if inside else ""
    if not frames:
        return Site(Way.UNKNOWN, "", 0)
    if inside == len(frames):  # a thread that libc began, the end of the process
        return Site(Way.PAST, outermost, inside)
    path, symbol = frames[inside]
    kind = _kind(path)
    if kind == "core":
        hook = inside > 0 and symbol.startswith("hook_")
        return Site(Way.SLOT, symbol[5:], inside) if hook else Site(Way.OURS, symbol, inside)
    if kind == "extension":
        return Site(Way.OURS, symbol, inside)
    if kind == "loader":
        return Site(Way.LOADER, symbol, inside)
    if inside and os.path.basename(path).startswith("libnss_"):  # libc loads these for itself, past dlopen and dlsym
        return Site(Way.NAMES, outermost, inside)
    if inside and any(_kind(path) == "loader" for path, _ in frames):
        return Site(Way.LOADING, outermost, inside)
    return Site(Way.PAST, outermost, inside) if inside else Site(Way.RAW, os.path.basename(path), 0)


def is_cores(site: Site) -> bool:
    """Whether it is a call of ours that is made from the start of tracing on: not the search for instruments before."""
    return site.way is Way.OURS and site.name != "pt_entry_points_that_mention"


#: libc functions that use files of libc's own choosing (docs/explanation/limits.md, "libc's own calls").
LIBC_OWN = {
    "locale and character-set files": {
        "setlocale", "newlocale", "__newlocale", "uselocale", "iconv_open", "bindtextdomain", "textdomain", "gettext",
        "dcgettext", "strerror", "strerror_r", "strerror_l", "strsignal", "__xpg_strerror_r",
        "dgettext", "ngettext", "dcngettext", "nl_langinfo", "mbstowcs", "wcstombs", "mbrtowc",
    },
    "time zone files": {"tzset", "localtime", "localtime_r", "mktime", "strftime", "ctime"},
    "users, groups and hosts": {
        "getpwnam", "getpwnam_r", "getpwuid", "getpwuid_r", "getgrnam", "getgrnam_r", "getgrgid", "getgrgid_r",
        "getpwent", "getpwent_r", "setpwent", "endpwent", "getgrent", "getgrent_r", "setgrent", "endgrent",
        "getgrouplist", "initgroups", "getlogin", "getlogin_r", "getaddrinfo", "gethostbyname", "gethostbyname_r",
        "gethostbyaddr_r", "getservbyname", "getservbyname_r", "getservbyport_r", "getspnam", "getspnam_r",
    },
    "the processors and the memory there are": {"sysconf", "get_nprocs", "get_nprocs_conf", "getpagesize", "qsort"},
    "libc's streams at the end": {
        "exit", "__libc_start_main", "__libc_start_call_main", "__libc_init_first", "quick_exit",
    },
    "named semaphores": {"sem_open", "sem_close", "sem_unlink"},
    "memory": {"malloc", "free", "calloc", "realloc", "memalign", "posix_memalign", "malloc_trim"},
    "threads": {"pthread_create", "pthread_join", "pthread_exit", "pthread_getattr_np", "__clone", "clone"},
}  # fmt: skip

#: libc functions without a hook, by the words of docs/explanation/limits.md that say so.
NO_HOOK = {
    "libc's syscall(): not recorded, and the process is marked": {"syscall"},
}  # fmt: skip


def reason_past(name: str) -> str | None:
    """Why a call that bypassed the slots has no row, if the libc function explains it."""
    own = next((reason for reason, names in LIBC_OWN.items() if name in names), None)
    if own is not None:
        return f"libc's own: {own}"
    return next((reason for reason, names in NO_HOOK.items() if name in names), None)
