// The timeline: how one moves in it, and what is drawn over the lanes.

import { calm, el } from "./dom";
import { drawFlows } from "./flows";
import { fitted, threadName } from "./labels";
import { begun, type Band, type Model, TRACK } from "./model";
import { Minimap } from "./minimap";
import { Painter, type Palette, paletteOf, type View } from "./paint";
import { moment } from "./units";

const FONT = '11px Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const BOLD = FONT.replace("11px", "600 12px");
/** ns: the shortest view. */
const SHORTEST = 200;

export interface Listener {
  selected(row: number): void;
  hovered(row: number, x: number, y: number): void;
  viewed(view: View): void;
}

export class Timeline {
  view: View;
  selected = -1;
  private found: Uint8Array | null = null;
  private readonly canvas = el("canvas", { class: "lanes", tabindex: "0", role: "application", "aria-roledescription": "timeline" });
  private readonly axis = el("canvas", { class: "axis", "aria-hidden": "true" });
  private readonly spacer = el("div", { class: "spacer" });
  private readonly scroller = el("div", { class: "lanes-scroll" }, this.spacer, this.canvas);
  private readonly minimap: Minimap;
  readonly element: HTMLElement;
  private painter: Painter | null = null;
  private palette: Palette;
  private width = 0;
  private height = 0;
  private ratio = 1;
  private pending = 0;
  private moving = 0;
  private pointer = -1;
  /** ms that the last frames took; for whoever measures. */
  readonly frames: number[] = [];

  constructor(public model: Model, private readonly listener: Listener) {
    this.view = { from: model.first, to: model.last };
    this.minimap = new Minimap(model, (view) => this.show(view, false));
    this.element = el("div", { class: "lanes-box" }, this.minimap.element, this.axis, this.scroller);
    this.palette = paletteOf(document.documentElement);
    this.canvas.setAttribute("aria-label", `Timeline of ${model.operations.count} operations; a table of the longest in view is below`);
    this.scroller.addEventListener("scroll", () => this.draw());
    this.listen();
  }

  /** Room for the names of lanes. */
  get left(): number {
    return this.width > 700 ? 190 : 0;
  }

  get whole(): View {
    return { from: this.model.first, to: this.model.last };
  }

