// Texts of the timeline: cut names, what the colours mean, which part of the run is in view.

import type { Lane } from "./data";
import { el } from "./dom";
import { CLASS_NAMES, CLASSES, type Model } from "./model";
import type { View } from "./paint";
import { moment, seconds } from "./units";

/** The text, cut to a width; "" if nothing of it fits. */
export function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (text.length * 9 < width || context.measureText(text).width <= width) return text;
  let end = Math.min(text.length, Math.floor(width / 4));
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= end > 40 ? 8 : 1;
  return end > 1 ? `${text.slice(0, end)}…` : "";
}

/** What the colours mean. */
export function legend(model: Model): HTMLElement {
  const shown = CLASSES.map((name, at) => ({ name, at })).filter(({ at }) => model.shown.has(at));
  return el("ul", { class: "legend" }, ...shown.map(({ name, at }) => el("li", {}, el("span", { class: `swatch ${name}` }), CLASS_NAMES[at])));
}

/** pid: of its process. */
export function threadName({ tid, name }: Lane, pid: number | undefined): string {
  if (tid === pid) return "main thread";
  return tid < 0 ? "several threads" : `${name || "thread"} ${tid}`;
}

export function range(view: View, model: Model): string {
  const span = view.to - view.from;
  if (span >= (model.last - model.first) * 0.999) return `whole run, ${seconds(span)}`;
  return `${seconds(span)} from ${moment(view.from, span / 100)}`;
}
