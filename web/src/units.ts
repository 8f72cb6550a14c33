// Times, sizes and counts exactly as pyio_trace/units.py writes them: the page has sentences and pictures that it wrote, a
// figure of the terminal is to be found again here, and "us" can be typed into the search.

const TIMES: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]];
const SIZES: [number, string][] = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];

function three(value: number): string {
  if (Number.isInteger(value)) return String(value);
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

export function seconds(ns: number): string {
  if (ns < 0) return `-${seconds(-ns)}`;
  const whole = Math.floor(ns / 1e9);
  if (whole >= 3600) return `${number(Math.floor(whole / 3600))} h ${Math.floor((whole % 3600) / 60)} min`;
  if (whole >= 180) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  for (const [unit, name] of TIMES) if (ns >= unit) return `${three(ns / unit)} ${name}`;
  return `${Math.round(ns)} ns`;
}

export function size(bytes: number): string {
  for (const [unit, name] of SIZES) if (bytes >= unit) return `${three(bytes / unit)} ${name}`;
  return `${bytes} B`;
}

export function number(count: number): string {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function percent(share: number): string {
  const value = share * 100;
  if (value >= 10 || value === 0) return `${value.toFixed(0)} %`;
  return value >= 0.1 ? `${value.toFixed(1)} %` : "<0.1 %";
}

/** A moment on an axis with ticks `step` apart, both in ns. */
export function moment(ns: number, step: number): string {
  const [unit, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 && ns < 1e10 ? [1e6, "ms"] : step >= 1e6 ? [1e9, "s"]
    : step >= 1e3 && ns < 1e8 ? [1e3, "us"] : ns < 1e6 ? [1e3, "us"] : [1e6, "ms"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / (unit as number)) - 1e-9));
  const value = (ns / (unit as number)).toFixed(digits);
  const [integral, fraction] = value.split(".");
  const grouped = (integral as string).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return `${grouped}${fraction ? `.${fraction}` : ""} ${name}`;
}
