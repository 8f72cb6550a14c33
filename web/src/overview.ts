// The first screen: the answer, where the time went, the data, and what to do.

import { type Child, el } from "./dom";
import { type Facts, type Finding, type Kind, type Site, STATES } from "./facts";
import { counted, number, percent, seconds, size } from "./units";

export type Find = (query: string) => void;

/** A state's share of its bar from which on it stands below. */
const LEAST = 0.005;

export function facts_line(facts: Facts): string {
  const { run } = facts;
  const bound = run.wall_is ? `${run.wall_is} ` : "";
  const parts = [`${bound}${seconds(run.wall)}${run.running ? " so far" : ""}`, counted(run.processes, "process", "processes")];
  if (run.cores) parts.push(counted(run.cores, "core"));
  parts.push(counted(run.calls, "call"), run.host, new Date(run.start).toLocaleString("sv-SE").slice(0, 16));
  return parts.filter(Boolean).join(" · ");
}

export function answerCard(facts: Facts): HTMLElement {
  const [first, ...rest] = facts.answer;
  const states = facts.run.states.filter((one) => one !== first);
  return el("section", { class: "card answer", "aria-labelledby": "answer" },
    el("h1", { id: "answer" }, first ?? "No operation was recorded."),
    ...rest.map((text) => el("p", { class: "also" }, text)),
    ...states.map((text) => el("p", { class: "state" }, text)),
    facts.kinds.length ? bars(facts) : null,
    facts.data.length ? data(facts) : null);
}

function bars(facts: Facts): HTMLElement {
  const shown = new Map<string, string>();
  for (const kind of facts.kinds) for (const [state, name] of kind.states) shown.set(state, name);
  const order = Object.keys(STATES).filter((state) => shown.has(state));
  return el("div", { class: "bars" },
    el("ul", { class: "legend" }, ...order.map((state) => el("li", {}, el("span", { class: `swatch ${STATES[state]}` }), shown.get(state) ?? ""))),
    ...facts.kinds.slice(0, 6).map(bar),
    facts.kinds.length > 6 ? el("p", { class: "muted" }, `${counted(facts.kinds.length - 6, "further kind")} of process: see below`) : null,
    ...facts.steps.map((text) => el("p", { class: "step" }, text)));
}

function bar(kind: Kind): HTMLElement {
  const whole = Math.max(kind.wall, 1);
  const strip = el("div", { class: "strip", "aria-hidden": "true" });
  for (const [state, name, time] of kind.states) {
    const part = el("span", { class: STATES[state] ?? "other", title: `${name}: ${seconds(time)}, ${percent(time / whole)}` });
    part.style.flexGrow = String(time / whole);
    strip.append(part);
  }
  const told = kind.states.filter(([, , time]) => time >= LEAST * whole).sort((one, other) => other[2] - one[2]);
  const amounts: Child[] = [];
  const add = (name: string, time: number): void => {
    if (amounts.length) amounts.push(" · ");
    amounts.push(el("span", { class: "whole" }, `${name} `, el("b", {}, seconds(time))));
  };
  for (const [, name, time] of told) add(name, time);
  for (const [name, time] of kind.beside) if (time >= LEAST * whole) add(name, time);
  if (kind.cpu !== null) add("CPU", kind.cpu);
  return el("div", { class: "kind" }, el("div", { class: "who" }, el("b", {}, kind.name), el("span", {}, seconds(kind.wall))), el("div", {}, strip, el("p", { class: "amounts" }, ...amounts)));
}

function data(facts: Facts): HTMLElement {
  const rows = facts.data.map(([what, amount, text]) => el("tr", {}, el("th", { scope: "row" }, what), el("td", { class: "number" }, el("b", {}, amount)), el("td", {}, text)));
  const table = el("table", { class: "data" }, el("tbody", {}, ...rows));
  const { storage } = facts;
  if (!storage) return el("div", { class: "amount" }, table);
  const strip = el("div", { class: "strip thin", role: "img", "aria-label": `at most ${size(storage.storage)} of ${size(storage.read)} read came from storage` });
  for (const [kind, part] of [["storage", storage.storage], ["cache", storage.read - storage.storage]] as const) {
    const piece = el("span", { class: kind });
    piece.style.flexGrow = String(part / Math.max(storage.read, 1));
    strip.append(piece);
  }
  const legend = el("ul", { class: "legend" },
    el("li", {}, el("span", { class: "swatch storage" }), `from storage, at most ${percent(storage.storage / storage.read)}`),
    el("li", {}, el("span", { class: "swatch cache" }), "from the page cache"));
  return el("div", { class: "amount" }, table, strip, legend);
}

