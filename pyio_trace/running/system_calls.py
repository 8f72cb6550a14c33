"""The numbers of the system calls that may block, and what their first arguments are.

One line for each: its name, its number on x86-64 and on aarch64 (-: there is none), what its
arguments are.  fd: the first is a descriptor; path: a path; at: a folder's
descriptor and a path.
"""

from __future__ import annotations

import os
from typing import NamedTuple

_TABLE = """
read 0 63 fd          write 1 64 fd          readv 19 65 fd         writev 20 66 fd
pread64 17 67 fd      pwrite64 18 68 fd      preadv 295 69 fd       pwritev 296 70 fd
preadv2 327 286 fd    pwritev2 328 287 fd    getdents 78 - fd       getdents64 217 61 fd
open 2 - path         openat 257 56 at       openat2 437 437 at     creat 85 - path
close 3 57 fd         close_range 436 436 -  lseek 8 62 fd          ioctl 16 29 fd
fsync 74 82 fd        fdatasync 75 83 fd     syncfs 306 267 fd      sync 162 81 -
msync 26 227 -        munmap 11 215 -        mmap 9 222 -           sync_file_range 277 84 fd
ftruncate 77 46 fd    truncate 76 45 path    fallocate 285 47 fd    fadvise64 221 223 fd
readahead 187 213 fd  copy_file_range 326 285 fd  sendfile 40 71 second  splice 275 76 fd
tee 276 77 fd         vmsplice 278 75 fd     fstat 5 80 fd          stat 4 - path
lstat 6 - path        newfstatat 262 79 at   statx 332 291 at       access 21 - path
faccessat 269 48 at   faccessat2 439 439 at  readlink 89 - path     readlinkat 267 78 at
unlink 87 - path      unlinkat 263 35 at     rename 82 - path       renameat 264 38 at
renameat2 316 276 at  link 86 - path         linkat 265 37 at       symlink 88 - path
mkdir 83 - path       mkdirat 258 34 at      rmdir 84 - path        chmod 90 - path
statfs 137 43 path    fstatfs 138 44 fd      chdir 80 49 path       getxattr 191 8 path
flock 73 32 fd        fcntl 72 25 fd         futex 202 98 -         futex_wait 455 455 -
futex_waitv 449 449 -
poll 7 - -            ppoll 271 73 -         select 23 - -          pselect6 270 72 -
epoll_wait 232 - fd   epoll_pwait 281 22 fd  epoll_pwait2 441 441 fd
nanosleep 35 101 -    clock_nanosleep 230 115 -  pause 34 - -       rt_sigsuspend 130 133 -
rt_sigtimedwait 128 137 -  sched_yield 24 124 -  restart_syscall 219 128 -
wait4 61 260 -        waitid 247 95 -        vfork 58 - -           clone 56 220 -
clone3 435 435 -      execve 59 221 path     execveat 322 281 at    exit 60 93 -
exit_group 231 94 -
connect 42 203 fd     accept 43 202 fd       accept4 288 242 fd     recvfrom 45 207 fd
recvmsg 47 212 fd     recvmmsg 299 243 fd    sendto 44 206 fd       sendmsg 46 211 fd
sendmmsg 307 269 fd   semop 65 193 -         semtimedop 220 192 -   msgsnd 69 189 -
msgrcv 70 188 -       mq_timedsend 242 182 fd  mq_timedreceive 243 183 fd
io_getevents 208 4 -  io_pgetevents 333 292 -  io_uring_enter 426 426 fd  getrandom 318 278 -
"""


class SystemCall(NamedTuple):
    """A call by its name.  arguments: "fd", "second" (the second is the descriptor), "path", "at" or ""."""

    name: str
    arguments: str


def _read(machine: str) -> dict[int, SystemCall]:
    words = _TABLE.split()
    column = 2 if machine == "aarch64" else 1
    found = {}
    for at in range(0, len(words), 4):
        if words[at + column] != "-":
            found[int(words[at + column])] = SystemCall(words[at], words[at + 3].strip("-"))
    return found


_CALLS = _read(os.uname().machine)


def system_call(number: int) -> SystemCall:
    """The call of this number on this machine; of another one, its number as its name."""
    return _CALLS.get(number) or SystemCall(f"system call {number}", "")
