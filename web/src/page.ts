// Puts the page together: the cards, the search that links them, and the keys.

import "./page.css";
import { inPage, Operations } from "./data";
import { Details, short } from "./details";
import { el, json } from "./dom";
import type { Facts } from "./facts";
import { helpDialog } from "./help";
import { legend, range } from "./labels";
import { filesTable, linesTable, processTable } from "./lists";
import { Model } from "./model";
import { answerCard, facts_line, findingsCard, notSeenCard } from "./overview";
import { type Found, linked, search } from "./search";
import { type Part, Parts } from "./server";
import { nextTheme, startTheme, themeName } from "./theme";
import { Timeline } from "./timeline";
import * as units from "./units";
import { counted, number, seconds } from "./units";

const facts = json<Facts>("facts");

class Page {
  private readonly box = el("input", { type: "search", placeholder: "Search path, operation, line …", "aria-label": "Search paths, operations, lines, processes", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" });
  private readonly count = el("span", { class: "count", role: "status" });
  private readonly theme = el("button", { class: "button", "aria-keyshortcuts": "t" }, themeName());
  private readonly help = helpDialog();
  private readonly tip = el("div", { class: "tip", role: "tooltip", hidden: "" });
  private readonly range = el("span", { class: "range muted" });
  private readonly inView = el("details", { class: "in-view" }, el("summary", {}, "The longest operations in view, as a table"));
  private readonly lines = linesTable(facts, (query) => this.find(query));
  private readonly files = filesTable(facts, (query) => this.find(query));
  private readonly processes = processTable(facts, (query) => this.find(query));
  private readonly place = el("div", { class: "place-of-timeline" }, el("p", { class: "muted loading" }, "Reading the operations …"));
  private readonly card = el("section", { class: "card timeline", id: "timeline-card", "aria-labelledby": "timeline-title" });
  private others: HTMLElement[] = [];
  private timeline: Timeline | null = null;
  private model: Model | null = null;
  private details: Details | null = null;
  private found: Found | null = null;
  private typing = 0;
  private parts: Parts | null = null;
  private part: Part = { level: 0, place: 0 };
  private waiting = 0;

  build(): void {
    document.body.prepend(this.header(), this.main());
    // Each further card goes where there is room.
    const [left, right] = document.querySelectorAll<HTMLElement>(".column");
    const end = (column: HTMLElement): number => (column.lastElementChild as HTMLElement).getBoundingClientRect().bottom;
    for (const card of this.others) (end(left) <= end(right) ? left : right).append(card);
    document.body.append(this.help, this.tip);
    this.box.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = window.setTimeout(() => void this.search(), 120);
    });
    this.theme.addEventListener("click", () => this.changeTheme());
    window.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.timeline?.recolour());
  }

  private header(): HTMLElement {
    const help = el("button", { class: "button round", "aria-label": "Keys and help", "aria-keyshortcuts": "?", click: () => this.help.showModal() }, "?");
    return el("header", { class: "top" },
      el("div", { class: "name" }, el("strong", { title: facts.run.argv }, facts.run.command), el("span", { class: "muted" }, facts_line(facts))),
      el("div", { class: "tools" }, el("label", { class: "search" }, this.box, el("kbd", { "aria-hidden": "true" }, "/")), this.count, this.theme, help));
  }

  private main(): HTMLElement {
    const pictures = [...document.querySelectorAll<HTMLElement>("figure.picture")];
    for (const one of pictures) one.hidden = false;
    const { more } = facts;
    const missing = (count: number): HTMLElement | null => (count ? el("p", { class: "muted" }, `${number(count)} more are not in this page`) : null);
    const lines = el("section", { class: "card" }, el("h2", {}, "Lines", el("span", {}, facts.sampled ? "wall time they held, blue: I/O in it" : "time in what they asked for, blue: I/O in it")), this.lines.element, missing(more.lines));
    const files = el("section", { class: "card" }, el("h2", {}, "Files", el("span", {}, "time in calls on them")), this.files.element, missing(more.files));
    const left = el("div", { class: "column" }, answerCard(facts), facts.lines.length ? lines : null);
    const right = el("div", { class: "column" }, findingsCard(facts, facts.operations.shown ? (query) => this.find(query) : null));
    this.others = [...(facts.files.length ? [files] : []), notSeenCard(facts)];
    return el("main", {},
      el("div", { class: "row first" }, left, right),
      this.timelineCard(),
      pictures.length ? el("div", { class: "pictures" }, ...pictures) : null,
      el("section", { class: "card" }, el("h2", {}, "Processes", el("span", {}, "who started them, how they ended")), this.processes.element, missing(facts.processes_more)),
      el("footer", { class: "muted" }, `${facts.run.log} · run ${facts.run.run} · made by pyio_trace · ${facts.served ? "this page asks the server on this machine, and nobody else" : "this file asks for nothing from anywhere"}`));
  }

  private timelineCard(): HTMLElement {
    const { operations, run } = facts;
    this.card.append(el("h2", { id: "timeline-title" }, "Timeline"));
    if (operations.shown) this.card.append(this.place);
    else {
      const why = run.mode === "profile" ? "Mode profile counts operations and keeps none of them, so there is no timeline."
        : operations.of ? "No operation was to be on the timeline." : "No operation is in the log.";
      this.card.append(el("p", { class: "muted" }, why));
    }
    return this.card;
  }

  async openTimeline(): Promise<void> {
    if (!facts.operations.shown) return;
    const operations = await Operations.read(inPage());
    const model = modelOf(operations);
    if (facts.served) this.parts = new Parts(...facts.span, operations);
    const timeline = new Timeline(model, {
      selected: (row) => void this.selected(row),
      hovered: (row, x, y) => this.hovered(row, x, y),
      viewed: () => this.viewed(),
    });
    this.model = model;
    this.timeline = timeline;
    this.details = new Details(facts, model, (row) => timeline.select(row));
    const button = (text: string, label: string, act: () => void): HTMLElement => el("button", { class: "button", "aria-label": label, click: act }, text);
    const bar = el("div", { class: "toolbar" }, this.range, legend(model),
      el("span", { class: "buttons" }, button("−", "Zoom out (s)", () => timeline.zoom(2)), button("+", "Zoom in (w)", () => timeline.zoom(0.5)), button("Whole run", "Whole run (0)", () => timeline.show(timeline.whole))));
    this.card.querySelector("h2")?.after(bar);
    this.place.replaceChildren(timeline.element, this.details.element, this.inView, ...this.rest());
    this.inView.addEventListener("toggle", () => this.viewed());
    timeline.resize();
    new ResizeObserver(() => timeline.resize()).observe(this.place);
    Object.assign(window, { pyioTrace: { timeline, model, operations, units } });
    document.documentElement.dataset["ready"] = "1";
  }

  /** What is not on the timeline, as sums. */
  private rest(): HTMLElement[] {
    const { rest, of, shown, longest_left_out } = facts.operations;
    if (!rest.length) return [];
    const rows = rest.map((one) => el("tr", {}, el("td", { class: "number" }, seconds(one.time)), el("td", { class: "number" }, number(one.calls)), el("td", {}, one.op), el("td", { class: "muted" }, one.layer)));
    return [el("details", { class: "rest", open: "" },
      el("summary", {}, `The ${number(shown)} longest of ${number(of)} operations are shown. The others took at most ${seconds(longest_left_out)} each, and together:`),
      el("table", {}, el("thead", {}, el("tr", {}, ...["time", "calls", "operation", "layer"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, ...rows)))];
  }

  private async selected(row: number): Promise<void> {
    const { model, details, timeline } = this;
    if (!model || !details || !timeline) return;
    if (row < 0) return details.hide();
    const more = await model.operations.rest();
    if (timeline.selected === row) details.show(row, more);
  }

  private hovered(row: number, x: number, y: number): void {
    const { model } = this;
    this.tip.hidden = row < 0;
    if (row < 0 || !model) return;
    const { operations } = model;
    const more = operations.more;
    const took = operations.duration[row];
    this.tip.replaceChildren(el("b", {}, operations.kinds[operations.kind[row]].op), " ", Number.isNaN(took) ? "had not returned" : seconds(took));
    if (more) {
      const path = more.pathOf(row);
      if (path) this.tip.append(el("code", {}, el("bdi", {}, path.length > 60 ? `…${path.slice(-60)}` : path)));
      if (more.siteOf(row)) this.tip.append(el("span", { class: "muted" }, short(more.siteOf(row))));
    } else void operations.rest();
    const box = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.min(x + 14, innerWidth - box.width - 8)}px`;
    this.tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  }

  private viewed(): void {
    const { timeline, model } = this;
    if (!timeline || !model) return;
    this.range.textContent = range(timeline.view, model);
    if (this.inView.open) void this.table();
    const wanted = this.parts?.wanted(timeline.view);
    if (!wanted || (wanted.level === this.part.level && wanted.place === this.part.place)) return;
    this.part = wanted;
    clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => void this.read(wanted), 60);
  }

  /** Shows another part of the run, of a log with a server. */
  private async read(part: Part): Promise<void> {
    const { parts, timeline, model, details } = this;
    if (!parts || !timeline || !model || !details) return;
    this.card.setAttribute("aria-busy", "true");
    let operations: Operations | null;
    try {
      operations = await parts.read(part);
    } catch (error) {
      this.range.textContent = `The server does not answer: ${error instanceof Error ? error.message : "it has ended"}`;
      return;
    }
    if (!operations || part !== this.part) return;
    this.card.removeAttribute("aria-busy");
    const id = timeline.selected >= 0 ? model.operations.id?.[timeline.selected] : undefined;
    const selected = id === undefined ? -1 : operations.id?.indexOf(id) ?? -1;
    this.model = modelOf(operations);
    details.model = this.model;
    timeline.replace(this.model, selected);
    Object.assign(window, { pyioTrace: { timeline, model: this.model, operations, units } });
    document.documentElement.dataset["part"] = `${part.level}/${part.place}`;
    if (this.box.value.trim()) await this.search();
    await this.selected(selected);
  }

  /** The picture as a table. */
  private async table(): Promise<void> {
    const { timeline, model } = this;
    if (!timeline || !model) return;
    const { operations } = model;
    const more = await operations.rest();
    const rows = timeline.longestInView(50).map((row) => {
      const lane = operations.lanes[operations.laneOf(row)];
      const process = facts.processes.find((one) => one.index === lane.process);
      return el("tr", {}, el("td", { class: "number" }, seconds(model.busy(row))), el("td", { class: "number" }, seconds(operations.time[row])),
        el("td", {}, el("button", { class: "link", click: () => timeline.select(row) }, operations.kinds[operations.kind[row]].op)),
        el("td", {}, process?.name ?? ""), el("td", { class: "mono" }, el("bdi", {}, more.pathOf(row))), el("td", { class: "mono" }, short(more.siteOf(row))));
    });
    const head = el("tr", {}, ...["took", "began", "operation", "process", "path", "line"].map((name) => el("th", { scope: "col" }, name)));
    const held = this.inView.contains(document.activeElement);
    if (held) return;
    this.inView.replaceChildren(this.inView.firstElementChild as Element, el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))));
  }

  /** Searches, and shows what is found. */
  private find(query: string): void {
    this.box.value = query;
    void this.search().then(() => {
      this.toFound();
      this.card.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
    });
  }

  private async search(): Promise<void> {
    const query = this.box.value.trim();
    const operations = this.model?.operations;
    const more = query && operations ? await operations.rest() : null;
    if (query !== this.box.value.trim()) return;
    this.found = operations && more ? search(query, operations, more, facts.processes) : null;
    const link = operations && more && this.found ? linked(this.found, operations, more) : null;
    this.lines.filter(query, link && ((row) => link.line(row.find)));
    this.files.filter(query, link && ((row) => link.file(row.find)));
    this.processes.filter(query, link && (([one]) => link.process(one.index)));
    if (!operations || !this.timeline) return;
    this.count.textContent = this.found ? `${number(this.found.count)} of ${counted(operations.count, "operation")}${this.parts ? " in view" : ""}` : "";
    this.timeline.highlight(this.found ? this.found.marks : null);
  }

  /** Zooms to what was found. */
  private toFound(): void {
    const { found, timeline, model } = this;
    if (!found?.count || !timeline || !model) return;
    const { time } = model.operations;
    let [from, to, most] = [Infinity, -Infinity, -1];
    for (let row = 0; row < found.marks.length; row++) {
      if (!found.marks[row]) continue;
      from = Math.min(from, time[row]);
      to = Math.max(to, time[row] + model.length[row]);
      if (most < 0 || model.busy(row) > model.busy(most)) most = row;
    }
    const room = Math.max((to - from) * 0.04, 1000);
    timeline.show({ from: from - room, to: to + room });
    timeline.select(most);
  }

  private next(step: number): void {
    const { found, timeline, model } = this;
    if (!timeline || !model) return;
    const marks = found?.marks;
    const { count } = model.operations;
    let row = timeline.selected;
    for (let tried = 0; tried < count; tried++) {
      row = (row + step + count) % count;
      if (!marks || marks[row]) return timeline.select(row);
    }
  }

  private async relative(key: string): Promise<void> {
    const { timeline, model } = this;
    if (!timeline || !model) return;
    if (timeline.selected < 0) return timeline.select(timeline.longestInView(1)[0] ?? -1);
    const more = await model.operations.rest();
    const row = timeline.selected;
    if (key === "ArrowUp" && more.parent[row] >= 0) timeline.select(more.parent[row]);
    if (key === "ArrowDown") {
      const lane = model.operations.lanes[model.operations.laneOf(row)];
      for (let at = row + 1; at < lane.first + lane.count; at++) if (more.parent[at] === row) return timeline.select(at);
    }
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const beside = timeline.beside(key === "ArrowLeft" ? -1 : 1);
      if (beside >= 0) timeline.select(beside);
    }
  }

  private changeTheme(): void {
    nextTheme();
    this.theme.textContent = themeName();
    this.timeline?.recolour();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    const { timeline } = this;
    const target = event.target as HTMLElement;
    if (target === this.box) {
      if (event.key === "Escape") {
        this.box.value = "";
        void this.search();
        this.box.blur();
      } else if (event.key === "Enter") {
        void this.search().then(() => this.toFound());
        timeline?.focus();
      }
      return;
    }
    const isControl = target.closest("button, summary, a, input") !== null;
    if (event.key === "Enter" && isControl) return;
    const scrolls = event.key.startsWith("Arrow") && target !== document.body && !target.closest(".lanes-box, .details");
    if (scrolls) return;
    const acts: Record<string, () => void> = {
      w: () => timeline?.zoomHere(0.6), s: () => timeline?.zoomHere(1 / 0.6), a: () => timeline?.pan(-0.25), d: () => timeline?.pan(0.25),
      "0": () => timeline?.show(timeline.whole), f: () => timeline && timeline.selected >= 0 && timeline.select(timeline.selected, true),
      "/": () => this.box.select(), Enter: () => (this.found ? this.toFound() : void this.relative("Enter")), n: () => this.next(1), N: () => this.next(-1),
      t: () => this.changeTheme(), "?": () => this.help.showModal(), Escape: () => this.escape(),
      ArrowLeft: () => void this.relative(event.key), ArrowRight: () => void this.relative(event.key), ArrowUp: () => void this.relative(event.key), ArrowDown: () => void this.relative(event.key),
    };
    const act = acts[event.key];
    if (!act) return;
    if (event.key.startsWith("Arrow") && target === document.body && (timeline?.selected ?? -1) < 0) return;
    event.preventDefault();
    act();
  }

  private escape(): void {
    if (this.timeline && this.timeline.selected >= 0) this.timeline.select(-1);
    else if (this.box.value) {
      this.box.value = "";
      void this.search();
    }
  }
}

function modelOf(operations: Operations): Model {
  return new Model(operations, facts.processes, facts.run.wall, facts.span);
}

startTheme();
const page = new Page();
page.build();
// The first screen is drawn before the operations are read.
requestAnimationFrame(() => setTimeout(() => void page.openTimeline()));
