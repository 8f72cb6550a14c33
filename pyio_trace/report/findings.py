"""Findings in every format: text, JSON, Markdown, SARIF, annotations of GitHub."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pyio_trace.errors import printable
from pyio_trace.insights.finding import Finding, Site, Verified
from pyio_trace.insights.rule import Rule
from pyio_trace.report.findings_changes import LogFindings, change_fields, changes_lines
from pyio_trace.report.findings_screen import AS_USUAL, View, findings_lines
from pyio_trace.report.findings_text import cost_of, notes, verified_label, verified_text
from pyio_trace.units import seconds

#: Services reject SARIF files with more results.
MOST_RESULTS = 5000
#: Lines of the program that Markdown names for a finding.
_PLACES = 5
_SARIF = "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/main/sarif-2.1/schema/sarif-schema-2.1.0.json"
_LEVELS = {"critical": "error", "warning": "warning", "info": "note", "ok": "none"}
_ANNOTATIONS = {"critical": "error", "warning": "warning", "info": "notice", "ok": "notice"}

Rules = Mapping[str, Rule]


def as_text(found: Sequence[LogFindings], rules: Rules, view: View = AS_USUAL) -> str:
    """Findings, 80 columns wide; of several runs of a program, what changed from the first to the last."""
    lines: list[str] = []
    for one in found:
        if len(found) > 1:
            lines += [*([""] if lines else []), f"==> {printable(one.path)} <=="]
        lines += findings_lines(one.insights, one.run.folder, one.path, view)
    compared = list(changes_lines(found))
    lines += ["", *compared] if compared else []
    return "".join(f"{line}\n" for line in lines)


def as_json(found: Sequence[LogFindings], rules: Rules) -> str:
    """A list of objects: `pyio-trace schema insights` describes them."""
    fields = change_fields(found)
    objects = [{**finding.to_dict(), "log": path, **fields.get(id(finding), {})} for path, finding in _each(found)]
    return json.dumps(objects, indent=1) + "\n"


def _each(found: Sequence[LogFindings]) -> Iterator[tuple[str, Finding]]:
    for one in found:
        for finding in one.insights.findings:
            yield one.path, finding


# ---- Markdown


def as_markdown(found: Sequence[LogFindings], rules: Rules) -> str:
    """A heading for each log and each finding."""
    lines: list[str] = []
    for one in found:
        command = " ".join(one.run.command) or one.path
        lines += [f"# Findings: {_plain(command)}", ""]
        lines += [] if one.insights.findings else ["None.", ""]
        for finding in one.insights.findings:
            lines += [*_section(finding), ""]
        lines += [line for note in notes(one.insights) for line in (_plain(note), "")]
    compared = list(changes_lines(found))
    lines += ["# Changes", "", *_fenced("\n".join(compared), "text"), ""] if compared else []
    return "\n".join(lines)


def _section(finding: Finding) -> Iterator[str]:
    yield f"## {finding.severity}: {_plain(finding.title)}"
    yield ""
    wall = seconds(finding.recoverable.of_wall_ns)
    places = ", ".join(f"`{_code(f'{site.file}:{site.line}')}`" for site in finding.sites[:_PLACES])
    places += f" and {len(finding.sites) - _PLACES} more" if len(finding.sites) > _PLACES else ""
    yield f"{finding.slug}, {cost_of(finding)} of {wall}{', at ' if places else ''}{places}"
    yield ""
    yield from (_plain(evidence.text) for evidence in finding.evidence)
    if finding.remedy is not None:
        yield from ("", _plain(finding.remedy.text))
        for label, code in (("Before", finding.remedy.before), ("After", finding.remedy.after)):
            if code:
                yield from ("", f"{label}:", "", *_fenced(code, "python"))
    yield from ("", f"Confidence: {finding.confidence.level}. Bound: {_plain(finding.recoverable.how)}.", "")
    if finding.verified is not None:
        yield from (f"{_plain(_tried(finding.verified))}.", "")
    yield "Proof:"
    yield from ("", *_fenced(finding.query.text, finding.query.language))


def _tried(verified: Verified) -> str:
    return f"{verified_label(verified).capitalize()}: {verified_text(verified)}"


def _plain(text: str) -> str:
    """Text without anything that Markdown or HTML would act on."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", printable(text))