export function findingsCard(facts: Facts, find: Find | null): HTMLElement {
  const card = el("section", { class: "card findings", "aria-labelledby": "findings" }, el("h2", { id: "findings" }, "Findings", el("span", {}, "what could be saved")));
  const all = facts.findings;
  if (all === null) card.append(el("p", { class: "muted" }, "Nobody looked for any."));
  else {
    const notable = all.filter((one) => one.notable);
    const small = all.filter((one) => !one.notable);
    notable.slice(0, 5).forEach((one, at) => card.append(finding(one, find, at === 0)));
    if (!notable.length) card.append(el("p", { class: "muted" }, small.length ? "None that is worth a change." : "None: nothing known to be slow was found."));
    const more = [...notable.slice(5), ...small];
    if (more.length) card.append(el("details", { class: "more" }, el("summary", {}, `${counted(more.length, "smaller finding")}`), ...more.map((one) => finding(one, find, false))));
  }
  for (const note of facts.notes) card.append(el("p", { class: "muted note" }, note));
  return card;
}

function finding(one: Finding, find: Find | null, open: boolean): HTMLElement {
  const [bound, amount] = one.time !== null && one.time > 0 ? [one.bound === "upper" ? "up to" : one.bound === "estimate" ? "about" : "measured", seconds(one.time)] : ["", one.cost];
  const place = one.sites[0];
  const made = el("details", { class: `finding ${one.severity}` },
    el("summary", {},
      el("span", { class: "cost" }, bound ? el("small", {}, bound) : null, amount),
      el("span", { class: "title" }, one.title, el("span", { class: "under" }, el("span", { class: "badge" }, one.severity), place ? el("code", {}, place.place) : one.place ? el("code", {}, one.place) : null))),
    el("div", { class: "body" },
      ...one.sites.slice(0, 1).map((site) => source(site)),
      find && place?.find ? el("button", { class: "go", click: () => find(place.find) }, `Show ${place.place} on the timeline`) : null,
      one.remedy ? el("p", {}, one.remedy) : null,
      one.before.length || one.after.length ? el("div", { class: "change" }, code("before", one.before), code("after", one.after)) : null,
      el("details", { class: "why" }, el("summary", {}, "Why"),
        el("ul", {}, ...one.evidence.map((text) => el("li", {}, text))),
        one.files.length ? el("p", {}, "Files: ", el("code", {}, one.files.slice(0, 5).join(", ")), one.files.length > 5 ? ` and ${number(one.files.length - 5)} more` : "") : null,
        el("p", { class: "muted" }, `Confidence ${one.confidence}`),
        el("p", { class: "muted" }, one.time !== null ? `${amount} of ${seconds(one.of_wall)}: ${one.how}` : one.how),
        one.motif ? el("p", { class: "muted" }, one.motif) : null,
        one.sites.length > 1 ? el("p", { class: "muted" }, "Also at ", el("code", {}, one.sites.slice(1).map((site) => site.place).join(", "))) : null)));
  made.open = open;
  return made;
}

function source(site: Site): HTMLElement | null {
  if (!site.source.length) return null;
  return el("pre", { class: "code source" }, ...site.source.map(([line, text]) =>
    el("span", { class: line === site.line ? "line here" : "line" }, el("span", { class: "at" }, String(line)), el("bdi", {}, text || " "))));
}

function code(name: string, lines: string[]): HTMLElement | null {
  return lines.length ? el("div", { class: name }, el("small", {}, name), el("pre", { class: "code" }, el("bdi", {}, lines.join("\n")))) : null;
}

export function notSeenCard(facts: Facts): HTMLElement {
  const card = el("section", { class: "card", "aria-labelledby": "not-seen" }, el("h2", { id: "not-seen" }, "Not seen"));
  const { operations } = facts;
  const list = el("ul", { class: "not-seen" });
  for (const one of facts.not_seen) {
    const text = one.brief || one.text;
    const more = [...(one.brief && one.text !== one.brief ? [one.text] : []), ...one.details];
    list.append(el("li", {}, more.length ? el("details", {}, el("summary", {}, text), el("ul", {}, ...more.map((detail) => el("li", {}, detail)))) : text));
  }
  if (operations.shown < operations.of) list.append(el("li", {}, `On the timeline, ${number(operations.of - operations.shown)} of ${number(operations.of)} operations: none that took longer than ${seconds(operations.longest_left_out)}`));
  for (const [name, count] of Object.entries(operations.left_out)) list.append(el("li", {}, `On the timeline, ${number(count)} different texts of ${name}: there were too many`));
  if (operations.orphans) list.append(el("li", {}, `On the timeline, what is around ${counted(operations.orphans, "operation")}`));
  if (!list.children.length) list.append(el("li", {}, "Nothing is known to be missing."));
  card.append(list);
  const share = facts.cost.share === null ? "" : `, ${percent(facts.cost.share)} of the wall time`;
  card.append(el("p", { class: "muted" }, facts.run.tool ? `Traced by ${facts.run.tool}, whose cost is not in its log.` : `Tracing cost about ${seconds(facts.cost.time)}${share} (estimated).`));
  return card;
}
