// Reads the operations that pyio_trace/page/timeline.py wrote, from the page or from the server of a large log.  What the first picture needs is read at once, the
// rest when somebody asks for it.

import { byId, json } from "./dom";

// The library of this TypeScript does not know it yet.
declare const DecompressionStream: new (format: string) => ReadableWritablePair<Uint8Array, BufferSource>;

interface Place { at: number; size: number }
interface ColumnHead extends Partial<Place> { width: number; masked: boolean }
interface BinsHead { first: number; last: number; count: number; strands: [number, number, string][] }
interface Head {
  rows: number; base: number; lanes: [number, number, number, number, number, string][]; columns: Record<string, ColumnHead>;
  flows: number; texts?: Record<string, Place>; bins?: BinsHead;
}

/** A thread.  rows: from `first` on; depths: lines that it needs; of: operations that it has in the log. */
export interface Lane { process: number; tid: number; first: number; count: number; depths: number; of: number; name: string }
export interface Kind { layer: string; op: string; klass: string; role: string }

/** What operations that are not shown took, in equal parts of the time.  before: ns, and how many began, before each. */
export interface BinStrand { lane: number; depth: number; role: string; before: Float64Array; callsBefore: Float64Array }
export interface Bins { first: number; last: number; count: number; strands: BinStrand[] }

/** Numbers, and where there is one (null: everywhere). */
interface Numbers { values: Float64Array; there: Uint8Array | null }

/** Where the columns and texts come from. */
export interface Source { head: Head; packed(what: "column" | "texts", name: string): Uint8Array }

/** Those in the page.  Each can be read once. */
export function inPage(): Source {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  return {
    head: json<Head>("timeline"),
    packed: (what, name) => {
      const holder = byId(`${what}-${name}`);
      const text = holder.textContent ?? "";
      holder.remove();
      return native ? native(text) : Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    },
  };
}

/** Those that pyio_trace/page/parts.py packed. */
export function inBytes(data: ArrayBuffer): Source {
  const size = new DataView(data).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size))) as Head;
  const packed = (what: "column" | "texts", name: string): Uint8Array => {
    const place = (what === "column" ? head.columns[name] : head.texts?.[name]) as Place;
    return new Uint8Array(data, 4 + size + place.at, place.size);
  };
  return { head, packed };
}

