// Draws the lanes into the pixels of a canvas: operations wider than a pixel as boxes, all others as columns as high as
// the share of the pixel's time that they took, so that what is seen is what was spent.

import type { Bins, BinStrand } from "./data";
import { begun, CLASSES, type Band, type Group, type Model, type Strand, TRACK } from "./model";

export interface View { from: number; to: number }
export interface Label { x: number; y: number; width: number; row: number; klass: number; faded: boolean }

export interface Palette {
  card: number; life: number; lifeHatch: number; grid: number; classes: number[]; faded: number[]; text: string; muted: string;
  faint: string; onClass: string[]; line: string; accent: string; fadedText: string;
}

const LEAST_LABEL = 34;

function parsed(text: string): [number, number, number] {
  const value = Number.parseInt(text.trim().slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

function packed([red, green, blue]: [number, number, number]): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The colours of the style sheet, as they are now. */
export function paletteOf(element: Element): Palette {
  const style = getComputedStyle(element);
  const read = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const card = parsed(read("card"));
  const mixed = (one: string, share: number): number => {
    const colour = parsed(read(one));
    return packed(colour.map((part, at) => Math.round(part * share + card[at] * (1 - share))) as [number, number, number]);
  };
  return {
    card: packed(card), life: packed(parsed(read("life"))), lifeHatch: mixed("starting", 0.5), grid: packed(parsed(read("gridline"))),
    classes: CLASSES.map((name) => packed(parsed(read(name)))),
    faded: CLASSES.map((name) => mixed(name, 0.16)),
    onClass: CLASSES.map((name) => read(`on-${name}`)),
    text: read("text"), muted: read("muted"), faint: read("faint"), line: read("line"), accent: read("accent"),
    fadedText: read("faint"),
  };
}

export class Painter {
  private readonly pixels: Uint32Array;
  private readonly image: ImageData;
  private readonly heights: Float32Array;
  labels: Label[] = [];

  constructor(readonly width: number, readonly height: number, readonly ratio: number) {
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.heights = new Float32Array(width);
  }

  /** Draws the groups that are between two heights.  left: pixels of the names; all sizes are of the screen. */
  paint(context: CanvasRenderingContext2D, model: Model, view: View, top: number, left: number, palette: Palette, ticks: number[]): void {
    this.labels = [];
    this.pixels.fill(palette.card);
    const x0 = Math.round(left * this.ratio);
    const perPixel = (view.to - view.from) / (this.width - x0);
    for (const tick of ticks) this.box(x0 + Math.round((tick - view.from) / perPixel), 0, 1, this.height, palette.grid);
    for (const group of model.groups) {
      if (group.y + group.height < top || group.y > top + this.height / this.ratio) continue;
      this.life(group, view, top, x0, perPixel, palette);
      for (const band of group.bands) this.band(band, model, view, top, x0, perPixel, palette);
    }
    context.putImageData(this.image, 0, 0);
  }

  private box(x: number, y: number, width: number, height: number, colour: number): void {
    const right = Math.min(x + width, this.width);
    const bottom = Math.min(y + height, this.height);
    for (let line = Math.max(y, 0); line < bottom; line++) this.pixels.fill(colour, line * this.width + Math.max(x, 0), line * this.width + right);
  }

  private hatch(x: number, y: number, width: number, height: number, colour: number, every: number, part = 4): void {
    const right = Math.min(x + width, this.width);
    const bottom = Math.min(y + height, this.height);
    const thick = Math.max(1, Math.round(every / part));
    for (let line = Math.max(y, 0); line < bottom; line++)
      for (let column = Math.max(x, 0); column < right; column++)
        if ((column + line) % every < thick) this.pixels[line * this.width + column] = colour;
  }

  /** When the process lived, and when its own code had not begun. */
  private life(group: Group, view: View, top: number, x0: number, perPixel: number, palette: Palette): void {
    const { process } = group;
    if (!process) return;
    const column = (time: number): number => Math.min(Math.max(x0 + Math.round((time - view.from) / perPixel), x0), this.width);
    const from = column(process.begin);
    const to = column(process.end ?? view.to);
    const parts = group.bands.length ? group.bands.map((band) => [band.y, band.depths * TRACK - 1]) : [[group.y + 7, 8]];
    for (const [y, height] of parts) {
      const line = Math.round((y - top) * this.ratio);
      const tall = Math.round(height * this.ratio);
      if (line > this.height || line + tall < 0) continue;
      this.box(from, line, Math.max(to - from, 1), tall, palette.life);
      if (process.script !== null && process.script > process.begin) {
        const until = column(process.script);
        if (y === parts[0][0]) this.hatch(from, line, until - from, Math.min(tall, Math.round((TRACK - 1) * this.ratio)), palette.lifeHatch, Math.round(6 * this.ratio));
      }
    }
  }

  private band(band: Band, model: Model, view: View, top: number, x0: number, perPixel: number, palette: Palette): void {
    for (let depth = 0; depth < band.depths; depth++) {
      const y = Math.round((band.y + depth * TRACK - top) * this.ratio);
      const height = Math.round((TRACK - 1) * this.ratio);
      if (y > this.height || y + height < 0) continue;
      this.heights.fill(0);
      for (const { klass, of } of band.bins[depth]) this.binned(of, model, view, y, height, x0, perPixel, (model.isSearched ? palette.faded : palette.classes)[klass]);
      for (const strand of band.strands[depth]) this.strand(strand, model, view, y, height, x0, perPixel, palette);
    }
  }

  /** What is not shown one by one, as high as the share of each pixel's time that it took. */
  private binned(strand: BinStrand, model: Model, view: View, y: number, height: number, x0: number, perPixel: number, colour: number): void {
    const bins = model.operations.bins as Bins;
    const perBin = (bins.last - bins.first) / bins.count;
    const upTo = (sums: Float64Array, at: number): number => {
      const bin = Math.min(Math.max(Math.floor(at), 0), bins.count - 1);
      return sums[bin] + (sums[bin + 1] - sums[bin]) * Math.min(Math.max(at - bin, 0), 1);
    };
    let at = (view.from - bins.first) / perBin;
    let [time, calls] = [upTo(strand.before, at), upTo(strand.callsBefore, at)];
    for (let x = x0; x < this.width; x++) {
      at += perPixel / perBin;
      const [timeNow, callsNow] = [upTo(strand.before, at), upTo(strand.callsBefore, at)];
      if (timeNow - time > 0 || callsNow - calls > 0) this.column(x, y, height, (timeNow - time) / perPixel, colour);
      [time, calls] = [timeNow, callsNow];
    }
  }

  private strand(strand: Strand, model: Model, view: View, y: number, height: number, x0: number, perPixel: number, palette: Palette): void {
    const { time } = model.operations;
    const { rows } = strand;
    const begin = Math.max(begun(strand, time, view.from) - 1, 0);
    const end = begun(strand, time, view.to, begin);
    if (begin >= end) return;
    if (end - begin < (this.width - x0) / 2) this.boxes(strand, model, view, y, height, x0, perPixel, palette, begin, end);
    else {
      let at = begun(strand, time, view.from, begin, end);
      let taken = this.taken(strand, strand.before, model, at, view.from);
      let found = strand.found ? this.taken(strand, strand.found, model, at, view.from) : 0;
      let foundCount = strand.foundCount ? strand.foundCount[at] : 0;
      for (let x = x0; x < this.width; x++) {
        const moment = view.from + (x + 1 - x0) * perPixel;
        let next = at;
        if (next < end && time[rows[next]] <= moment) {
          let step = 1;
          while (next + step < end && time[rows[next + step]] <= moment) step *= 2;
          next = begun(strand, time, moment, next + (step >> 1), Math.min(next + step, end));
        }
        const now = this.taken(strand, strand.before, model, next, moment);
        const share = (now - taken) / perPixel;
        if (strand.found && strand.foundCount) {
          const nowFound = this.taken(strand, strand.found, model, next, moment);
          const shareFound = (nowFound - found) / perPixel;
          const isFound = strand.foundCount[next] > foundCount || shareFound > 1e-9;
          if (isFound) this.column(x, y, height, shareFound, palette.classes[strand.klass]);
          if (share - shareFound > 1e-9 || next - at > strand.foundCount[next] - foundCount) this.column(x, y, height, share - shareFound, palette.faded[strand.klass]);
          found = nowFound;
          foundCount = strand.foundCount[next];
        } else if (next > at || share > 1e-9) this.column(x, y, height, share, palette.classes[strand.klass]);
        taken = now;
        at = next;
      }
    }
  }

  /** ns that the first `at` operations had taken by a moment, by sums of what those before each took. */
  private taken(strand: Strand, sums: Float64Array, model: Model, at: number, moment: number): number {
    if (!at) return 0;
    const row = strand.rows[at - 1];
    const length = model.length[row];
    const passed = moment - model.operations.time[row];
    const own = sums[at] - sums[at - 1];
    return sums[at - 1] + (passed >= length || length <= 0 ? own : (own * Math.max(passed, 0)) / length);
  }

  /** A part of a pixel's column, on what stands there already. */
  private column(x: number, y: number, height: number, share: number, colour: number): void {
    const least = Math.max(2, Math.round(2.5 * this.ratio));
    const from = this.heights[x];
    const tall = Math.min(Math.max(Math.round(share * height), least), height - from);
    if (tall <= 0) return;
    this.heights[x] = from + tall;
    this.box(x, y + height - from - tall, 1, tall, colour);
  }

  private boxes(strand: Strand, model: Model, view: View, y: number, height: number, x0: number, perPixel: number, palette: Palette, begin: number, end: number): void {
    const { time, duration } = model.operations;
    let pixel = -1;
    let share = 0;
    let shareFaded = 0;
    const flush = (): void => {
      if (pixel >= x0 && share > 0) this.column(pixel, y, height, share, palette.classes[strand.klass]);
      if (pixel >= x0 && shareFaded > 0) this.column(pixel, y, height, shareFaded, palette.faded[strand.klass]);
      share = shareFaded = 0;
    };
    for (let at = begin; at < end; at++) {
      const row = strand.rows[at];
      const length = model.length[row];
      const from = x0 + (time[row] - view.from) / perPixel;
      const to = from + length / perPixel;
      if (to < x0) continue;
      const faded = strand.foundCount !== null && strand.foundCount[at + 1] === strand.foundCount[at];
      if (to - from < 1.5) {
        const x = Math.floor(from);
        if (x !== pixel) flush();
        pixel = x;
        if (faded) shareFaded += Math.max(model.busy(row) / perPixel, 1e-9);
        else share += Math.max(model.busy(row) / perPixel, 1e-9);
        continue;
      }
      flush();
      pixel = -1;
      const left = Math.max(Math.round(from), x0);
      const right = Math.min(Math.round(to), this.width);
      const room = right - left;
      const gap = room > 3 && right < this.width ? 1 : 0;
      const colour = (faded ? palette.faded : palette.classes)[strand.klass];
      const part = length > 0 ? Math.min(model.busy(row) / length, 1) : 1;
      const tall = Math.max(Math.round(height * part), 2);
      if (part < 0.95) this.box(left, y, room - gap, height, palette.faded[strand.klass]);
      this.box(left, y + height - tall, room - gap, tall, colour);
      if (strand.klass === 6) this.hatch(left, y, room - gap, height, palette.card, Math.round(6 * this.ratio), 4);
      else if (Number.isNaN(duration[row])) this.hatch(left, y, room - gap, height, palette.card, Math.round(8 * this.ratio), 8);
      this.heights.fill(height, left, right);
      if (room / this.ratio > LEAST_LABEL) this.labels.push({ x: left / this.ratio, y: y / this.ratio, width: (room - gap) / this.ratio, row, klass: strand.klass, faded: faded || part < 0.5 });
    }
    flush();
  }
}
