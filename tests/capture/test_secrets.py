"""Secrets in commands, URLs and details reach no byte of a log; the text around them is kept."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner, succeeded

SECRET = "hunter2hunter2"
ALL = {"PYIO_TRACE_FOLLOW": "all"}


def text_of(outcome: Outcome) -> str:
    """All that a log's reader gets to see."""
    return json.dumps([outcome.rows, outcome.processes, outcome.log.losses()], default=str)


def assert_kept_out(outcome: Outcome, secret: str = SECRET) -> None:
    assert secret.encode() not in outcome.path.read_bytes()
    assert secret not in text_of(outcome)


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/csrc/child.c, a program that is not Python."""
    path = tmp_path_factory.mktemp("secrets") / "child"
    source = Path(__file__).parent.parent / "csrc" / "child.c"
    if not shutil.which("cc"):
        pytest.skip("there is no cc")
    assert subprocess.run(["cc", "-o", str(path), str(source)]).returncode == 0
    return path


# ---- what the core makes of a text: asked of the built core, by programs of the test's Python

#: a line of a shell, or code -> what is stored of it; S stands for a secret
LINES = {
    "mysql --password=S -u me": "mysql --password=*** -u me",
    "mysql --password S -u me": "mysql --password *** -u me",
    "mysql -password S -u me": "mysql -password *** -u me",
    "p --tokenizer x --max-tokens 5 --max-token 5 --tokens 7 --token S": (
        "p --tokenizer x --max-tokens 5 --max-token 5 --tokens 7 --token ***"
    ),
    "p --hf-token S --HF_TOKEN=S --db_pwd S": "p --hf-token *** --HF_TOKEN=*** --db_pwd ***",
    "p --password-file x --token-path x --secret-dir x --pwd-env X --secret-name x": (
        "p --password-file x --token-path x --secret-dir x --pwd-env X --secret-name x"
    ),
    "p --no-token x --use-token --verbose": "p --no-token x --use-token --verbose",
    "TOKEN=S p; export API_KEY='S S' && q": "TOKEN=*** p; export API_KEY='***' && q",
    "TOKEN= p": "TOKEN= p",
    "p --api-key S --apikey=S --Api_Key S": "p --api-key *** --apikey=*** --Api_Key ***",
    "p --passphrase S": "p --passphrase ***",
    'psql "host=h password=S dbname=d"': 'psql "host=h password=*** dbname=d"',
    "odbc 'UID=u;PWD={S;S S};DB=d'": "odbc 'UID=u;PWD=***;DB=d'",
    "curl -H 'Authorization: Basic S S' u": "curl -H 'Authorization: ***' u",
    'curl -H "authorization: Bearer S" u': 'curl -H "authorization: ***" u',
    "curl -H Authorization:S u": "curl -H Authorization:*** u",
    'curl -H \'Authorization: Digest a="S", b="S"\' u': "curl -H 'Authorization: ***' u",
    "curl -H 'X-Auth-Token: S' u": "curl -H 'X-Auth-Token: ***' u",
    "echo Bearer S | p": "echo Bearer *** | p",
    """curl -d '{"password": "S S", "a": 1}' u""": """curl -d '{"password": "***", "a": 1}' u""",
    r"""curl -d "{\"password\": \"S S\", \"a\": 1}" u""": r"""curl -d "{\"password\": \"***\", \"a\": 1}" u""",
    """python -c 'connect(password="S S", user="u")'""": """python -c 'connect(password="***", user="u")'""",
    "d['password'] = 'S S'; e": "d['password'] = '***'; e",
    'def f(token: str = "S S"): pass': 'def f(token: *** = "***"): pass',
    'run(["p", "--password", "S S"])': 'run(["p", "--password", "***"])',
    'password="""S S"""; e': 'password="***"; e',
    "p --token \"S\"'S S'S e": 'p --token "***" e',
    "git clone https://u:S@h/x": "git clone https://u:***@h/x",
    "git clone https://S@h/x git@h:x ssh://git@h/x": "git clone https://***@h/x git@h:x ssh://git@h/x",
    "git clone https://S:x-oauth-basic@h/x": "git clone https://***@h/x",
    "p redis://:S@h:1 http://h:80/@x postgres://u:S/S@h/d": "p redis://:***@h:1 http://h:80/@x postgres://u:***@h/d",
    "p postgres://u:S@S@h/d u:p@h https://S@S@h/": "p postgres://u:***@h/d u:p@h https://***@h/",
    "p 'https://h/o?X-Amz-Signature=S&X-Amz-Date=2&sig=S&key=S&AWSAccessKeyId=A'": (
        "p 'https://h/o?X-Amz-Signature=***&X-Amz-Date=2&sig=***&key=***&AWSAccessKeyId=A'"
    ),
    "cp /run/secrets/x key=value monkey": "cp /run/secrets/x key=value monkey",
    "password=": "password=",
}

#: words of a command -> what is stored of them
COMMANDS = [
    (["p", "--token", "S", "x"], ["p", "--token", "***", "x"]),
    (["p", "--token=S S&S;S", "x"], ["p", "--token=***", "x"]),
    (["p", "--token", "-S1", "-q"], ["p", "--token", "***", "-q"]),
    (["p", "--use-token", "--verbose", "x"], ["p", "--use-token", "--verbose", "x"]),
    (["p", "--tokenizer", "x", "--max-tokens", "5"], ["p", "--tokenizer", "x", "--max-tokens", "5"]),
    (["p", "--token"], ["p", "--token"]),
    (["p", "-e", "TOKEN=S S"], ["p", "-e", "TOKEN=***"]),
    (["p", "-H", "Authorization: Basic S S"], ["p", "-H", "Authorization: ***"]),
    (["p", "Bearer", "S"], ["p", "Bearer", "***"]),
    (["p", "--set=password=S"], ["p", "--set=password=***"]),
    (["python", "-Ic", "password='S S'; work()", "x"], ["python", "-Ic", "password='***'; work()", "x"]),
    (["sh", "-c", "--", "p --password=S x"], ["sh", "-c", "--", "p --password=*** x"]),
]


def redacted(program: Runner, texts: list[str], words: bool, redact: str = "") -> list[str]:
    """Each of the texts, as a process of its own answers for the core that is installed."""
    code = """
    import json, sys
    from pyio_trace import native
    for text in json.load(sys.stdin):
        print(json.dumps(native.core.redacted(text.encode(), sys.argv[1] == "words").decode()))
    """
    outcome = succeeded(
        program.traced(code, "words" if words else "line", env={"PYIO_TRACE_REDACT": redact}, stdin=json.dumps(texts))
    )
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def test_what_is_taken_out_of_a_line(program: Runner) -> None:
    given = [line.replace("S S", "the secret").replace("=S", "=" + SECRET) for line in LINES]
    assert dict(zip(given, redacted(program, given, False), strict=True)) == dict(
        zip(given, LINES.values(), strict=True)
    )


def test_what_is_taken_out_of_words(program: Runner) -> None:
    given = ["".join(word + "\0" for word in words) for words, _ in COMMANDS]
    found = [line.split("\0")[:-1] for line in redacted(program, given, True)]
    assert found == [wanted for _, wanted in COMMANDS]


def test_names_of_the_users(program: Runner) -> None:
    given = ["p --pin 1234 --session-key x --spinning y --db.pin=7 --tokenizer z --token t"]
    assert redacted(program, given, False, "pin,*-key") == [
        "p --pin *** --session-key *** --spinning y --db.pin=*** --tokenizer z --token ***"
    ]


def test_only_names_are_kept(program: Runner) -> None:
    commands = {
        "python3 -X dev train.py --user me": "python3 train.py",
        "/usr/bin/python -m http.server --bind x": "/usr/bin/python -m http.server",
        "python -uc print(1) x": "python -uc",
        "curl -u me:x url": "curl",
    }
    given = [words.replace(" ", "\0") + "\0" for words in commands]
    wanted = [words.replace(" ", "\0") + "\0" for words in commands.values()]
    assert redacted(program, given, True, "argv") == wanted
    lines = ["A=1 curl -u me:x url", "true", "A='x y' curl", " ls\n"]
    assert redacted(program, lines, False, "argv") == ["curl ***", "true", "***", "ls ***"]


def test_code_is_left_out(program: Runner) -> None:
    given = ["python\0-c\0print(1)\0x\0", "sh\0-c\0--\0ls x\0"]
    assert redacted(program, given, True, "code") == ["python\0-c\0***\0x\0", "sh\0-c\0--\0***\0"]


# ---- ways into a log

URL = f"https://user:{SECRET}@localhost:1/x.csv?token={SECRET}"
HEADER = f'curl -H "Authorization: Bearer {SECRET}" file:///nowhere 2>/dev/null; true'
#: how a command or a URL gets into a log; `child` is the program that is not Python
WAYS = {
    "system": f"os.system({HEADER!r})",
    "popen": f"libc.pclose(c_void_p(libc.popen({HEADER.encode()!r}, b'r')))",
    "a child's URL": f"subprocess.run([child, 'posix', '/dev/null', '/dev/null', {URL!r}])",
    "a child's option": f"subprocess.run([child, 'posix', '/dev/null', '/dev/null', '--token', {SECRET!r}])",
    "a secret where the words are cut": (
        f"subprocess.run([child, 'posix', '/dev/null', '/dev/null', 'x' * 1960, 'https://u:{SECRET * 9}@h/'])"
    ),
    "a child of a child's": f"subprocess.run([child, 'shell', {HEADER!r}])",
    "posix_spawn": (
        f"os.waitpid(os.posix_spawn(child, [child, 'x', '--password={SECRET}'], {{**os.environ, 'LD_PRELOAD': ''}}), 0)"
    ),
    "exec": f"os.execv(child, [child, 'posix', '/dev/null', '/dev/null', '--api-key', {SECRET!r}])",
    "fork and exec": (
        f"os.fork() or os.execve(child, [child, 'posix', '/dev/null', '/dev/null', 'api_key={SECRET}'], {{}})\n"
        "os.wait()"
    ),
    "exec that fails": (
        f"try: os.fork() or os.execv('/nowhere/x', ['x', '--secret', {SECRET!r}])\nexcept OSError: os._exit(0)\n"
        "os.wait()"
    ),
    "vfork": f"subprocess.run([child, 'x', 'TOKEN={SECRET}'], env={{}}, close_fds=False)",
    "code": f"subprocess.run([sys.executable, '-c', 'password=\"{SECRET}\"; open(\"/dev/null\")'])",
    "a Python child's option": f"subprocess.run([sys.executable, '-c', 'pass', '--hf-token', {SECRET!r}])",
    "a path": f"try: open({URL!r})\nexcept OSError: pass",
    "a path that is there": (
        f"open('x?sig={SECRET}', 'w').close()\nfd = os.open('x?sig={SECRET}', 0)\nos.read(os.dup(fd), 1)\n"
        "libc.read(fd, b'xxxxx', 1)"
    ),
    "a file's code": f"exec(compile('import os; os.stat(\"/\")', {URL!r}, 'exec'))",
    "pandas": f"import pandas\ntry: pandas.read_csv({URL!r})\nexcept Exception: pass",
    "fsspec": (
        f"import fsspec, pandas\ntry: pandas.read_csv('ftp://user:{SECRET}@localhost:1/x.csv')\nexcept Exception: pass"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_into_the_log(program: Runner, child: Path, way: str) -> None:
    for module in ("pandas", "fsspec"):
        if module in WAYS[way] and not importlib.util.find_spec(module):
            pytest.skip(f"there is no {module}")
    # GIVEN a program that gives a secret away in this way
    text = f"""import os, subprocess, sys
