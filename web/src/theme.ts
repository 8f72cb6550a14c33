// Light or dark: as the system has it, until the reader chooses.

const NAMES = ["system", "light", "dark"] as const;
const KEY = "pyio_trace.theme";
let current: (typeof NAMES)[number] = "system";

export function startTheme(): void {
  try {
    const kept = localStorage.getItem(KEY);
    current = NAMES.find((one) => one === kept) ?? "system";
  } catch {
    // A browser may forbid it for files.
  }
  apply();
}

export function nextTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = dark ? (["system", "light", "dark"] as const) : (["system", "dark", "light"] as const);
  current = order[(order.indexOf(current) + 1) % order.length];
  try {
    localStorage.setItem(KEY, current);
  } catch {
    // The same.
  }
  apply();
}

export function themeName(): string {
  return { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[current];
}

function apply(): void {
  if (current === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = current;
}
