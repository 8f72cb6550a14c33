"""docs/how-to/write-a-rule.md shows the code of examples/third_party_rule, which works once it is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from pyio_trace.insights import registry
from tests.support.programs import Outcome, Runner, clean_environment, succeeded

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "third_party_rule"
PAGE = (ROOT / "docs" / "how-to" / "write-a-rule.md").read_text()


def test_the_page_shows_the_example() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert code == (EXAMPLE / "pyio_trace_home_folder.py").read_text()
    tables = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    assert tables[-1] in (EXAMPLE / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example, from a wheel as its build backend makes it."""
    work = tmp_path_factory.mktemp("third-party")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    module = (EXAMPLE / f"{project['tool']['setuptools']['py-modules'][0]}.py").read_text()
    points = project["project"]["entry-points"][registry.GROUP]
    info = "pyio_trace_home_folder-1.0.dist-info"
    wheel = work / "pyio_trace_home_folder-1.0-py3-none-any.whl"
    files = {
        "pyio_trace_home_folder.py": module,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: pyio-trace-home-folder\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[{registry.GROUP}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()),
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(work / "site")]
    subprocess.run([*pip, str(wheel)], check=True, env=clean_environment())
    return work / "site"


def insights(program: Runner, log: Path, *flags: str, **env: str) -> Outcome:
    return program.command([sys.executable, "-P", "-m", "pyio_trace", "insights", log, *flags], env)


PROGRAM = """
import os
os.makedirs("home/me")
with open("home/me/data.bin", "wb") as f: f.write(bytes(SIZE))
"""


def test_the_example_is_found(program: Runner, site: Path) -> None:
    # GIVEN the example, really installed, and a program that writes 2 MiB to a home folder
    log = succeeded(program.traced(PROGRAM.replace("SIZE", "2 << 20"))).path
    # WHEN findings are made THEN the rule's is among them
    objects = json.loads(succeeded(insights(program, log, "--format", "json", PYTHONPATH=str(site))).stdout)
    (finding,) = [one for one in objects if one["slug"] == "home-folder"]
    assert finding["evidence"][0]["values"]["bytes"] == 2 << 20 and finding["sites"][0]["line"] == 4
    # AND a threshold of it can be changed, and it can be left out
    (program.folder / "pyproject.toml").write_text("[tool.pyio_trace.insights.home-folder]\nbytes = 3000000\n")
    assert "home-folder" not in insights(program, log, PYTHONPATH=str(site)).stdout
    (program.folder / "pyproject.toml").unlink()
    assert "home-folder" not in insights(program, log, "--ignore", "home-folder", PYTHONPATH=str(site)).stdout


def test_the_example_is_not_installed(program: Runner) -> None:
    log = succeeded(program.traced(PROGRAM.replace("SIZE", "2 << 20"))).path
    assert "home-folder" not in succeeded(insights(program, log)).stdout


def distribution(folder: Path, point: str, code: str) -> None:
    """What an installer leaves of a distribution with one module and one entry point."""
    (folder / "theirs-1.0.dist-info").mkdir(parents=True)
    (folder / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "theirs-1.0.dist-info" / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{point}\n")
    (folder / "theirs.py").write_text(code)


def test_none_of_the_current_folder(program: Runner) -> None:
    # GIVEN a stranger's folder that looks like an installed distribution WHEN a command runs in it
    distribution(program.folder, "mine = theirs:RULE", "open('ran', 'w').close()")
    log = succeeded(program.traced("pass")).path
    outcome = program.command(
        [sys.executable, "-c", f"from pyio_trace.cli.main import main; main(['insights', {str(log)!r}])"]
    )
    # THEN its code does not run
    assert succeeded(outcome).stdout == "No findings.\n" and not (program.folder / "ran").exists()


EVERYWHERE = """
from pyio_trace.insights.rule import Rule
def find(run, limits): return iter(())
RULE = Rule("theirs", find)
"""


@pytest.mark.parametrize("kind", ["dist-info", "egg-info", "egg", "zip", "another"])
def test_each_kind_of_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    # GIVEN a folder or an archive of the path with a distribution as an installer leaves it, or one without rules
    folder = tmp_path / "site"
    distribution(folder, "mine = theirs:RULE", EVERYWHERE)
    info = folder / "theirs-1.0.dist-info"
    if kind == "egg-info":
        (info / "METADATA").rename(info / "PKG-INFO")
        info.rename(folder / "theirs.egg-info")
    elif kind == "egg":
        (info / "METADATA").rename(info / "PKG-INFO")
        info.rename(folder / "EGG-INFO")
        folder = folder.rename(tmp_path / "theirs-1.0.egg")
    elif kind == "zip":
        with zipfile.ZipFile(tmp_path / "site.zip", "w") as archive:
            for path in folder.rglob("*.*"):
                archive.write(path, path.relative_to(folder))
        folder = tmp_path / "site.zip"
    elif kind == "another":
        (info / "entry_points.txt").write_text("[console_scripts]\nmine = theirs:RULE\n")
    monkeypatch.setattr(sys, "path", [str(folder), str(tmp_path / "missing"), *sys.path])
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    # THEN its rules are found
    assert ("mine" in registry.found()) == (kind != "another")
    monkeypatch.delitem(sys.modules, "theirs", raising=False)


FAILING = """
from pyio_trace.insights.rule import Rule
def find(run, limits): raise RuntimeError("\\x1b[31mno")
RULE = Rule("theirs", find)
"""


@pytest.mark.parametrize(
    ("point", "code", "status", "words"),
    [
        ("mine = theirs:RULE", FAILING, 0, "The rule mine failed: RuntimeError: \\x1b[31mno"),
        ("mine = theirs:RULE", "raise SyntaxError('no')", 2, "cannot be loaded (SyntaxError: no)"),
        ("mine = theirs:RULE", "RULE = 3", 2, "is no pyio_trace.rules.Rule"),
        ("My_Rule = theirs:RULE", FAILING, 2, "its name is no slug"),
        ("stat-storm = theirs:RULE", FAILING, 0, "No findings."),
    ],
)
def test_rules_that_do_not_work(program: Runner, point: str, code: str, status: int, words: str) -> None:
    distribution(program.folder / "site", point, code)
    log = succeeded(program.traced("pass")).path
    outcome = insights(program, log, PYTHONPATH=str(program.folder / "site"))
    assert outcome.status == status and words in outcome.stdout + outcome.stderr
    assert "\x1b" not in outcome.stdout + outcome.stderr and "Traceback" not in outcome.stderr
