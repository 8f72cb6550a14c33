// Where each operation is drawn: its lane (a thread), its depth in it (what is open around it), its class (a colour);
// and how long the operations before a moment took, so that any zoom costs a look-up a pixel.

import type { BinStrand, Operations } from "./data";
import type { Process } from "./facts";

/** Colours, in the order in which they are stacked where several operations share a pixel. */
export const CLASSES = ["io", "sync", "library", "handover", "waiting", "task", "starting", "other"] as const;
export const CLASS_NAMES = ["I/O", "sync, locks", "library", "hand-over", "waiting", "task, span", "starting", "maps, processes"];
const OF_ROLE: Record<string, number> = {
  io: 0, sync: 1, lock: 1, request: 2, transport: 3, wait: 4, container: 5, starting: 6,
};
const classOf = (role: string): number => OF_ROLE[role] ?? 7;

/** Operations of one lane, depth and class, in the order of time. */
export interface Strand {
  klass: number;
  rows: Uint32Array;
  /** ns that the operations before each took together; one more than there are rows. */
  before: Float64Array;
  /** The same of those that a search found; null: there is none. */
  found: Float64Array | null;
  /** How many were found before each. */
  foundCount: Uint32Array | null;
}

/** bins: of operations that are not shown one by one, with their class. */
export interface Band { lane: number; y: number; depths: number; strands: Strand[][]; bins: { klass: number; of: BinStrand }[][] }
export interface Group { process: Process | null; y: number; bands: Band[]; height: number }

export const TRACK = 14;
const HEADER = 22;
const GAP = 8;

export class Model {
  readonly groups: Group[] = [];
  readonly height: number;
  /** ns that a row extends; never less than 0. */
  readonly length: Float64Array;
  readonly klass: Uint8Array;
  readonly shown = new Set<number>();
  isSearched = false;
  readonly bandOf = new Map<number, Band>();
  readonly first: number;
  readonly last: number;

  /** span: of the whole run, ns since it began. */
  constructor(readonly operations: Operations, readonly processes: Process[], wall: number, span: [number, number]) {
    const { count, time, duration, extent, kind, kinds } = operations;
    this.length = new Float64Array(count);
    this.klass = new Uint8Array(kinds.map((one) => classOf(one.role)));
    const byIndex = new Map(processes.map((one) => [one.index, one]));
    [this.first, this.last] = span;
    for (const lane of operations.lanes) {
      const end = byIndex.get(lane.process)?.end ?? wall;
      for (let row = lane.first; row < lane.first + lane.count; row++) {
        const took = duration[row];
        this.length[row] = Number.isNaN(took) ? Math.max(end - time[row], 0) : Math.max(took, extent[row], 0);
        this.shown.add(this.klass[kind[row]]);
      }
    }
    for (const one of operations.bins?.strands ?? []) this.shown.add(classOf(one.role));
    this.height = this.place(byIndex);
  }

  busy(row: number): number {
    const took = this.operations.duration[row];
    return Number.isNaN(took) ? this.length[row] : Math.max(took, 0);
  }

  /** Which operations are to stand out; null: all. */
  mark(found: Uint8Array | null): void {
    this.isSearched = found !== null;
    for (const group of this.groups)
      for (const band of group.bands)
        for (const strands of band.strands)
          for (const strand of strands) {
            strand.found = null;
            strand.foundCount = null;
            if (!found) continue;
            const count = strand.rows.length;
            const sums = new Float64Array(count + 1);
            const counts = new Uint32Array(count + 1);
            for (let at = 0; at < count; at++) {
              const row = strand.rows[at];
              sums[at + 1] = sums[at] + (found[row] ? this.busy(row) : 0);
              counts[at + 1] = counts[at] + found[row];
            }
            strand.found = sums;
            strand.foundCount = counts;
          }
  }

  private place(byIndex: Map<number, Process>): number {
    const lanes = new Map<number, number[]>();
    this.operations.lanes.forEach((lane, at) => lanes.set(lane.process, [...(lanes.get(lane.process) ?? []), at]));
    let y = 4;
    for (const index of orderOf(this.processes, lanes)) {
      const process = byIndex.get(index) ?? null;
      const group: Group = { process, y, bands: [], height: 0 };
      y += HEADER;
      const own = (lanes.get(index) ?? []).sort((one, other) => this.rank(one, process) - this.rank(other, process));
      for (const lane of own) {
        const band = this.band(lane, y);
        group.bands.push(band);
        this.bandOf.set(lane, band);
        y += band.depths * TRACK + 3;
      }
      y += own.length ? GAP : 2;
      group.height = y - group.y;
      this.groups.push(group);
    }
    return y + 4;
  }

  /** Main threads come first, then the busiest. */
  private rank(at: number, process: Process | null): number {
    const lane = this.operations.lanes[at];
    return lane.tid === process?.pid ? -Infinity : -lane.of;
  }

  private band(at: number, y: number): Band {
    const lane = this.operations.lanes[at];
    const { kind, depth, bins } = this.operations;
    const { depths } = lane;
    const counts = new Uint32Array(depths * CLASSES.length);
    for (let row = lane.first; row < lane.first + lane.count; row++) counts[depth[row] * CLASSES.length + this.klass[kind[row]]]++;
    const all: (Strand | null)[] = Array.from(counts, (count, place) => count ? {
      klass: place % CLASSES.length, rows: new Uint32Array(count), before: new Float64Array(count + 1), found: null,
      foundCount: null,
    } : null);
    const filled = new Uint32Array(counts.length);
    for (let row = lane.first; row < lane.first + lane.count; row++) {
      const place = depth[row] * CLASSES.length + this.klass[kind[row]];
      const strand = all[place] as Strand;
      const next = filled[place]++;
      strand.rows[next] = row;
      strand.before[next + 1] = strand.before[next] + this.busy(row);
    }
    const strands: Strand[][] = [];
    const binned: Band["bins"] = [];
    for (let line = 0; line < depths; line++) {
      strands.push(all.slice(line * CLASSES.length, (line + 1) * CLASSES.length).filter((one): one is Strand => one !== null));
      const here = (bins?.strands ?? []).filter((one) => one.lane === at && one.depth === line);
      binned.push(here.map((of) => ({ klass: classOf(of.role), of })).sort((one, other) => one.klass - other.klass));
    }
    return { lane: at, y, depths, strands, bins: binned };
  }
}

/** The indexes of the processes, each after the one that started it; first those that are in the table. */
function orderOf(processes: Process[], lanes: Map<number, number[]>): number[] {
  const known = new Set(processes.map((one) => one.index));
  const children = new Map<number, Process[]>();
  for (const one of processes) {
    const parent = one.parent !== null && known.has(one.parent) && one.parent !== one.index ? one.parent : -1;
    children.set(parent, [...(children.get(parent) ?? []), one]);
  }
  const order: number[] = [];
  const seen = new Set<number>();
  const open = [...(children.get(-1) ?? [])].reverse();
  while (open.length) {
    const one = open.pop() as Process;
    if (seen.has(one.index)) continue;
    seen.add(one.index);
    order.push(one.index);
    const next = [...(children.get(one.index) ?? [])].sort((a, b) => a.begin - b.begin);
    open.push(...next.reverse());
  }
  for (const one of processes) if (!seen.has(one.index)) order.push(one.index);
  for (const index of lanes.keys()) if (!known.has(index)) order.push(index);
  return order;
}

/** How many of a strand's operations began before or at a moment. */
export function begun(strand: Strand, time: Float64Array, moment: number, low = 0, high = strand.rows.length): number {
  const { rows } = strand;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[rows[middle]] <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
