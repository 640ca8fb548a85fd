// What the page draws, made of what the API answers. Times are milliseconds since 1970 in UTC.

/** The API's text for a watermark past all events. */
export const END = "end of input";

export const isEnd = (ms) => ms === END;

/** The instant, or null where there is none: unknown, or the end of the input. */
export const instant = (ms) => (typeof ms === "number" && Number.isFinite(ms) ? ms : null);

/** Watermarks in order: the end of the input is after every instant. */
const rank = (ms) => (isEnd(ms) ? Infinity : ms);

const PARTITION_FIELDS = ["input", "reader", "partition", "watermark_ms", "event_time_ms", "last_arrival_ms", "events"];
const STEP_FIELDS = ["operator", "input_watermark_ms", "output_watermark_ms", "rows_in", "rows_out"];

const PANE_FIELDS = ["operator", "percent", "watermark_ms", "rows_out"];

/** A named tuple is an array in the journal of the history. */
const named = (fields, row) =>
  Array.isArray(row) ? Object.fromEntries(fields.map((name, at) => [name, row[at] ?? null])) : row;

export const readerKey = (input, reader) => `${input}#${reader}`;

/** The earliest watermark of those that are known; null where `all` are needed and one is unknown. */
export function least(values, all = false) {
  const found = values.filter((each) => each !== null && each !== undefined);
  if (!found.length || (all && found.length < values.length)) return null;
  return found.reduce((a, b) => (rank(b) < rank(a) ? b : a));
}

export function largest(values) {
  const found = values.filter((each) => each !== null && each !== undefined);
  return found.length ? found.reduce((a, b) => (rank(b) > rank(a) ? b : a)) : null;
}

/** Samples of a job over time, oldest first. More than `most` are thinned: every second of the older half goes. */
export class History {
  constructor(most = 1500) {
    this.most = most;
    this.samples = [];
    this.version = 0;
  }

  get lastMs() {
    return this.samples.length ? this.samples[this.samples.length - 1].at_ms : null;
  }

  add(samples) {
    for (const raw of samples ?? []) {
      if (this.lastMs !== null && raw.at_ms <= this.lastMs) continue;
      this.samples.push(sample(raw));
      this.version += 1;
    }
    if (this.samples.length > this.most) {
      const half = this.samples.length >> 1;
      this.samples = this.samples.filter((each, at) => at >= half || at % 2 === 0 || each.mark);
      this.version += 1;
    }
  }

  /** The moment a status was seen, where the journal of the history says less: inputs of many partitions. */
  observe(status, atMs) {
    const key = status.updated;
    if (!key || key === this.observedKey) return;
    this.observedKey = key;
    this.observed ??= [];
    const byReader = new Map();
    for (const reader of readers(status)) {
      const delay = behind(reader.partitions);
      byReader.set(reader.key, new Map(reader.partitions.map((each) => [each.partition, delay(each)])));
    }
    this.observed.push({ at_ms: atMs, run: status.run, byReader });
    if (this.observed.length > 240) this.observed.shift();
    this.version += 1;
  }

  /** Samples from `fromMs` on, of one run where `run` is a number. */
  within(fromMs, run = null) {
    return this.samples.filter((each) => each.at_ms >= fromMs && (run === null || each.run === run));
  }
}

function sample(raw) {
  const inputs = new Map((raw.inputs ?? []).map((each) => [readerKey(each.input, each.reader), each]));
  const partitions = new Map();
  for (const row of raw.partitions ?? []) {
    const each = named(PARTITION_FIELDS, row);
    const key = readerKey(each.input, each.reader);
    if (!partitions.has(key)) partitions.set(key, new Map());
    partitions.get(key).set(each.partition, each);
  }
  const steps = new Map((raw.steps ?? []).map((row) => named(STEP_FIELDS, row)).map((each) => [each.operator, each]));
  const earlyPanes = new Map(
    (raw.early_panes ?? []).map((row) => named(PANE_FIELDS, row)).map((each) => [`${each.operator} ${each.percent}`, each]),
  );
  return { ...raw, inputs, partitions, steps, earlyPanes };
}

/** Newest arrival minus watermark, in seconds; 0 at the end of the input, null without a watermark. */
export function lagSeconds(partition) {
  if (typeof partition.delay_seconds === "number") return partition.delay_seconds;
  if (isEnd(watermarkOf(partition))) return 0;
  const watermark = instant(partition.watermark_ms);
  const arrival = instant(partition.last_arrival_ms);
  return watermark === null || arrival === null ? null : Math.max(0, (arrival - watermark) / 1000);
}