from ctypes import CDLL, c_void_p
libc, child = CDLL(None), {str(child)!r}
libc.popen.restype = c_void_p
{WAYS[way]}
"""
    # WHEN it is traced with all its children, the program itself having got a secret
    outcome = succeeded(program.traced(text, "--token", SECRET, env=ALL))
    # THEN there is no such thing in the live log, nor in what a reader sees of it
    assert_kept_out(outcome)
    assert [entry["argv"][-2:] for entry in outcome.processes if entry["start"] == "top"] == [["--token", "***"]]


def test_no_way_into_the_packed_log(program: Runner, child: Path) -> None:
    ways = [WAYS[way] for way in ("system", "a child's URL", "posix_spawn", "code", "a path")]
    text = "\n".join(["import os, subprocess, sys", f"child = {str(child)!r}", *ways])
    outcome = succeeded(program.traced(text, "--token", SECRET, env=ALL, log="run.parquet"))
    assert_kept_out(outcome)
    assert text_of(outcome).count("***") >= 6


def test_the_test_finds_what_is_not_a_secret(program: Runner, child: Path) -> None:
    """In the same places another word is found: nothing else keeps it out."""
    text = f"""
    import os, subprocess
    os.system("true otherword1")
    subprocess.run([{str(child)!r}, "x", "otherword2"])
    try: open("https://otherword3@localhost/x?a=otherword4")
    except OSError: pass
    """
    outcome = succeeded(program.traced(text.replace("https", "s3"), "otherword5", env=ALL))
    for n in range(1, 6):
        assert f"otherword{n}".encode() in outcome.path.read_bytes(), n


@pytest.mark.parametrize("redact", ["", "argv", "code"])
@pytest.mark.parametrize(
    "way", ["os.system({0})", "os.popen({0}).close()", "libc.pclose(c_void_p(libc.popen({0}.encode(), b'r')))"]
)
def test_lines_of_shells_are_found(program: Runner, child: Path, way: str, redact: str) -> None:
    # GIVEN a shell whose command has a secret, near the place where words of a process are cut
    command = f"{child} posix data.bin to --password={SECRET} {'x' * 3000} --token {SECRET}; true"
    (program.folder / "data.bin").write_bytes(b"x" * 4096)
    text = f"""import os
