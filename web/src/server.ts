// Asks the server of a large log for the part of the run in view.  The page of a file has no server, and its
// Content-Security-Policy forbids to ask.

import { inBytes, Operations } from "./data";
import type { View } from "./paint";

/** Parts that are kept. */
const MOST = 8;
const MOST_LEVEL = 51;

export interface Part { level: number; place: number }

export class Parts {
  private readonly kept = new Map<string, Operations>();
  private asking: AbortController | null = null;

  constructor(private readonly first: number, private readonly last: number, whole: Operations) {
    this.kept.set("0/0", whole);
  }

  /** The part for a view: it reaches beyond the view to both sides, so that little moves ask for nothing. */
  wanted(view: View): Part {
    const whole = this.last - this.first;
    const level = Math.min(Math.max(Math.floor(Math.log2(whole / (view.to - view.from))) - 1, 0), MOST_LEVEL);
    const half = whole / 2 ** level / 2;
    const middle = (view.from + view.to) / 2 - this.first;
    const place = Math.min(Math.max(Math.round(middle / half - 1), 0), 2 ** (level + 1) - 2);
    return { level, place };
  }

  /** Asks for a part, and no longer for another; null: another one was wanted before it came. */
  async read({ level, place }: Part): Promise<Operations | null> {
    this.asking?.abort();
    const key = `${level}/${place}`;
    const kept = this.kept.get(key);
    if (kept) return kept;
    const asking = new AbortController();
    this.asking = asking;
    try {
      const answer = await fetch(`tile?level=${level}&place=${place}`, { signal: asking.signal });
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const operations = await Operations.read(inBytes(await answer.arrayBuffer()));
      if (asking.signal.aborted) return null;
      this.keep(key, operations);
      return operations;
    } catch (error) {
      if (asking.signal.aborted) return null;
      throw error;
    }
  }

  private keep(key: string, operations: Operations): void {
    this.kept.set(key, operations);
    for (const one of this.kept.keys()) if (this.kept.size > MOST && one !== "0/0" && one !== key) this.kept.delete(one);
  }
}
