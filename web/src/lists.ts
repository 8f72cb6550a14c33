// The tables of lines, files and processes.

import { el } from "./dom";
import type { Facts, FileGroup, Line, Process } from "./facts";
import type { Find } from "./overview";
import { type Column, Table } from "./tables";
import { number, seconds, size } from "./units";

const none = "–";

export function linesTable(facts: Facts, find: Find): Table<Line> {
  const most = Math.max(...facts.lines.map((one) => one.time), 1);
  const share = (one: Line): HTMLElement => {
    const bar = el("span", { class: "share", "aria-hidden": "true" });
    const io = el("span", { class: "io" });
    bar.style.width = `${Math.max((one.time / most) * 72, 2)}px`;
    io.style.width = `${(Math.min(one.io, one.time) / Math.max(one.time, 1)) * 100}%`;
    bar.append(io);
    return bar;
  };
  const columns: Column<Line>[] = [
    { name: facts.sampled ? "wall" : "time", key: (one) => one.time, cell: (one) => el("b", {}, seconds(one.time)), kind: "number" },
    { name: "of it I/O", key: (one) => one.io, cell: (one) => (one.io ? seconds(one.io) : none), kind: "number" },
    { name: "", key: (one) => one.time, cell: share, kind: "bar" },
    { name: "line and what it did", key: (one) => one.place, kind: "wide", cell: (one) => el("span", {}, one.find ? el("button", { class: "link mono", click: () => find(one.find) }, one.place) : el("span", { class: "mono" }, one.place), one.what ? el("span", { class: "what" }, ` ${one.what}`) : null) },
  ];
  return new Table("Lines", columns, facts.lines, (one) => `${one.find} ${one.place} ${one.what}`, (one) => one.find && find(one.find));
}

const ROLES: Record<string, string> = { temporary: "temporary", "shared-memory": "shared memory", library: "library", device: "device" };

export function filesTable(facts: Facts, find: Find): Table<FileGroup> {
  const columns: Column<FileGroup>[] = [
    { name: "time", key: (one) => one.time, cell: (one) => el("b", {}, seconds(one.time)), kind: "number" },
    { name: "files", key: (one) => one.files, cell: (one) => number(one.files), kind: "number" },
    { name: "opens", key: (one) => one.opens, cell: (one) => number(one.opens), kind: "number wide-only" },
    { name: "read", key: (one) => one.read, cell: (one) => (one.read ? size(one.read) : none), kind: "number" },
    { name: "written", key: (one) => one.written, cell: (one) => (one.written ? size(one.written) : none), kind: "number" },
    { name: "name", key: (one) => one.name, kind: "wide", cell: (one) => el("span", {}, el("button", { class: "link mono", click: () => find(quoted(one.find)) }, el("bdi", {}, one.name)), ROLES[one.role] ? el("span", { class: "tag" }, ROLES[one.role]) : null) },
  ];
  const data = facts.files.filter((one) => one.role !== "library");
  return new Table("Files", columns, data, (one) => `${one.name} ${one.find} ${one.role}`, (one) => find(quoted(one.find)));
}

function quoted(text: string): string {
  return /\s/.test(text) ? `"${text}"` : text;
}

export function processTable(facts: Facts, find: Find): Table<[Process, number]> {
  // Pools end their workers by SIGTERM.
  const bad = (ended: string, depth: number): boolean => /^(signal|lost|exit [1-9])/.test(ended) && !(depth && ended.startsWith("signal 15 "));
  const columns: Column<[Process, number]>[] = [
    { name: "process", key: ([one]) => one.index, kind: "wide", cell: ([one, depth]) => {
      const cell = el("span", { class: "process" }, el("b", {}, one.name), el("span", { class: "muted" }, ` ${one.pid}${one.rank === null ? "" : `, rank ${one.rank}`}`));
      cell.style.paddingLeft = `${Math.min(depth, 12) * 18}px`;
      cell.title = one.argv;
      return cell;
    } },
    { name: "started by", key: ([one]) => one.site, cell: ([one]) => (one.site ? one.find ? el("button", { class: "link mono whole", click: () => find(one.find) }, one.site) : one.site : none) },
    { name: "began", key: ([one]) => one.begin, cell: ([one]) => seconds(one.begin), kind: "number" },
    { name: "wall", key: ([one]) => one.wall ?? 0, cell: ([one]) => (one.wall === undefined ? none : seconds(one.wall)), kind: "number" },
    { name: "in calls", key: ([one]) => one.busy ?? 0, cell: ([one]) => (one.busy ? seconds(one.busy) : none), kind: "number" },
    { name: "calls", key: ([one]) => one.calls ?? 0, cell: ([one]) => (one.calls ? number(one.calls) : none), kind: "number" },
    { name: "read", key: ([one]) => one.read ?? 0, cell: ([one]) => (one.read ? size(one.read) : none), kind: "number" },
    { name: "from storage", key: ([one]) => one.storage ?? -1, cell: ([one]) => (one.storage === null || one.storage === undefined ? "?" : one.storage ? size(one.storage) : none), kind: "number" },
    { name: "written", key: ([one]) => one.written ?? 0, cell: ([one]) => (one.written ? size(one.written) : none), kind: "number" },
    { name: "ended", key: ([one]) => one.ended, cell: ([one, depth]) => el("span", { class: bad(one.ended, depth) ? "ended bad" : "ended" }, one.ended + (one.followed ? "" : ", not followed")) },
  ];
  return new Table("Processes", columns, nested(facts.processes), ([one]) => `${one.name} ${one.pid} ${one.argv} ${one.ended} ${one.site}`, null, 20, false);
}

/** Each process after the one that started it, and how deep it is. */
function nested(processes: Process[]): [Process, number][] {
  const depths = new Map<number, number>();
  const known = new Map(processes.map((one) => [one.index, one]));
  const children = new Map<number, Process[]>();
  const top: Process[] = [];
  for (const one of processes) {
    if (one.parent === null || !known.has(one.parent) || one.parent === one.index) top.push(one);
    else children.set(one.parent, [...(children.get(one.parent) ?? []), one]);
  }
  const found: [Process, number][] = [];
  const open = top.map((one): [Process, number] => [one, 0]).reverse();
  while (open.length) {
    const [one, depth] = open.pop() as [Process, number];
    if (depths.has(one.index)) continue;
    depths.set(one.index, depth);
    found.push([one, depth]);
    for (const child of (children.get(one.index) ?? []).reverse()) open.push([child, depth + 1]);
  }
  for (const one of processes) if (!depths.has(one.index)) found.push([one, 0]);
  return found;
}