def _code(text: str) -> str:
    return printable(text).replace("`", "'")


def _fenced(text: str, language: str) -> Iterator[str]:
    fence = "```"
    while fence in text:  # a path may contain one
        fence += "`"
    yield from (f"{fence}{language}", *map(printable, text.split("\n")), fence)


# ---- SARIF


def as_sarif(found: Sequence[LogFindings], rules: Rules) -> str:
    """SARIF 2.1.0, at most MOST_RESULTS results: the first ones."""
    each = [finding for _, finding in _each(found)]
    slugs = sorted({finding.slug for finding in each})
    driver = {
        "name": "pyio_trace",
        "rules": [
            {"id": slug, "shortDescription": {"text": (rules[slug].doc or slug).split("\n", 1)[0]}} for slug in slugs
        ],
    }
    results = [_result(finding, slugs.index(finding.slug)) for finding in each[:MOST_RESULTS]]
    run: dict[str, Any] = {"tool": {"driver": driver}, "results": results}
    if len(each) > MOST_RESULTS:
        run["properties"] = {"resultsLeftOut": len(each) - MOST_RESULTS}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    locations = [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": _uri(site.file)},
                "region": {"startLine": max(site.line, 1)},
            }
        }
        for site in dict.fromkeys(finding.sites)
    ]
    return {
        "ruleId": finding.slug,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "kind": "pass" if finding.severity == "ok" else "fail",
        "message": {"text": _without_links(_message(finding))},
        "locations": locations[:1],
        "relatedLocations": locations[1:],
        "properties": {
            "severity": finding.severity, "recoverable_ns": finding.recoverable_ns,
            "confidence": finding.confidence.value, "query": finding.query.text,
        },
    }  # fmt: skip


def _without_links(text: str) -> str:
    """Text in which [words](place) is no link: SARIF has links in plain text."""
    return re.sub(r"\[(?=[^\[\]]*\]\()", r"\\[", text)


def _message(finding: Finding) -> str:
    texts = [f"{finding.title} ({cost_of(finding)}).", *(evidence.text for evidence in finding.evidence)]
    if finding.remedy is not None:
        texts.append(finding.remedy.text)
    if finding.verified is not None:
        texts.append(f"{_tried(finding.verified)}.")
    return printable(" ".join(texts))


def _uri(path: str) -> str:
    """The URI of a source file, relative if it lies in the current folder: a service knows files of its repository."""
    inside = _inside(path)
    return quote(inside, errors="backslashreplace") if inside else "file://" + quote(path, errors="backslashreplace")


def _inside(path: str) -> str:
    """The path as seen from the current folder, if it lies in it, else ""."""
    try:
        here = os.getcwd().rstrip("/") + "/"
    except OSError:
        return ""
    return path.removeprefix(here) if path.startswith(here) else ""


# ---- annotations of GitHub


def as_annotations(found: Sequence[LogFindings], rules: Rules) -> str:
    """Workflow commands, one line for each finding."""
    return "".join(f"{_annotation(finding)}\n" for _, finding in _each(found))


def _annotation(finding: Finding) -> str:
    place = _properties(finding.sites[0]) if finding.sites else ""
    title = _escaped(f"{finding.slug}: {finding.severity}", property_value=True)
    return f"::{_ANNOTATIONS[finding.severity]} {place}title={title}::{_escaped(_message(finding))}"


def _properties(site: Site) -> str:
    return f"file={_escaped(_inside(site.file) or site.file, property_value=True)},line={max(site.line, 1)},"


def _escaped(text: str, property_value: bool = False) -> str:
    """Text that cannot end a workflow command or begin another one."""
    found = printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return found.replace(":", "%3A").replace(",", "%2C") if property_value else found


#: --format -> what writes it; the first is the default.
FORMATS: dict[str, Callable[[Sequence[LogFindings], Rules], str]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
    "sarif": as_sarif,
    "github": as_annotations,
}
#: Formats that also say what is missing from the findings.
WITH_NOTES = ("text", "markdown")
