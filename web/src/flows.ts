// Lines from where work was handed over to where it was done: from a span to what another thread or process did for it,
// from the fetch of a batch to the wait for it.

import { type Model, TRACK } from "./model";
import type { Palette } from "./paint";

/** More of them would hide the operations; then only those of the selected one are drawn. */
const MOST = 150;

interface Box { left: number; right: number; top: number; bottom: number }

/** x: of a moment; box: of the screen across, of the model down. */
export function drawFlows(context: CanvasRenderingContext2D, model: Model, selected: number, palette: Palette, x: (time: number) => number, box: Box): void {
  const { flows, depth } = model.operations;
  if (!flows) return;
  const y = (row: number): number => (model.bandOf.get(model.operations.laneOf(row))?.y ?? 0) + depth[row] * TRACK + TRACK / 2;
  const shown: [number, number][] = [];
  const own: [number, number][] = [];
  for (let at = 0; at < flows.from.length; at++) {
    const pair: [number, number] = [flows.from[at], flows.to[at]];
    const [begin, end] = moments(model, ...pair);
    if (x(Math.max(begin, end)) < box.left || x(Math.min(begin, end)) > box.right) continue;
    if (pair.includes(selected)) own.push(pair);
    else if (shown.length <= MOST) shown.push(pair);
  }
  context.save();
  context.beginPath();
  context.rect(box.left, 0, box.right - box.left, box.bottom - box.top);
  context.clip();
  const draw = ([from, to]: [number, number], colour: string, alpha: number): void => {
    const [begin, end] = moments(model, from, to);
    const [x1, y1, x2, y2] = [x(begin), y(from) - box.top, x(end), y(to) - box.top];
    const bend = Math.max(Math.min(Math.abs(x2 - x1) / 2, 60), 12);
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    context.stroke();
    context.beginPath();
    context.arc(x2, y2, 3, 0, 7);
    context.fill();
  };
  if (shown.length <= MOST) for (const one of shown) draw(one, palette.muted, 0.55);
  for (const one of own) draw(one, palette.text, 1);
  context.restore();
}

/** When it left, and when it came. */
function moments(model: Model, from: number, to: number): [number, number] {
  const { time } = model.operations;
  const [begin, end] = [time[to], time[to] + model.length[to]];
  const left = time[from] + model.length[from];
  // A span that lasts beyond what was done for it handed it over before that began.
  if (time[from] <= begin && left >= end) return [begin, begin];
  return [left, left > begin ? Math.min(left, end) : begin];
}
