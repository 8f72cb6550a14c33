"""What a socket is connected to: addresses from /proc/PID/net, the peer of a Unix socket from the kernel's socket
diagnostics (which /proc does not have)."""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

from pyio_trace.running.kernel_process import KernelProcess

_STATES = {1: "established", 2: "connecting", 10: "listening", 8: "closed by its peer"}
_TABLES = ("tcp", "tcp6", "udp", "udp6")
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_SHOW_NAME, _SHOW_PEER = 1, 4
_NAME, _PEER = 0, 2


class Socket(NamedTuple):
    """kind: "tcp", "udp", "unix" or "socket"; local, remote: addresses or paths, "" for none; state: such as
    "established"; peer: the inode of the socket at the other end, on this machine, 0 if it is not known."""

    kind: str
    local: str = ""
    remote: str = ""
    state: str = ""
    peer: int = 0


def socket_of(process: KernelProcess, inode: int) -> Socket:
    """The socket of this inode in a process's network."""
    for table in _TABLES:
        rows = [line.split() for line in process.once(f"net/{table}").splitlines()[1:]]
        own = next((row for row in rows if len(row) > 9 and row[9] == b"%d" % inode), None)
        if own is not None:
            other = next((row for row in rows if len(row) > 9 and (row[1], row[2]) == (own[2], own[1])), None)
            kind, state = table.rstrip("6"), int(own[3], 16)
            peer = int(other[9]) if other is not None and other is not own and kind == "tcp" else 0
            return Socket(
                kind, _address(own[1]), _address(own[2]), _STATES.get(state, "") if kind == "tcp" else "", peer
            )
    for line in process.once("net/unix").splitlines()[1:]:
        row = line.split(maxsplit=7)
        if len(row) > 6 and row[6] == b"%d" % inode:
            path = row[7].decode("utf-8", "backslashreplace") if len(row) > 7 else ""
            listening = int(row[3], 16) & 0x10000
            if process.link("ns/net") != _own_network():
                return Socket("unix", path, "", "listening" if listening else "")
            peer, name = _unix_peer(inode)
            return Socket("unix", path, name, "listening" if listening else "", peer)
    return Socket("socket")


def _address(text: bytes) -> str:
    """An address of /proc/net/tcp: words of 32 bits in the machine's order, and a port."""
    words, _, port = text.partition(b":")
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    if not any(raw) and port == b"0000":
        return ""
    shown = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    shown = shown.removeprefix("::ffff:")
    return f"[{shown}]:{int(port, 16)}" if ":" in shown else f"{shown}:{int(port, 16)}"


def _own_network() -> str:
    with KernelProcess(os.getpid()) as own:
        return own.link("ns/net")


def _unix_peer(inode: int) -> tuple[int, str]:
    """(inode, path) of the Unix socket that this one is connected to; (0, "") if it is to none."""
    peer, _ = _asked(inode)
    return (peer, _asked(peer)[1]) if peer else (0, "")


def _asked(inode: int) -> tuple[int, str]:
    """(peer's inode, own path) of a Unix socket."""
    any_cookie = (0xFFFFFFFF, 0xFFFFFFFF)
    what = _SHOW_NAME | _SHOW_PEER
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, inode, what, *any_cookie)
    header = struct.pack("=IHHII", 16 + len(request), _BY_FAMILY, _REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as asking:
            asking.settimeout(0.2)
            asking.send(header + request)
            answer = asking.recv(1 << 13)
    except OSError:
        return 0, ""
    if len(answer) < 32 or struct.unpack_from("=H", answer, 4)[0] != _BY_FAMILY:
        return 0, ""
    peer, name, at = 0, "", 32
    while at + 4 <= len(answer):
        length, kind = struct.unpack_from("=HH", answer, at)
        value = answer[at + 4 : at + length]
        if kind == _PEER and len(value) >= 4:
            peer = struct.unpack_from("=I", value)[0]
        if kind == _NAME:
            name = value.rstrip(b"\0").replace(b"\0", b"@").decode("utf-8", "backslashreplace")
        if length < 4:
            break
        at += (length + 3) & ~3
    return peer, name
