// Finds operations by words: in paths, names of operations, layers, lines, processes and details.  A word with a line
// number (train.py:9) finds what that line led to, a * stands for any text, and >5ms for what took longer.

import type { More, Operations } from "./data";
import type { Process } from "./facts";

export interface Found { marks: Uint8Array; count: number; first: number; last: number; busy: number }

type Test = (text: string) => boolean;

const UNITS: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };
const LINE = /[^\s:]:\d+$/;

/** Whether a text of the page (a row of a table) has all words. */
export function tester(query: string): Test {
  const tests = words(query).map(testOf);
  return (text) => tests.every((test) => test(text));
}

function words(query: string): string[] {
  return (query.match(/"[^"]*"|\S+/g) ?? []).map((one) => one.replace(/^"|"$/g, "")).filter(Boolean);
}

function testOf(word: string): Test {
  const small = word.toLowerCase();
  if (LINE.test(small)) {
    return (text) => {
      const lower = text.toLowerCase();
      for (let at = lower.indexOf(small); at >= 0; at = lower.indexOf(small, at + 1)) {
        const before = at ? lower[at - 1] : "/";
        const after = lower[at + small.length] ?? "";
        if (!/\d/.test(after) && !/[\w.-]/.test(before)) return true;
      }
      return false;
    };
  }
  if (small.includes("*")) return (text) => globbed(small.split("*"), text.toLowerCase(), false);
  return (text) => text.toLowerCase().includes(small);
}

export function search(query: string, operations: Operations, more: More, processes: Process[]): Found | null {
  const all = words(query);
  if (!all.length) return null;
  const { count } = operations;
  const marks = new Uint8Array(count).fill(1);
  for (const word of all) keep(word, marks, operations, more, processes);
  const found: Found = { marks, count: 0, first: -1, last: -1, busy: 0 };
  for (let row = 0; row < count; row++) {
    if (!marks[row]) continue;
    found.count++;
    if (found.first < 0) found.first = row;
    found.last = row;
  }
  return found;
}

/** Which rows of the tables what was found belongs to. */
export interface Linked { file: (pattern: string) => boolean; line: (line: string) => boolean; process: (index: number) => boolean }

/** Distinct paths, and lines, that are compared with the rows of a table. */
const MOST_LINKED = 5000;

export function linked(found: Found, operations: Operations, more: More): Linked {
  const [paths, sites, processes] = [new Set<number>(), new Set<number>(), new Set<number>()];
  for (const lane of operations.lanes)
    for (let row = lane.first; row < lane.first + lane.count; row++) {
      if (!found.marks[row]) continue;
      processes.add(lane.process);
      if (more.path[row] && paths.size < MOST_LINKED) paths.add(more.path[row]);
      if (more.site[row] && sites.size < MOST_LINKED) sites.add(more.site[row]);
    }
  const names = [...paths].map((code) => more.paths[code - 1]);
  const lines = [...sites].map((code) => more.frames[more.nodes[2 * more.sites[code - 1]]] ?? "");
  const file = (pattern: string): boolean => {
    const parts = pattern.split("*");
    return names.some((name) => globbed(parts, name, true));
  };
  return { file, line: (line) => line !== "" && lines.some(testOf(line)), process: (index) => processes.has(index) };
}

/** Whether the parts stand in a text one after the other; whole: and are all of it but what is between them.  No
 *  regular expression: a log may have patterns for which one takes for ever. */
function globbed(parts: string[], text: string, whole: boolean): boolean {
  if (whole && parts.length === 1) return text === parts[0];
  if (whole && !text.startsWith(parts[0])) return false;
  let at = whole ? parts[0].length : 0;
  const middle = whole ? parts.slice(1, -1) : parts;
  for (const part of middle) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return !whole || (text.length - at >= parts[parts.length - 1].length && text.endsWith(parts[parts.length - 1]));
}

function keep(word: string, marks: Uint8Array, operations: Operations, more: More, processes: Process[]): void {
  const longer = /^>(\d+(?:\.\d+)?)(ns|us|µs|ms|s)$/.exec(word);
  if (longer) {
    const least = Number(longer[1]) * UNITS[longer[2]];
    for (let row = 0; row < marks.length; row++) if (!(operations.duration[row] > least)) marks[row] = 0;
    return;
  }
  if (word === "failed") {
    for (let row = 0; row < marks.length; row++) if (!more.errno[row]) marks[row] = 0;
    return;
  }
  const test = testOf(word);
  const ofTexts = (texts: string[]): Uint8Array => Uint8Array.from([0, ...texts.map((text) => Number(test(text)))]);
  const names = new Map(processes.map((one) => [one.index, `${one.name} ${one.pid}`]));
  const lanes = operations.lanes.map((lane) => test(`${names.get(lane.process) ?? ""} thread ${lane.tid} ${lane.name}`));
  const kinds = Uint8Array.from(operations.kinds.map((one) => Number(test(`${one.layer} ${one.op} ${one.klass}`))));
  const paths = ofTexts(more.paths);
  const details = ofTexts(more.details);
  const commands = ofTexts(more.commands);
  const frames = more.frames.map(test);
  // A node of the tree of frames counts if it or, for a line, one of its callers does.
  const nodes = new Uint8Array(more.nodes.length / 2);
  const alone = new Uint8Array(nodes.length);
  for (let node = 0; node < nodes.length; node++) {
    const caller = more.nodes[2 * node + 1];
    alone[node] = Number(frames[more.nodes[2 * node]]);
    nodes[node] = alone[node] || (caller >= 0 && caller < node ? nodes[caller] : 0);
  }
  const sites = Uint8Array.from([0, ...more.sites.map((node) => alone[node] ?? 0)]);
  const stacks = Uint8Array.from([0, ...more.stacks.map((node) => (LINE.test(word) ? nodes[node] ?? 0 : 0))]);
  operations.lanes.forEach((lane, at) => {
    if (lanes[at]) return;
    for (let row = lane.first; row < lane.first + lane.count; row++) {
      if (marks[row] && !(kinds[operations.kind[row]] || paths[more.path[row]] || sites[more.site[row]] || stacks[more.stack[row]]
        || details[more.detail[row]] || commands[more.command[row]])) marks[row] = 0;
    }
  });
}