const readersOf = new WeakMap();

/** The readers of a status, each with its partitions by name; in the order of the query. */
export function readers(status) {
  if (!readersOf.has(status)) readersOf.set(status, grouped(status));
  return readersOf.get(status);
}

function grouped(status) {
  const found = new Map();
  for (const each of status.inputs ?? []) {
    const key = readerKey(each.input, each.reader);
    if (!found.has(key)) found.set(key, { key, input: each.input, reader: each.reader, partitions: [] });
    found.get(key).partitions.push(each);
  }
  for (const each of found.values()) {
    const twice = [...found.values()].filter((other) => other.input === each.input).length > 1;
    each.name = twice ? `${each.input} (reader ${each.reader})` : each.input;
    each.partitions.sort((a, b) => byName(a.partition, b.partition));
  }
  return [...found.values()];
}

const names = new Intl.Collator("en", { numeric: true });
export const byName = (a, b) => names.compare(String(a), String(b));

/** The merged watermark of a reader: the earliest, once every partition has one. */
export const merged = (reader) => least(reader.partitions.map(watermarkOf), true);

export const watermarkOf = (partition) => (partition.watermark === END ? END : (partition.watermark_ms ?? null));

/** How far a watermark is behind the newest arrival of the whole input: an idle partition shows as what it holds back. */
export function behind(rows) {
  const arrival = largest(rows.map((each) => instant(each.last_arrival_ms)));
  return (each) => {
    if (!each) return null;
    const mark = watermarkOf(each);
    if (isEnd(mark)) return 0;
    return instant(mark) === null || arrival === null ? null : Math.max(0, (arrival - mark) / 1000);
  };
}

/** What happens per second between the first and last of the newest samples, over `seconds`; null for too few. */
export function recentRate(samples, read, seconds = 30) {
  if (samples.length < 2) return null;
  const last = samples[samples.length - 1];
  let first = samples[samples.length - 2];
  for (let at = samples.length - 2; at >= 0; at -= 1) {
    if (samples[at].run !== last.run || samples[at].at_ms < last.at_ms - seconds * 1000) break;
    first = samples[at];
  }
  const [before, after] = [read(first), read(last)];
  if (before === null || before === undefined || after === null || after === undefined) return null;
  const between = (last.at_ms - first.at_ms) / 1000;
  return between > 0 && first.run === last.run ? Math.max(0, (after - before) / between) : null;
}

/** The lines of a node's text in the query, first and last, from 1; null where it has none of its own. */
export function linesOf(node, query) {
  if (!node || !query) return null;
  const names = new Set(node.operators.map((each) => each.output ?? each.step));
  const kind = node.role === "output" ? "output" : "step";
  const steps = query.steps ?? [];
  const step = steps.find((each) => names.has(each.name) && each.kind === kind) ?? steps.find((each) => names.has(each.name));
  if (step && node.role !== "operator") return { first: step.line, last: step.end_line };
  const lines = node.operators.map((each) => each.line).filter((line) => typeof line === "number");
  return lines.length ? { first: Math.min(...lines), last: Math.max(...lines) } : null;
}

/** The logical diagram: inputs, steps of the query and outputs, with the operators each consists of. */
export function logicalNodes(status, query = null) {
  const steps = status.steps ?? [];
  const inputs = new Set((status.inputs ?? []).map((each) => each.input));
  for (const each of status.references ?? []) inputs.add(each.input);
  const outputs = new Set(steps.filter((each) => each.output).map((each) => each.output));
  const named = new Set((query?.steps ?? []).filter((each) => each.kind === "step").map((each) => each.name));
  const groups = new Map();
  const groupOf = new Map();
  for (const step of steps) {
    const isInput = inputs.has(step.step) && !step.sources?.length;
    const isOutput = step.output || (outputs.has(step.step) && !named.has(step.step));
    const role = isInput ? "input" : isOutput ? "output" : "step";
    const name = step.output ?? step.step;
    const key = `${role}:${name}`;
    groupOf.set(step.operator, key);
    if (!groups.has(key)) groups.set(key, { key, role, name, operators: [], sources: new Set() });
    groups.get(key).operators.push(step);
  }
  for (const step of steps) {
    const key = groupOf.get(step.operator);
    for (const source of step.sources ?? []) {
      const from = groupOf.get(source);
      if (from && from !== key) groups.get(key).sources.add(from);
    }
  }
  return [...groups.values()].map((group) => summed(group));
}

