// The keys.

import { el } from "./dom";

const KEYS: [string, string][] = [
  ["w s", "zoom in and out"], ["a d", "move earlier and later"], ["0", "the whole run"], ["f", "zoom to the selected operation"],
  ["/", "search"], ["Enter", "zoom to what was found"], ["n N", "next and previous found operation"],
  ["← →", "the operation beside"], ["↑ ↓", "the one around it, the first in it"], ["t", "theme"], ["Esc", "clear"], ["?", "this help"],
];
const MOUSE: [string, string][] = [
  ["click", "select an operation"], ["double click", "zoom to it"], ["drag", "move"], ["ctrl + wheel", "zoom"], ["drag in the strip", "choose a part of the run"],
];
const SEARCH: [string, string][] = [
  ["train.py:9", "all that a line led to"], ["*.h5", "paths; * stands for any text"], ["pread", "operations, layers, classes"],
  [">5ms", "what took longer"], ["failed", "calls that failed"], ['"two words"', "as they stand"],
];

export function helpDialog(): HTMLDialogElement {
  const list = (title: string, rows: [string, string][]): HTMLElement => el("div", {}, el("h3", {}, title),
    el("dl", {}, ...rows.flatMap(([key, what]) => [el("dt", {}, ...key.split(" ").length <= 2 && title === "Keys" ? key.split(" ").flatMap((one) => [el("kbd", {}, one), " "]) : [el("kbd", {}, key)]), el("dd", {}, what)])));
  const close = el("button", { class: "button" }, "Close");
  const made = el("dialog", { class: "help", "aria-label": "Keys and help" }, el("div", { class: "help-columns" }, list("Keys", KEYS), el("div", {}, list("Mouse", MOUSE), list("Search", SEARCH))),
    el("p", { class: "muted" }, "Boxes are operations, one below another where one is in the other. What is narrower than a pixel is drawn as high as the share of that pixel's time that it took."), close);
  close.addEventListener("click", () => made.close());
  return made;
}
