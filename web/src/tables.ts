// A table that can be sorted by its columns and narrowed by the search.

import { type Child, el } from "./dom";
import { tester } from "./search";

export interface Column<T> {
  name: string;
  /** By what it is sorted; texts upward, numbers downward at first. */
  key: (row: T) => number | string;
  cell: (row: T) => Child;
  kind?: string;
}

export class Table<T> {
  readonly element = el("div", { class: "scroll", tabindex: "0" });
  private readonly body = el("tbody");
  private sorted = 0;
  private up = false;
  private test: (row: T) => boolean = () => true;
  private all = false;

  constructor(
    label: string, private readonly columns: Column<T>[], private readonly rows: T[], private readonly text: (row: T) => string,
    private readonly chosen: ((row: T) => void) | null, private readonly most = 8, private readonly ordered = true,
  ) {
    this.element.setAttribute("aria-label", label);
    this.element.setAttribute("role", "region");
    this.draw();
  }

  /** Narrows it to the rows with these words, and those that belong to what was found. */
  filter(query: string, linked: ((row: T) => boolean) | null): void {
    const words = tester(query);
    this.test = (row) => words(this.text(row)) || (linked !== null && linked(row));
    this.draw();
  }

  private draw(): void {
    const column = this.columns[this.sorted];
    const sign = this.up ? 1 : -1;
    const compare = (one: T, other: T): number => {
      const [a, b] = [column.key(one), column.key(other)];
      return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    };
    const matching = this.rows.filter(this.test);
    const shown = this.ordered ? [...matching].sort(compare) : matching;
    const most = this.all ? shown.length : this.most;
    this.body.replaceChildren(...shown.slice(0, most).map((row) => this.row(row)));
    const head = el("tr", {}, ...this.columns.map((one, at) => this.head(one, at)));
    const more = shown.length - most;
    const foot = more > 0 ? el("button", { class: "link", click: () => { this.all = true; this.draw(); } }, `${more} more`) : null;
    const none = shown.length ? null : el("p", { class: "muted" }, this.rows.length ? "No row matches the search." : "None.");
    const held = this.element.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset["column"] : undefined;
    this.element.replaceChildren(el("table", {}, el("thead", {}, head), this.body), ...(none ? [none] : []), ...(foot ? [foot] : []));
    if (held) this.element.querySelector<HTMLElement>(`[data-column="${held}"]`)?.focus();
  }

  private head(column: Column<T>, at: number): HTMLElement {
    if (!this.ordered) return el("th", { scope: "col", class: column.kind ?? "" }, column.name);
    const sorted = at === this.sorted;
    const turn = (): void => {
      this.up = sorted ? !this.up : typeof column.key(this.rows[0]) === "string";
      this.sorted = at;
      this.draw();
    };
    return el("th", { scope: "col", class: column.kind ?? "", "aria-sort": sorted ? (this.up ? "ascending" : "descending") : "none" },
      el("button", { click: turn, "data-column": String(at) }, column.name));
  }

  private row(row: T): HTMLElement {
    const made = el("tr", {}, ...this.columns.map((one) => el("td", { class: one.kind ?? "" }, one.cell(row))));
    const { chosen } = this;
    if (chosen) {
      made.classList.add("chosen");
      made.addEventListener("click", (event) => {
        if (!(event.target as Element).closest("button")) chosen(row);
      });
    }
    return made;
  }
}