async function inflated(packed: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export class Operations {
  readonly count: number;
  readonly lanes: Lane[] = [];
  /** ns since the run began; ns, NaN: not returned. */
  time = new Float64Array(0);
  duration = new Float64Array(0);
  /** ns from the first begin to the last end of a row that stands for several calls; 0: it stands for one. */
  extent = new Float64Array(0);
  kind = new Uint32Array(0);
  kinds: Kind[] = [];
  /** The line of its lane. */
  depth = new Uint8Array(0);
  /** By which a row is known in another part of the run; null: there are no other parts. */
  id: Float64Array | null = null;
  bins: Bins | null = null;
  /** Rows from which work went to others, and these, in pairs. */
  flows: { from: Float64Array; to: Float64Array } | null = null;
  more: More | null = null;
  private reading: Promise<More> | null = null;
  private readonly head: Head;

  private constructor(private readonly source: Source) {
    this.head = source.head;
    this.count = this.head.rows;
    let first = 0;
    for (const [process, tid, count, depths, of, name] of this.head.lanes) {
      this.lanes.push({ process, tid, first, count, depths, of, name });
      first += count;
    }
  }

  static async read(source: Source): Promise<Operations> {
    const made = new Operations(source);
    const [time, duration, extent, kind, depth, kinds] = await Promise.all([
      made.column("time"), made.column("duration"), made.column("extent"), made.column("kind"), made.column("depth"),
      made.texts<string[]>("kind"),
    ]);
    let now = 0;
    for (const lane of made.lanes) {
      now = made.head.base;
      for (let row = lane.first; row < lane.first + lane.count; row++) time.values[row] = now += time.values[row];
    }
    unfold(duration.values);
    if (duration.there) for (let row = 0; row < made.count; row++) if (!duration.there[row]) duration.values[row] = NaN;
    made.time = time.values;
    made.duration = duration.values;
    made.extent = extent.values;
    made.depth = Uint8Array.from(depth.values);
    made.kind = Uint32Array.from(kind.values);
    made.kinds = kinds.map(([layer, op, klass, role]) => ({ layer, op, klass, role } as Kind));
    if (made.head.columns["id"]) made.id = summed(unfold((await made.column("id")).values));
    const { flows } = made.head;
    if (flows) made.flows = { from: (await made.column("flow-from", flows)).values, to: (await made.column("flow-to", flows)).values };
    if (made.head.bins) made.bins = await made.binned(made.head.bins);
    return made;
  }

  /** What is known besides time and kind. */
  rest(): Promise<More> {
    this.reading ??= More.read(this, (name) => this.column(name), (name) => this.texts(name)).then((more) => (this.more = more));
    return this.reading;
  }

  laneOf(row: number): number {
    let low = 0;
    let high = this.lanes.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.lanes[middle].first <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private async texts<T>(name: string): Promise<T[]> {
    return JSON.parse(new TextDecoder().decode(await inflated(this.source.packed("texts", name)))) as T[];
  }

  private async column(name: string, count = this.count): Promise<Numbers> {
    const { width, masked } = this.head.columns[name];
    const data = await inflated(this.source.packed("column", name));
    const values = new Float64Array(count);
    let at = masked ? count : 0;
    for (let plane = 0, weight = 1; plane < width; plane++, weight *= 256, at += count) {
      for (let row = 0; row < count; row++) {
        const byte = data[at + row];
        if (byte) values[row] += byte * weight;
      }
    }
    return { values, there: masked ? data.slice(0, count) : null };
  }

  private async binned({ first, last, count, strands }: BinsHead): Promise<Bins> {
    const [time, calls] = await Promise.all(["bin-time", "bin-calls"].map((name) => this.column(name, count * strands.length)));
    const before = (values: Float64Array, at: number): Float64Array => {
      const sums = new Float64Array(count + 1);
      for (let bin = 0; bin < count; bin++) sums[bin + 1] = sums[bin] + values[at * count + bin];
      return sums;
    };
    return {
      first, last, count,
      strands: strands.map(([lane, depth, role], at) => ({ lane, depth, role, before: before(time.values, at), callsBefore: before(calls.values, at) })),
    };
  }
}

/** 0, 1, 2, 3 as 0, -1, 1, -2. */
function unfold(values: Float64Array): Float64Array {
  for (let row = 0; row < values.length; row++) {
    const value = values[row];
    if (value) values[row] = value % 2 ? -(value + 1) / 2 : value / 2;
  }
  return values;
}

function summed(values: Float64Array): Float64Array {
  for (let row = 1; row < values.length; row++) values[row] += values[row - 1];
  return values;
}

type Read = (name: string) => Promise<Numbers>;
type ReadTexts = <T>(name: string) => Promise<T[]>;

export class More {
  /** Indexes into the texts, less one; 0: none. */
  path = new Uint32Array(0);
  site = new Uint32Array(0);
  stack = new Uint32Array(0);
  detail = new Uint32Array(0);
  command = new Uint32Array(0);
  link = new Uint32Array(0);
  paths: string[] = [];
  details: string[] = [];
  commands: string[] = [];
  links: string[] = [];
  /** Nodes of the tree of frames. */
  sites: number[] = [];
  stacks: number[] = [];
  frames: string[] = [];
  nodes: number[] = [];
  /** The row of the parent; -1: none. */
  parent = new Int32Array(0);
  calls = new Float64Array(0);
  errno = new Float64Array(0);
  fd = new Float64Array(0);
  offset = new Float64Array(0);
  requested = new Float64Array(0);
  moved = new Float64Array(0);
  cpu = new Float64Array(0);
  submitted = new Float64Array(0);

  static async read(operations: Operations, read: Read, texts: ReadTexts): Promise<More> {
    const made = new More();
    const count = operations.count;
    const codes = async (name: string): Promise<Uint32Array> => Uint32Array.from((await read(name)).values);
    const numbers = async (name: string): Promise<Float64Array> => {
      const { values, there } = await read(name);
      unfold(values);
      if (there) for (let row = 0; row < count; row++) if (!there[row]) values[row] = NaN;
      return values;
    };
    made.path = await codes("path");
    made.site = await codes("site");
    made.stack = await codes("call_stack");
    made.detail = await codes("detail");
    made.command = await codes("command");
    made.link = await codes("link");
    made.paths = await texts("path");
    made.details = await texts("detail");
    made.commands = await texts("command");
    made.links = await texts("link");
    made.sites = await texts("site");
    made.stacks = await texts("call_stack");
    made.frames = await texts("frames");
    made.nodes = await texts("nodes");
    made.calls = await numbers("calls");
    made.errno = await numbers("errno");
    made.fd = await numbers("fd");
    made.requested = await numbers("requested");
    made.cpu = await numbers("cpu");
    made.submitted = (await read("submitted")).values;
    const back = await numbers("parent");
    made.parent = new Int32Array(count).fill(-1);
    for (let row = 0; row < count; row++) {
      const parent = row - back[row];
      if (parent >= 0 && parent < count && parent !== row) made.parent[row] = parent;
    }
    made.moved = await numbers("moved");
    for (let row = 0; row < count; row++) made.moved[row] = (made.requested[row] || 0) - made.moved[row];
    made.offset = await numbers("offset");
    for (const lane of operations.lanes) {
      const ends = new Map<number, number>();
      for (let row = lane.first; row < lane.first + lane.count; row++) {
        if (Number.isNaN(made.offset[row])) continue;
        const file = made.path[row];
        made.offset[row] += ends.get(file) ?? 0;
        ends.set(file, made.offset[row] + (made.moved[row] || 0));
      }
    }
    return made;
  }

  pathOf(row: number): string {
    return this.path[row] ? this.paths[this.path[row] - 1] : "";
  }

  siteOf(row: number): string {
    return this.site[row] ? this.frame(this.sites[this.site[row] - 1]) : "";
  }

  /** The frames of a row, innermost first. */
  stackOf(row: number): string[] {
    const found: string[] = [];
    let node = this.stack[row] ? this.stacks[this.stack[row] - 1] : -1;
    while (node >= 0 && found.length < 500) {
      found.push(this.frame(node));
      node = this.nodes[2 * node + 1];
    }
    return found;
  }

  /** The rows around a row, innermost first.  A log may lie, so that it ends. */
  ancestors(row: number): number[] {
    const found: number[] = [];
    for (let at = this.parent[row]; at >= 0 && found.length < 100 && !found.includes(at); at = this.parent[at]) found.push(at);
    return found;
  }

  private frame(node: number): string {
    return this.frames[this.nodes[2 * node]] ?? "";
  }
}
