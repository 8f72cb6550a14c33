// What pyio_trace/page/document.py and report.py write.

export interface Site { text: string; place: string; line: number; find: string; source: [number, string][] }

export interface Finding {
  slug: string; severity: "critical" | "warning" | "info" | "ok"; title: string; notable: boolean; time: number | null;
  bound: string; cost: string; how: string; of_wall: number; place: string; sites: Site[]; files: string[];
  evidence: string[]; confidence: string; motif: string; remedy: string; before: string[]; after: string[];
}

export interface Kind {
  name: string; wall: number; states: [string, string, number][]; beside: [string, number][]; cpu: number | null;
}

export interface Line { time: number; io: number; place: string; what: string; find: string }

export interface FileGroup {
  time: number; files: number; opens: number; read: number; written: number; metadata: number; slow: number;
  name: string; role: string; find: string;
}

export interface Process {
  index: number; pid: number; parent: number | null; host: string; rank: number | null; begin: number;
  end: number | null; script: number | null; name: string; argv: string; ended: string; site: string; find: string;
  followed: boolean; wall?: number; busy?: number; calls?: number; read?: number; written?: number;
  storage?: number | null;
}

export interface Facts {
  run: {
    command: string; argv: string; host: string; start: number; wall: number; wall_is: string; running: boolean;
    mode: string; processes: number; cores: number | null; calls: number; records: number; log: string;
    log_bytes: number; tool: string; folder: string; run: string; states: string[];
  };
  answer: string[]; kinds: Kind[]; steps: string[]; data: [string, string, string][];
  storage: { read: number; storage: number } | null; sampled: boolean; lines: Line[]; files: FileGroup[];
  more: { lines: number; files: number }; findings: Finding[] | null; notes: string[];
  not_seen: { brief: string; text: string; details: string[] }[]; processes: Process[]; processes_more: number;
  cost: { time: number; share: number | null };
  operations: {
    of: number; shown: number; longest_left_out: number; left_out: Record<string, number>; orphans: number;
    rest: { layer: string; op: string; calls: number; time: number; moved: number }[];
  };
  sources: Record<string, string>;
  /** ns since the run began: from where to where the timeline reaches. */
  span: [number, number];
  /** A server has the parts of the run; missing: all that there is is in the page. */
  served?: boolean;
}

/** How a run's facts are said in the header. */
export const STATES: Record<string, string> = {
  io: "io", sync: "sync", lock: "sync", library: "library", hand_over: "handover", waiting: "waiting", task: "task",
  other: "other", computing: "computing", gil: "gil", asleep: "asleep", blocked: "blocked", starting: "starting",
  idle: "idle",
};