  resize(): void {
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = this.scroller.clientWidth;
    const most = Math.max(Math.round(window.innerHeight * 0.62), 220);
    this.height = Math.min(Math.ceil(this.model.height), most);
    this.scroller.style.height = `${this.height}px`;
    this.spacer.style.height = `${this.model.height}px`;
    this.spacer.style.marginBottom = `-${this.model.height}px`;
    for (const [canvas, height] of [[this.canvas, this.height], [this.axis, 26]] as const) {
      canvas.width = Math.max(Math.round(this.width * this.ratio), 1);
      canvas.height = Math.max(Math.round(height * this.ratio), 1);
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${height}px`;
    }
    this.painter = new Painter(this.canvas.width, this.canvas.height, this.ratio);
    this.minimap.resize(this.width, this.left, this.ratio);
    this.draw();
  }

  recolour(): void {
    this.palette = paletteOf(document.documentElement);
    this.minimap.recolour(this.palette);
    this.draw();
  }

  /** Shows another part of the same run, which has the same lanes; selected: its row, -1: none. */
  replace(model: Model, selected: number): void {
    this.model = model;
    this.selected = selected;
    this.found = null;
    this.draw();
  }

  highlight(found: Uint8Array | null): void {
    this.found = found;
    this.model.mark(found);
    this.draw();
  }

  /** Shows a part of the time; in steps, unless the reader wants none. */
  show(view: View, smooth = true): void {
    const [least, most] = [this.model.first, this.model.last];
    const whole = Math.max(most - least, SHORTEST);
    const span = Math.min(Math.max(view.to - view.from, SHORTEST), whole);
    const start = Math.min(Math.max((view.from + view.to - span) / 2, least), least + whole - span);
    const to: View = { from: start, to: start + span };
    cancelAnimationFrame(this.moving);
    if (!smooth || calm()) {
      this.view = to;
      this.draw();
      return;
    }
    const from = this.view;
    const began = performance.now();
    const step = (now: number): void => {
      const done = Math.min((now - began) / 160, 1);
      const eased = 1 - (1 - done) ** 3;
      this.view = { from: from.from + (to.from - from.from) * eased, to: from.to + (to.to - from.to) * eased };
      this.draw();
      if (done < 1) this.moving = requestAnimationFrame(step);
    };
    this.moving = requestAnimationFrame(step);
  }

  zoom(factor: number, x = -1, smooth = true): void {
    const { from, to } = this.view;
    const at = x > this.left ? from + ((x - this.left) / (this.width - this.left)) * (to - from) : (from + to) / 2;
    this.show({ from: at - (at - from) * factor, to: at + (to - at) * factor }, smooth);
  }

  zoomHere(factor: number): void {
    this.zoom(factor, this.pointer);
  }

  pan(share: number, smooth = true): void {
    const by = (this.view.to - this.view.from) * share;
    this.show({ from: this.view.from + by, to: this.view.to + by }, smooth);
  }

  /** Makes a row the selected one, and brings it into view; fit: as large as the view. */
  select(row: number, fit = false, quietly = false): void {
    this.selected = row;
    if (row >= 0) {
      const begin = this.model.operations.time[row];
      const length = this.model.length[row];
      const span = this.view.to - this.view.from;
      if (fit) this.show({ from: begin - length * 0.15 - 1, to: begin + length * 1.15 + 1 });
      else if (begin + length < this.view.from || begin > this.view.to || length > span * 1.5) this.show({ from: begin - Math.max(span, length) * 0.3, to: begin + Math.max(length * 1.3, span * 0.7) });
      this.bring(row);
    }
    this.draw();
    if (!quietly) this.listener.selected(row);
  }

  /** Selects what is beside the selected row in its lane and depth. */
  beside(step: number): number {
    if (this.selected < 0) return -1;
    const { operations } = this.model;
    const { depth } = operations;
    const lane = operations.lanes[operations.laneOf(this.selected)];
    for (let row = this.selected + step; row >= lane.first && row < lane.first + lane.count; row += step) {
      if (depth[row] === depth[this.selected]) return row;
      if (depth[row] < depth[this.selected] && step > 0) break;
    }
    return -1;
  }

  /** The rows that begin in view, the longest first. */
  longestInView(most: number): number[] {
    const found: number[] = [];
    const { time } = this.model.operations;
    let least = -1;
    for (const band of this.model.bandOf.values())
      for (const strands of band.strands)
        for (const strand of strands) {
          const end = begun(strand, time, this.view.to);
          for (let at = Math.max(begun(strand, time, this.view.from) - 1, 0); at < end; at++) {
            const row = strand.rows[at];
            if (time[row] + this.model.length[row] < this.view.from || (this.found && !this.found[row])) continue;
            if (found.length >= 4 * most && this.model.busy(row) <= least) continue;
            found.push(row);
            if (found.length >= 8 * most) least = this.shorten(found, 4 * most);
          }
        }
    this.shorten(found, most);
    return found;
  }

  private shorten(rows: number[], most: number): number {
    rows.sort((one, other) => this.model.busy(other) - this.model.busy(one));
    rows.length = Math.min(rows.length, most);
    return rows.length ? this.model.busy(rows[rows.length - 1]) : -1;
  }

  focus(): void {
    this.canvas.focus({ preventScroll: true });
  }

  draw(): void {
    if (!this.pending) this.pending = requestAnimationFrame(() => this.drawn());
  }

  private bring(row: number): void {
    const band = this.model.bandOf.get(this.model.operations.laneOf(row));
    if (!band) return;
    const y = band.y + this.model.operations.depth[row] * TRACK;
    const top = this.scroller.scrollTop;
    if (y < top + 26 || y > top + this.height - TRACK) this.scroller.scrollTop = Math.max(y - this.height / 3, 0);
  }

  private drawn(): void {
    this.pending = 0;
    const context = this.canvas.getContext("2d", { alpha: false });
    if (!this.painter || !context || !this.width) return;
    const began = performance.now();
    const top = this.scroller.scrollTop;
    const ticks = this.ticks();
    this.painter.paint(context, this.model, this.view, top, this.left, this.palette, ticks.at);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    drawFlows(context, this.model, this.selected, this.palette, (time) => this.x(time), { left: this.left, right: this.width, top, bottom: top + this.height });
    this.labels(context);
    this.names(context, top);
    this.outline(context, top);
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.drawAxis(ticks);
    this.minimap.mark(this.view);
    this.frames.push(performance.now() - began);
    if (this.frames.length > 600) this.frames.shift();
    this.listener.viewed(this.view);
  }

  private ticks(): { at: number[]; step: number } {
    const span = this.view.to - this.view.from;
    const wanted = span / Math.max((this.width - this.left) / 110, 2);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= wanted) ?? power * 10;
    const at: number[] = [];
    for (let tick = Math.ceil(this.view.from / step) * step; tick <= this.view.to && at.length < 100; tick += step) at.push(tick);
    return { at, step };
  }

  private x(time: number): number {
    return this.left + ((time - this.view.from) / (this.view.to - this.view.from)) * (this.width - this.left);
  }

  private drawAxis({ at, step }: { at: number[]; step: number }): void {
    const context = this.axis.getContext("2d");
    if (!context) return;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, 26);
    context.font = FONT;
    context.fillStyle = this.palette.muted;
    context.textBaseline = "middle";
    for (const tick of at) {
      const text = moment(tick, step);
      const room = context.measureText(text).width;
      const x = Math.min(Math.max(this.x(tick) - room / 2, this.left ? this.left - room / 2 : 2), this.width - room - 4);
      context.fillText(text, x, 14);
    }
  }

  private labels(context: CanvasRenderingContext2D): void {
    context.font = FONT;
    context.textBaseline = "middle";
    const { kinds, kind } = this.model.operations;
    for (const one of this.painter?.labels ?? []) {
      const text = fitted(context, kinds[kind[one.row]].op, one.width - 8);
      if (!text) continue;
      context.fillStyle = one.faded ? this.palette.fadedText : this.palette.onClass[one.klass];
      context.fillText(text, one.x + 4, one.y + TRACK / 2);
    }
  }

  private names(context: CanvasRenderingContext2D, top: number): void {
    context.textBaseline = "middle";
    for (const group of this.model.groups) {
      if (group.y + group.height < top || group.y > top + this.height) continue;
      const y = group.y - top + 11;
      const { process } = group;
      context.font = BOLD;
      context.fillStyle = this.palette.text;
      const room = this.left || this.width - 16;
      const name = fitted(context, process ? process.name : "process not known", room - 70);
      const at = this.left ? 20 : 8;
      context.fillText(name, at, y);
      const after = at + context.measureText(name).width + 7;
      context.font = FONT;
      context.fillStyle = this.palette.faint;
      if (process) context.fillText(String(process.pid), after, y);
      if (!this.left) continue;
      for (const band of group.bands) {
        context.fillStyle = this.palette.muted;
        context.fillText(fitted(context, this.threadName(band, process?.pid), this.left - 40), 32, band.y - top + TRACK / 2);
      }
    }
  }

  threadName(band: Band, pid: number | undefined): string {
    return threadName(this.model.operations.lanes[band.lane], pid);
  }

  private outline(context: CanvasRenderingContext2D, top: number): void {
    if (this.selected < 0) return;
    const band = this.model.bandOf.get(this.model.operations.laneOf(this.selected));
    if (!band) return;
    const begin = this.model.operations.time[this.selected];
    const from = Math.max(this.x(begin), this.left - 2);
    const to = Math.min(this.x(begin + this.model.length[this.selected]), this.width + 2);
    if (to < this.left || from > this.width) return;
    const y = band.y + this.model.operations.depth[this.selected] * TRACK - top;
    const width = Math.max(to - from, 3);
    context.strokeStyle = this.palette.text;
    context.lineWidth = 2;
    context.strokeRect(from - 1, y - 1, width + 1, TRACK + 1);
  }

  /** The operation at a place; the longest of those that share it. */
  at(x: number, y: number): number {
    const line = y + this.scroller.scrollTop;
    const { time } = this.model.operations;
    const perPixel = (this.view.to - this.view.from) / (this.width - this.left);
    const moment = this.view.from + (x - this.left) * perPixel;
    if (x < this.left) return -1;
    for (const band of this.model.bandOf.values()) {
      const depth = Math.floor((line - band.y) / TRACK);
      if (line < band.y || depth >= band.depths) continue;
      let best = -1;
      for (const strand of band.strands[depth]) {
        const end = begun(strand, time, moment + 2 * perPixel);
        for (let at = end - 1; at >= Math.max(end - 2000, 0); at--) {
          const row = strand.rows[at];
          if (time[row] + this.model.length[row] < moment - 2 * perPixel) break;
          if (this.found && !this.found[row] && best >= 0) continue;
          const better = best < 0 || this.model.busy(row) > this.model.busy(best) || (this.found && this.found[row] && !this.found[best]);
          if (better) best = row;
        }
      }
      return best;
    }
    return -1;
  }

  private listen(): void {
    let drag: { x: number; view: View; moved: boolean } | null = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      drag = { x: event.clientX, view: { ...this.view }, moved: false };
    });
    window.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const inside = event.target === this.canvas;
      this.pointer = inside ? x : -1;
      if (drag && event.buttons & 1) {
        const by = event.clientX - drag.x;
        if (!drag.moved && Math.abs(by) < 4) return;
        if (!drag.moved && event.pointerType !== "touch") this.canvas.setPointerCapture(event.pointerId);
        drag.moved = true;
        const span = drag.view.to - drag.view.from;
        const shift = (-by / (this.width - this.left)) * span;
        this.canvas.classList.add("dragging");
        this.show({ from: drag.view.from + shift, to: drag.view.from + shift + span }, false);
        this.listener.hovered(-1, 0, 0);
      } else if (inside) this.listener.hovered(this.at(x, y), event.clientX, event.clientY);
      else this.listener.hovered(-1, 0, 0);
    });
    window.addEventListener("pointerup", () => {
      this.canvas.classList.remove("dragging");
      if (drag && drag.moved) setTimeout(() => (drag = null));
      else drag = null;
    });
    this.canvas.addEventListener("click", (event) => {
      if (drag?.moved) return;
      const box = this.canvas.getBoundingClientRect();
      this.select(this.at(event.clientX - box.left, event.clientY - box.top));
    });
    this.canvas.addEventListener("dblclick", () => {
      if (this.selected >= 0) this.select(this.selected, true);
    });
    this.element.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) {
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          event.preventDefault();
          this.pan(event.deltaX / this.width, false);
        }
        return;
      }
      event.preventDefault();
      const box = this.canvas.getBoundingClientRect();
      this.zoom(Math.exp(Math.max(Math.min(event.deltaY, 120), -120) * 0.004), event.clientX - box.left, false);
    }, { passive: false });
  }
}