from ctypes import CDLL, c_void_p
libc = CDLL(None); libc.popen.restype = c_void_p
{way.format("command")}
"""
    text = text.replace("\nlibc", f"\ncommand = {command!r}\nlibc", 1)
    # WHEN it runs THEN what it and its child do leads to the line
    outcome = succeeded(program.traced(text, env={**ALL, "PYIO_TRACE_REDACT": redact}))
    assert_kept_out(outcome)
    [shell] = [e for e in outcome.processes if e["argv"][0].endswith("sh") and e["ended"] != "exec"]
    assert f"{program.folder}/program.py:5:<module>" in shell["call_stack"]


def test_details_of_calls(program: Runner) -> None:
    # GIVEN calls whose details have a URL, a connection's words and quite ordinary texts
    pytest.importorskip("pandas")
    text = f"""
    import pandas
    frame = pandas.DataFrame({{"a": [1]}})
    for name in ("s3://bucket/token=5/x.csv", {URL!r}, "a=b", "12:30:00"):
        try: frame.to_csv(name)
        except Exception: pass
    """
    # WHEN they are traced THEN a folder of that name in a URL stays, and the secrets do not
    outcome = succeeded(program.traced(text))
    assert_kept_out(outcome)
    assert "s3://bucket/token=5/x.csv" in {row["path"] for row in outcome.select(layer="app")}


def test_a_users_own_span_stays(program: Runner) -> None:
    text = """
    import pyio_trace
    with pyio_trace.span("step", password="theirs"): pass
    """
    outcome = succeeded(program.traced(text))
    assert "theirs" in text_of(outcome)
