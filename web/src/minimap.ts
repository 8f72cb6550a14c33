// The whole run in a strip above the lanes, with the part in view; drag in it to see another part.

import { el } from "./dom";
import { begun, CLASSES, type Model } from "./model";
import { type Palette, paletteOf, type View } from "./paint";

const HEIGHT = 36;

export class Minimap {
  private readonly canvas = el("canvas", { "aria-hidden": "true" });
  private readonly brush = el("div", { class: "brush" });
  readonly element = el("div", { class: "minimap", title: "The whole run: drag to choose a part" }, this.canvas, this.brush);
  private width = 1;
  private left = 0;
  private ratio = 1;
  private palette: Palette = paletteOf(document.documentElement);

  constructor(private readonly model: Model, chosen: (view: View) => void) {
    let began: number | null = null;
    const moment = (event: PointerEvent): number => {
      const box = this.canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - this.left) / (this.width - this.left);
      return model.first + Math.min(Math.max(share, 0), 1) * (model.last - model.first);
    };
    this.element.addEventListener("pointerdown", (event) => {
      began = moment(event);
      this.element.setPointerCapture(event.pointerId);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (began === null) return;
      const now = moment(event);
      if (Math.abs(now - began) > (model.last - model.first) / 300) chosen({ from: Math.min(began, now), to: Math.max(began, now) });
    });
    this.element.addEventListener("pointerup", () => (began = null));
  }

  resize(width: number, left: number, ratio: number): void {
    [this.width, this.left, this.ratio] = [width, left, ratio];
    this.canvas.width = Math.max(Math.round(width * ratio), 1);
    this.canvas.height = Math.round(HEIGHT * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${HEIGHT}px`;
    this.paint();
  }

  recolour(palette: Palette): void {
    this.palette = palette;
    this.paint();
  }

  mark(view: View): void {
    const span = this.model.last - this.model.first;
    const room = this.width - this.left;
    const from = Math.max(((view.from - this.model.first) / span) * room, 0);
    const to = Math.min(((view.to - this.model.first) / span) * room, room);
    this.brush.style.left = `${this.left + from}px`;
    this.brush.style.width = `${Math.max(to - from, 3)}px`;
    this.brush.hidden = to - from >= room - 1;
  }

  /** The share of threads' time that the outermost operations took, by colour. */
  private paint(): void {
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const columns = Math.max(Math.floor((this.width - this.left) / 2), 1);
    const per = (this.model.last - this.model.first) / columns;
    const sums = CLASSES.map(() => new Float64Array(columns));
    const { time } = this.model.operations;
    const { bins } = this.model.operations;
    for (const band of this.model.bandOf.values())
      for (const { klass, of } of bins ? band.bins[0] : []) {
        const each = bins ? bins.count / columns : 1;
        const upTo = (at: number): number => of.before[Math.min(Math.floor(at), of.before.length - 1)];
        for (let column = 0; column < columns; column++) sums[klass][column] += upTo((column + 1) * each) - upTo(column * each);
      }
    for (const band of this.model.bandOf.values())
      for (const strand of band.strands[0]) {
        let row = 0;
        for (let column = 0; column < columns; column++) {
          const to = this.model.first + (column + 1) * per;
          const next = begun(strand, time, to, row);
          sums[strand.klass][column] += strand.before[next] - strand.before[row];
          row = next;
        }
        spread(strand.rows, this.model, sums[strand.klass], per);
      }
    let most = per * 0.2;
    for (let column = 0; column < columns; column++) most = Math.max(most, sums.reduce((sum, one) => sum + Math.max(one[column], 0), 0));
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, HEIGHT);
    context.fillStyle = this.palette.line;
    context.fillRect(this.left, HEIGHT - 1, this.width - this.left, 1);
    for (let column = 0; column < columns; column++) {
      let y = HEIGHT - 1;
      sums.forEach((one, klass) => {
        const height = (Math.max(one[column], 0) / most) * (HEIGHT - 4);
        if (height <= 0.05) return;
        const colour = this.palette.classes[klass];
        context.fillStyle = `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
        context.fillRect(this.left + column * 2, y - Math.max(height, 0.6), 2, Math.max(height, 0.6));
        y -= height;
      });
    }
  }
}

/** Spreads operations that last for several columns over these; they were added to the one they began in. */
function spread(rows: Uint32Array, model: Model, sums: Float64Array, per: number): void {
  for (const row of rows) {
    const length = model.length[row];
    if (length <= per) continue;
    const from = (model.operations.time[row] - model.first) / per;
    const first = Math.min(Math.max(Math.floor(from), 0), sums.length - 1);
    const busy = model.busy(row) / length;
    sums[first] -= model.busy(row);
    const to = from + length / per;
    for (let column = Math.max(first, 0); column < Math.min(Math.ceil(to), sums.length); column++)
      sums[column] += (Math.min(column + 1, to) - Math.max(column, from)) * per * busy;
  }
}