/** One node of the diagram, of the operators it consists of. */
function summed(group) {
  const within = new Set(group.operators.map((each) => each.operator));
  const first = group.operators.filter((each) => !(each.sources ?? []).some((source) => within.has(source)));
  const fed = new Set(group.operators.flatMap((each) => each.sources ?? []));
  const last = group.operators.filter((each) => !fed.has(each.operator));
  const ends = last.length ? last : group.operators.slice(-1);
  const starts = first.length ? first : group.operators.slice(0, 1);
  const total = (list, name) => list.reduce((sum, each) => sum + (each[name] ?? 0), 0);
  return {
    key: group.key,
    role: group.role,
    title: group.name,
    kind: group.role === "step" || group.role === "output" ? kinds(group.operators) : "input",
    operators: group.operators,
    sources: [...group.sources],
    level: Math.max(...group.operators.map((each) => each.level)),
    rowsIn: total(starts, "rows_in"),
    rowsOut: total(ends, "rows_out"),
    starts: starts.map((each) => each.operator),
    ends: ends.map((each) => each.operator),
    inputWatermarkMs: least(starts.map((each) => each.input_watermark_ms), true),
    outputWatermarkMs: least(ends.map((each) => each.output_watermark_ms), true),
    dataLagSeconds: largest(ends.map((each) => each.data_watermark_lag_seconds)),
    systemLagSeconds: largest(group.operators.map((each) => each.system_watermark_lag_seconds)),
    latencySeconds: latency(starts, ends),
    holders: distinct(group.operators.flatMap((each) => each.holders ?? [])),
    ...reporting(group.operators),
  };
}

/** What is held, oldest first; operators that wait for the same name the same. */
function distinct(holders) {
  const found = new Map(holders.map((each) => [JSON.stringify(each), each]));
  return [...found.values()].sort((a, b) => (instant(a.oldest_ms) ?? -Infinity) - (instant(b.oldest_ms) ?? -Infinity));
}

/** Ranges, and how many have reported, of the operator that most are missing of. */
function reporting(operators) {
  const missing = (each) => (each.ranges ?? 0) - (each.ranges_reported ?? 0);
  const worst = operators.reduce((a, b) => (missing(b) > missing(a) ? b : a));
  return { ranges: worst.ranges ?? 0, rangesReported: worst.ranges_reported ?? 0 };
}

function latency(starts, ends) {
  const before = instant(least(starts.map((each) => each.input_watermark_ms), true));
  const after = instant(least(ends.map((each) => each.output_watermark_ms), true));
  return before === null || after === null ? null : Math.max(0, (before - after) / 1000);
}

function kinds(operators) {
  const dull = new Set(["send", "receive", "output", "scan", "input"]);
  const found = [...new Set(operators.map((each) => each.kind))];
  const telling = found.filter((kind) => !dull.has(kind));
  return (telling.length ? telling : found).join(", ");
}

/** The physical diagram: every operator of the topology on its level. */
export function physicalNodes(status) {
  return (status.steps ?? []).map((step) => ({
    ...summed({ key: `operator:${step.operator}`, role: "operator", name: step.kind, operators: [step], sources: [] }),
    role: step.output ? "output" : step.level === 0 && !step.sources?.length ? "input" : "step",
    kind: `${step.output ?? step.step} · ${step.level === 0 ? "scan" : `level ${step.level}`}`,
    sources: (step.sources ?? []).map((source) => `operator:${source}`),
  }));
}

/**
 * The node that holds the job's watermark back: the first one on the way whose output watermark is the least.
 * Whatever comes after it cannot be further; null while nothing has a watermark.
 */
export function holderOf(nodes) {
  const known = nodes.filter((each) => instant(each.outputWatermarkMs) !== null);
  if (!known.length) return null;
  const mark = least(known.map((each) => each.outputWatermarkMs));
  const held = new Map(known.filter((each) => each.outputWatermarkMs === mark).map((each) => [each.key, each]));
  for (const node of held.values()) if (!node.sources.some((source) => held.has(source))) return node.key;
  return null;
}
