"""Replaces the names in a log's strings by words that only a key can repeat.

A word is the keyed BLAKE2 of a name, in twelve letters.  They are no digits, since
names that differ only in their digits are summed up together: digits of a name
become other digits.  Each part of a path is replaced by itself, so folders and
logs of the same key can be compared.  What stays is in the lists of
kept_words.py, or matches the patterns below: names that every system has, endings
of known formats, words of the tracer's own.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from pyio_trace import log_constants
from pyio_trace.errors import ConfigError
from pyio_trace.join.pack.kept_words import ENDINGS, KEYS, KINDS, PARTS, SCHEMES, VALUES
from pyio_trace.join.references.own_code import FOLDER_OF_LIBRARIES, OURS, OwnCode

_SHORTEST_KEY = 8
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_WORD_BYTES = 6
_DIGITS = re.compile(r"\d+")
_SYSTEM = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)?t?)?")
#: Names of temporary files and the like, of which the summary knows the beginning.
_PREFIX = re.compile(r"(tmp)[a-z0-9_]{8}(?=\.|$)|(pymp-|memfd:|SYSV|#)")
_KERNELS = re.compile(r"(?:pipe|socket):\[\d+\]|anon_inode:\[?[a-z_-]{1,20}\]?|/dev/(?:null|zero|u?random|tty)")
_DELETED = " (deleted)"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?(.*)", re.DOTALL)

_RANGE = re.compile(r"[\d.KMG+-]{1,20}")
_DTYPE = re.compile(r"[<>=|]?[?biufcmMSUV]\d{0,5}")
#: Numbers, in the spelling of a shape or a selection; a single number may be anything.
_SHAPE = re.compile(r"[(\[{]?[\d:]+(?:[,; ]+[\d:]+)*[,)\]}]*")
_SHAPES = frozenset(("chunk", "chunks", "selection", "shape", "max_shape"))

_FUNCTION = re.compile(r"<(?:module|lambda|listcomp|genexpr|dictcomp|setcomp|locals)>|__[a-z]+__")
_NO_FILES = frozenset(("<string>", "<stdin>", "<console>", "<input>", "<dynamic-code>", "<timeit-src>"))
_TYPED = re.compile(r"<(ipython-input|doctest|python-input|bpython-input|pyshell)\b")
_HELPER = re.compile(r"from (multiprocess(?:ing)?)\.(spawn|forkserver|resource_tracker|semaphore_tracker) import ")
#: What redacted commands have in place of secrets: such a command is not whole.
_REPLACED = "***"

_PROCESS = re.compile(
    r"(?:rank \d+|DataLoader \d+, worker \d+|(?:Fork|Spawn|ForkServer)?(?:Pool)?(?:Worker|Process)-\d+(?:[:-]\d+)*)"
)
_FORKED = " (forked)"
_ENDED = re.compile(r"exit -?\d{1,11}|signal \d{1,11}(?: \(SIG[A-Z0-9]{1,10}\))?")
_ENDS = frozenset(
    (log_constants.RUNNING, log_constants.REPLACED, log_constants.STOPPED, log_constants.LOST,
     log_constants.NOT_FOLLOWED)
)  # fmt: skip
_STATICALLY = ": statically linked, cannot be followed"
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{1,30}(?:\|[A-Z][A-Z0-9_]{1,30}){0,40}|other")

_LIBRARIES = OwnCode()


class Names:
    """The replacements of one key, for any number of logs."""

    def __init__(self, key: str) -> None:
        """Raises ConfigError for a key that could be guessed."""
        if len(key) < _SHORTEST_KEY:
            raise ConfigError("bad-value", f"--obfuscate: the key has fewer than {_SHORTEST_KEY} characters")
        self._key = hashlib.blake2b(key.encode(errors="surrogateescape")).digest()
        self._parts: dict[str, str] = {}
        self._packages: set[str] = set(sys.stdlib_module_names)

    def word(self, text: str) -> str:
        """Twelve letters for a text; "" for ""."""
        return self._letters(text).decode() if text else ""

    def _letters(self, text: str, size: int = _WORD_BYTES) -> bytes:
        name = text.encode(errors="surrogatepass")
        return hashlib.blake2b(name, digest_size=size, key=self._key).hexdigest().encode().translate(_LETTERS)

    def part(self, name: str) -> str:
        """One part of a path.  Endings of known formats stay; digits become others."""
        if name not in self._parts:
            self._parts[name] = self._new_part(name)
        return self._parts[name]

    def _new_part(self, name: str) -> str:
        if name in PARTS or _SYSTEM.fullmatch(name):
            return name
        if name.endswith(_DELETED):
            return self.part(name.removesuffix(_DELETED)) + _DELETED
        stem, ending = _split_ending(name)
        prefix = _PREFIX.match(stem)
        if prefix is not None and prefix[1]:
            return prefix[1] + self._letters(stem).decode()[:8] + ending
        known = prefix[2] if prefix is not None else ""
        stem = stem[len(known) :]
        pattern = _DIGITS.sub("*", stem)
        word = self.word(pattern)
        if pattern != stem:
            digest = hashlib.blake2b(stem.encode(errors="surrogatepass"), digest_size=8, key=self._key).digest()
            word += f"-{int.from_bytes(digest) % 10**12:012}"
        return known + word + ending

    def path(self, text: str) -> str:
        """A path or URL, part by part; the names of Python's own files and of installed packages stay."""
        if _KERNELS.fullmatch(text):
            return text
        url = _URL.match(text)
        if url is not None and url[1].lower() in SCHEMES:
            rest, mark, query = url[3].partition("?")
            host, slash, path = rest.partition("/") if url[2] else ("", "", rest)
            more = f"?{self.word(query)}" if mark else ""
            return f"{url[1]}:{url[2] or ''}{self.host(host)}{slash}{self._parts_of(path)}{more}"
        folder = FOLDER_OF_LIBRARIES.match(text)
        if folder is not None and _is_code(text):
            self._packages.add(text[folder.end() :].partition("/")[0].removesuffix(".py"))
            return self._parts_of(text[: folder.end()]) + text[folder.end() :]
        return self._parts_of(text)

    def _parts_of(self, path: str) -> str:
        return "/".join(map(self.part, path.split("/")))

    def host(self, name: str) -> str:
        """A host, with its port if it has one; each part of its name by itself, so that a short name is the same."""
        user, at, rest = name.rpartition("@")
        rest, colon, port = rest.partition(":")
        shown = ".".join(self.word(part) for part in rest.split("."))
        return f"{self.word(user)}{at}{shown}{colon}{port if port.isdecimal() else self.word(port)}"

    def stack(self, text: str) -> str:
        """A site, or a stack of them."""
        return ";".join(map(self._site, text.split(";")))

    def _site(self, text: str) -> str:
        file, colon, rest = text.rpartition(":")[0].rpartition(":")
        if not colon or not rest.isdecimal():
            return text if text in ("", "?", "...") else self.word(text)
        function = text.rpartition(":")[2]
        if file.startswith("<"):
            shown = self._no_file(file)
            is_known = file.startswith("<frozen ") and shown == file
            return f"{shown}:{rest}:{function if is_known else self.dotted(function)}"
        kind = _LIBRARIES.kind(file)
        is_library = FOLDER_OF_LIBRARIES.match(file) is not None or kind == OURS
        return f"{self.path(file)}:{rest}:{function if is_library else self.dotted(function)}"

    def _no_file(self, name: str) -> str:
        if name in _NO_FILES:
            return name
        if name.startswith("<frozen ") and name[8:-1].partition(".")[0] in sys.stdlib_module_names:
            return name
        kind = _TYPED.match(name)
        if kind is None:
            return f"<{self.word(name)}>"
        numbers = "1" if kind[1] == "python-input" else self.word(name)
        return f"<{kind[1]}{' ' if kind[1] == 'doctest' else '#1' if kind[1] == 'pyshell' else '-'}{numbers}>"

    def dotted(self, name: str) -> str:
        """A function, class or module; each part of its name by itself."""
        parts = name.split(".")
        return ".".join(part if not part or _FUNCTION.fullmatch(part) else self.word(part) for part in parts)

    def package(self, name: str) -> str:
        """A package, which stays if it is the standard library's or a path of the log shows that it is installed."""
        return name if name.partition(".")[0] in self._packages else self.dotted(name)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command line.  Options of one letter stay."""
        found = [self.path(word) for word in words[:1]]
        for before, word in pairwise(words):
            helper = _HELPER.match(word) if before == "-c" else None
            if helper is not None:
                found.append(f"from {helper[1]}.{helper[2]} import {_REPLACED}")
            elif before == "-c":
                found.append(f"{_REPLACED}{self.word(word)}")
            elif before == "-m":
                found.append(self.package(word))
            else:
                found.append(self._argument(word))
        return found

    def _argument(self, word: str) -> str:
        if re.fullmatch(r"--?|-[A-Za-z]", word):
            return word
        if not word.startswith("-"):
            return self.path(word)
        name, equals, value = word.partition("=")
        dashes = name[: len(name) - len(name.lstrip("-"))]
        return f"{dashes}{self.word(name.lstrip('-'))}{equals}{self.path(value) if value else ''}"

    def kind(self, kind: str | None) -> str | None:
        """The kind of a process."""
        return kind if kind is None or kind in KINDS else self.part(kind)

    def process(self, name: str | None) -> str | None:
        """The name of a process."""
        if name is None or name in KINDS or _PROCESS.fullmatch(name):
            return name
        if name.endswith(_FORKED):
            return f"{self.process(name.removesuffix(_FORKED))}{_FORKED}"
        if name.startswith("Dask worker "):
            return f"Dask worker {self.host(name.removeprefix('Dask worker '))}"
        return self.part(name)

    def ended(self, text: str) -> str:
        """How a process ended."""
        return text if text in _ENDS or _ENDED.fullmatch(text) else self.word(text)

    def note(self, text: str) -> str:
        """What there is to say about a process."""
        if text.endswith(_STATICALLY):
            return self.path(text.removesuffix(_STATICALLY)) + _STATICALLY
        return self.word(text)

    def constant(self, text: str) -> str:
        """Words of C that are constants, such as ``LOCK_EX|LOCK_NB``."""
        return text if _CONSTANT.fullmatch(text) else self.word(text)

    def one_of(self, text: str, known: Iterable[str]) -> str:
        """A text that stays if it is one of the tracer's own."""
        return text if text in known else self.word(text)

    def detail(self, text: str) -> str:
        """The JSON of a detail."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return json.dumps({"text": self.word(text)})
        try:
            return json.dumps(self._value(found, ""))
        except RecursionError:
            return json.dumps({"text": self.word(text)})

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {self._key_of(name): self._value(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self._value(one, key) for one in value]
        return self._text(value, key) if isinstance(value, str) else value

    def _key_of(self, name: str) -> str:
        return name if name in KEYS or _RANGE.fullmatch(name) else self.word(name)

    def _text(self, value: str, key: str) -> str:
        if value in VALUES or _DTYPE.fullmatch(value) or (key in _SHAPES and _SHAPE.fullmatch(value)):
            return value
        if key == "raised":
            return value if isinstance(getattr(builtins, value, None), type) else self.dotted(value)
        return self.word(value) if any(map(str.isspace, value)) else self.path(value)


def _split_ending(name: str) -> tuple[str, str]:
    """("data", ".tar.gz") of data.tar.gz; only endings that are known."""
    stem, ending = name, ""
    while "." in stem[1:] and stem.rpartition(".")[2].lower() in ENDINGS:
        stem, _, last = stem.rpartition(".")
        ending = f".{last}{ending}"
    return (stem, ending) if stem else (name, "")


def _is_code(path: str) -> bool:
    return path.endswith((".py", ".pyc", ".pyi", ".so", ".pth"))
