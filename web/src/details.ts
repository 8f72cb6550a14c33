// What is known of the selected operation: what it did, what it is part of, what is in it, and its stack.

import type { More, Operations } from "./data";
import { type Child, el } from "./dom";
import type { Facts } from "./facts";
import { threadName } from "./labels";
import { CLASSES, type Model } from "./model";
import { counted, moment, number, seconds, size } from "./units";

const MOST_CHILDREN = 12;
/** Rows that are looked through for children. */
const MOST_LOOKED = 2_000_000;

export class Details {
  readonly element = el("section", { class: "details", "aria-live": "polite", "aria-label": "Selected operation", hidden: "" });

  constructor(private readonly facts: Facts, public model: Model, private readonly select: (row: number) => void) {}

  hide(): void {
    this.element.hidden = true;
  }

  show(row: number, more: More): void {
    const { operations } = this.model;
    const kind = operations.kinds[operations.kind[row]];
    const klass = CLASSES[this.model.klass[operations.kind[row]]];
    this.element.replaceChildren(
      el("div", {},
        el("h3", {}, el("span", { class: `swatch ${klass}` }), kind.op, " ", el("b", {}, this.took(row)), el("span", { class: "muted" }, ` ${kind.layer}`)),
        el("dl", {}, ...this.facts_of(row, more).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
        this.source(row, more)),
      this.tree(row, more),
      this.stack(row, more),
    );
    this.element.hidden = false;
  }

  took(row: number): string {
    const took = this.model.operations.duration[row];
    return Number.isNaN(took) ? "had not returned" : seconds(took);
  }

  private facts_of(row: number, more: More): [string, Child][] {
    const { operations } = this.model;
    const found: [string, Child][] = [];
    const path = more.pathOf(row);
    if (path) found.push(["path", el("code", {}, el("bdi", {}, path))]);
    const [requested, moved, offset] = [more.requested[row], more.moved[row], more.offset[row]];
    if (!Number.isNaN(offset)) found.push(["offset", bytes(offset)]);
    if (!Number.isNaN(requested)) {
      const rest = Number.isNaN(moved) ? "" : moved === requested ? ", all moved" : `, moved ${bytes(moved)}`;
      found.push(["asked", bytes(requested) + rest]);
    } else if (!Number.isNaN(moved)) found.push(["moved", bytes(moved)]);
    if (more.errno[row]) found.push(["failed", more.errno[row] < 0 ? "raised an exception" : `errno ${more.errno[row]}`]);
    if (more.calls[row] > 1) found.push(["calls", `${number(more.calls[row])}, one after the other; times are their sum${operations.extent[row] ? `, over ${seconds(operations.extent[row])}` : ""}`]);
    if (!Number.isNaN(more.cpu[row])) found.push(["CPU", seconds(more.cpu[row])]);
    if (!Number.isNaN(more.fd[row])) found.push(["descriptor", String(more.fd[row])]);
    if (more.command[row]) found.push(["command", more.commands[more.command[row] - 1]]);
    found.push(["began", moment(operations.time[row], 1000)]);
    const lane = operations.lanes[operations.laneOf(row)];
    const process = this.facts.processes.find((one) => one.index === lane.process);
    const thread = threadName(lane, process?.pid);
    found.push(["process", `${process ? `${process.name} (${process.pid})` : "not known"}, ${thread}`]);
    const link = more.link[row] ? more.links[more.link[row] - 1] : "";
    if (link && link !== "thread" && link !== "none") found.push(["parent by", link]);
    if (more.submitted[row]) found.push(["line", "submitted the work that this thread did"]);
    const detail = more.detail[row] ? more.details[more.detail[row] - 1] : "";
    if (detail) found.push(["detail", el("code", {}, el("bdi", {}, detail))]);
    return found;
  }

  private source(row: number, more: More): HTMLElement | null {
    const site = more.siteOf(row);
    if (!site) return null;
    const line = this.facts.sources[site];
    return el("div", { class: "site" }, el("code", { class: "place" }, el("bdi", {}, short(site))), line ? el("pre", { class: "code" }, el("bdi", {}, line)) : null);
  }

  private link(row: number, text: string, after: string, current = false): HTMLElement {
    const node = current ? el("b", {}, text) : el("button", { class: "link", click: () => this.select(row) }, text);
    return el("li", {}, node, " ", el("span", { class: "muted" }, after));
  }

  private tree(row: number, more: More): HTMLElement {
    const { operations } = this.model;
    const op = (one: number): string => operations.kinds[operations.kind[one]].op;
    const around = more.ancestors(row).reverse();
    const { groups, left } = children(row, operations, more);
    const list = el("ul", { class: "tree" });
    let inner = list;
    for (const one of around) {
      inner.append(this.link(one, op(one), this.took(one)));
      const next = el("ul");
      inner.append(next);
      inner = next;
    }
    inner.append(this.link(row, op(row), this.took(row), true));
    const within = el("ul");
    inner.append(within);
    for (const group of groups.slice(0, MOST_CHILDREN)) within.append(this.link(group.first, `${number(group.count)} ${group.op}`, seconds(group.time)));
    if (groups.length > MOST_CHILDREN) within.append(el("li", { class: "muted" }, `${counted(groups.length - MOST_CHILDREN, "further kind")}`));
    if (left) within.append(el("li", { class: "muted" }, "and more, not looked through"));
    const known = around.length || groups.length;
    return el("div", {}, el("h4", {}, "What it is part of, and what is in it"), list, known ? null : el("p", { class: "muted" }, "It is in no other call, and none was recorded in it."));
  }

  private stack(row: number, more: More): HTMLElement {
    const frames = more.stackOf(row);
    const own = (text: string): boolean => !/site-packages|dist-packages|\/lib\/python|<frozen|^[^/]/.test(text);
    return el("div", {}, el("h4", {}, "Stack, innermost first"),
      frames.length ? el("ol", { class: "stack" }, ...frames.map((text) => el("li", { class: own(text) ? "own" : "", title: text }, el("bdi", {}, short(text)))))
        : el("p", { class: "muted" }, "No Python stack is known."));
  }
}

/** file:line:function, with the last folder only. */
export function short(frame: string): string {
  const match = /^(.*):(\d+):([^:]*)$/.exec(frame);
  if (!match) return frame;
  const parts = match[1].split("/");
  const packages = parts.findIndex((one) => one === "site-packages" || one === "dist-packages");
  const file = packages >= 0 ? parts.slice(packages + 1).join("/") : parts.slice(-2).join("/");
  return `${file}:${match[2]}  ${match[3]}`;
}

function bytes(count: number): string {
  const about = count > Number.MAX_SAFE_INTEGER ? "about " : "";
  return count < 1024 ? `${count} B` : `${about}${number(count)} B (${size(count)})`;
}

/** The direct children of a row by operation, the longest first. */
function children(row: number, operations: Operations, more: More): { groups: { op: string; first: number; count: number; time: number }[]; left: boolean } {
  const found = new Map<number, { op: string; first: number; count: number; time: number }>();
  let looked = 0;
  for (let lane = 0; lane < operations.lanes.length && looked < MOST_LOOKED; lane++) {
    const { first, count } = operations.lanes[lane];
    for (let at = first; at < first + count; at++) {
      if (more.parent[at] !== row) continue;
      const kind = operations.kind[at];
      const group = found.get(kind) ?? { op: operations.kinds[kind].op, first: at, count: 0, time: 0 };
      group.count += more.calls[at];
      group.time += operations.duration[at] || 0;
      found.set(kind, group);
    }
    looked += count;
  }
  return { groups: [...found.values()].sort((one, other) => other.time - one.time), left: looked < operations.count };
}
