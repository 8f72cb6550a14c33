"""The calls that other tools name, as the operations of this one: names without variants, layer and class."""

from __future__ import annotations

from pyio_trace.enums import Layer, OpClass

_CLASSES: dict[int, dict[int, str]] = {
    Layer.POSIX: {
        OpClass.READ: "read pread readv preadv preadv2 aio_read",
        OpClass.WRITE: "write pwrite writev pwritev pwritev2 aio_write vmsplice",
        OpClass.COPY: "copy_file_range sendfile splice tee",
        OpClass.OPEN: "open openat creat mkstemp opendir open_by_handle_at shm_open",
        OpClass.CLOSE: "close close_range closedir",
        OpClass.SEEK: "lseek",
        OpClass.SYNC: "fsync fdatasync sync_file_range syncfs sync msync",
        OpClass.MAP: "mmap",
        OpClass.META: (
            "dup dup2 dup3 fcntl stat lstat fstat fstatat statx access faccessat truncate ftruncate fallocate "
            "posix_fadvise readahead rename renameat unlink unlinkat link linkat symlink symlinkat readlink readlinkat "
            "mkdir mkdirat mknod mkfifo rmdir remove chmod fchmod fchmodat chown lchown fchown fchownat utime futime "
            "utimensat statfs fstatfs getxattr fgetxattr setxattr fsetxattr listxattr flistxattr removexattr "
            "fremovexattr readdir getdents flock lockf chdir fchdir chroot name_to_handle_at"
        ),
        OpClass.PROCESS: "fork vfork clone execve wait4 waitid",
    },
    Layer.STDIO: {
        OpClass.OPEN: "fopen freopen tmpfile",
        OpClass.CLOSE: "fclose",
        OpClass.READ: "fread fgets fgetc getline fscanf",
        OpClass.WRITE: "fwrite fputs fputc fprintf",
        OpClass.SEEK: "fseek",
        OpClass.SYNC: "fflush",
        OpClass.META: "fdopen ftell",
    },
}  # fmt: skip
#: Name -> (layer, class).
CALLS = {
    name: (layer, klass)
    for layer, classes in _CLASSES.items()
    for klass, names in classes.items()
    for name in names.split()
}
#: Names of the kernel and of libc for variants -> the plain name.
_PLAIN = {
    "newfstatat": "fstatat", "openat2": "openat", "clone3": "clone", "fadvise": "posix_fadvise", "renameat2":
    "renameat", "faccessat2": "faccessat", "mknodat": "mknod", "futimesat": "utimensat", "utimes": "utime",
    "_llseek": "lseek", "llseek": "lseek", "execveat": "execve", "lgetxattr": "getxattr", "lsetxattr":
    "setxattr", "fseeko": "fseek", "fxstat": "fstat", "xstat": "stat", "lxstat": "lstat", "fxstatat": "fstatat",
    "ftello": "ftell", "mkostemp": "mkstemp", "sync_file_range2": "sync_file_range", "llistxattr": "listxattr",
    "lremovexattr": "removexattr",
}  # fmt: skip


def plain(name: str) -> str:
    """The plain name of a call: pread for pread64 as well."""
    short = name.removeprefix("__").removesuffix("64").removesuffix("_")
    return _PLAIN.get(short, short)
