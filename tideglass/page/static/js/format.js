// Numbers and times as text. What is not there is "no data", never NaN, null or undefined.

export const NO_DATA = "no data";

const DAY_MS = 86_400_000;
const pad = (number, digits = 2) => String(number).padStart(digits, "0");

export const known = (value) => typeof value === "number" && Number.isFinite(value);

/** A number of things: 12 345; from ten millions on 12.3 M. */
export function count(value) {
  if (!known(value)) return NO_DATA;
  if (Math.abs(value) >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (Math.abs(value) >= 1e7) return `${(value / 1e6).toFixed(1)} M`;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Things per second. */
export function rate(value) {
  if (!known(value)) return NO_DATA;
  if (value > 0 && value < 0.1) return `${count(value * 3600)}/h`;
  return `${value >= 10 || value === 0 ? count(value) : value.toFixed(1)}/s`;
}

/** A length of time in its two largest units. */
export function duration(seconds) {
  if (!known(seconds)) return NO_DATA;
  const sign = seconds < 0 ? "−" : "";
  const s = Math.abs(seconds);
  if (s === 0) return "0 s";
  if (s < 0.0995) return `${sign}${Math.max(1, Math.round(s * 1000))} ms`;
  if (s < 9.95) return `${sign}${Number(s.toFixed(1))} s`;
  const whole = Math.round(s);
  if (whole < 120) return `${sign}${whole} s`;
  const pairs = [["y", 31_557_600], ["d", 86_400], ["h", 3600], ["min", 60]];
  for (const [at, [unit, length]] of pairs.entries()) {
    if (whole < length) continue;
    const [next, nextLength] = pairs[at + 1] ?? ["s", 1];
    const total = Math.round(whole / nextLength) * nextLength;
    const first = Math.floor(total / length);
    const rest = Math.round((total - first * length) / nextLength);
    return `${sign}${first} ${unit}${rest ? ` ${rest} ${next}` : ""}`;
  }
  return `${sign}${whole} s`;
}

/** HH:MM:SS in UTC; with the date where it is not the day of `besideMs`; with milliseconds where asked. */
export function clock(ms, besideMs = undefined, { fraction = false } = {}) {
  if (!known(ms)) return NO_DATA;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return NO_DATA;
  const time = `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}:${pad(at.getUTCSeconds())}`;
  const text = fraction ? `${time}.${pad(at.getUTCMilliseconds(), 3)}` : time;
  const sameDay = known(besideMs) && Math.floor(besideMs / DAY_MS) === Math.floor(ms / DAY_MS);
  return sameDay ? text : `${day(ms)} ${text}`;
}

export function day(ms) {
  const at = new Date(ms);
  return `${pad(at.getUTCFullYear(), 4)}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())}`;
}

/** Bytes in the largest fitting unit. */
export function bytes(value) {
  if (!known(value)) return NO_DATA;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${value >= 10 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function percent(share) {
  return known(share) ? `${Math.round(share * 100)} %` : NO_DATA;
}

/** One thing, two things. */
export const plural = (number, one, several = `${one}s`) => `${count(number)} ${number === 1 ? one : several}`;

/** A text the job reports, or "no data". */
export const text = (value) => (value === null || value === undefined || value === "" ? NO_DATA : String(value));

const STEPS_SECONDS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
  604_800, 2_592_000, 7_776_000, 31_536_000, 157_680_000, 315_360_000,
];
export const TIME_STEPS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, ...STEPS_SECONDS];

/** Labels of an axis of times in seconds since 1970: as short as the distance between them allows. */
export function axisTimes(seconds, stepSeconds) {
  return seconds.map((each, at) => {
    const ms = each * 1000;
    if (stepSeconds >= 86_400) return day(ms);
    const whole = clock(ms, ms, { fraction: stepSeconds < 1 });
    const label = stepSeconds >= 60 ? whole.slice(0, 5) : whole;
    return at === 0 || day(ms) === day(seconds[at - 1] * 1000) ? label : `${label}\n${day(ms)}`;
  });
}
