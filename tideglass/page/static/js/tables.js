// Inputs with their partitions and substreams, reference data, and outputs.

import { html } from "../vendor/lit-html/lit-html.js";
import { clock, count, duration, NO_DATA, plural, text } from "./format.js";
import { behind, byName, instant, isEnd, lagSeconds, merged, readers, watermarkOf } from "./model.js";
import { ago, card, table, watermarkText } from "./parts.js";

/** Partitions shown before "all" is asked for. */
const MOST_ROWS = 12;

/** What became of events that were not simply accepted: "200 adjusted late, 3 refused". */
function fates(each) {
  const found = Object.entries(each.decisions ?? {}).filter(([name, number]) => name !== "accepted" && number);
  const refused = each.counters?.DeserializationError;
  const words = found.map(([name, number]) => `${count(number)} ${name.replaceAll("_", " ")}`);
  if (refused) words.push(`${count(refused)} refused`);
  return words.length ? words.join(", ") : "none";
}

function partitionRow(each, lag, nowMs) {
  return [
    each.partition,
    watermarkText(watermarkOf(each), nowMs),
    duration(lagSeconds(each)),
    duration(lag(each)),
    text(each.held_by),
    instant(each.event_time_ms) === null ? NO_DATA : clock(each.event_time_ms, nowMs),
    each.last_event ? ago(each.last_event, nowMs) : "none in this run",
    count(each.events),
    each.rows_held ? count(each.rows_held) : "0",
    fates(each),
  ];
}

const PARTITION_COLUMNS = [
  ["partition"], ["watermark", "number"], ["delay", "number"], ["behind the input", "number"], ["set by", "words"], ["newest event", "number"],
  ["last read", "number"], ["events", "number"], ["held", "number"], ["adjusted, dropped or refused", "words"],
];

/** The slowest first: those without a watermark hold everything back. */
function bySlowness(a, b) {
  const rank = (each) => (isEnd(watermarkOf(each)) ? Infinity : (instant(each.watermark_ms) ?? -Infinity));
  return rank(a) - rank(b) || byName(a.partition, b.partition);
}

function substreams(status, reader, nowMs) {
  const found = (status.substreams ?? []).filter((each) => each.input === reader.input && each.reader === reader.reader);
  if (!found.length) return "";
  const sorted = [...found].sort((a, b) => a.watermark_ms - b.watermark_ms);
  return html`<details>
    <summary>Substreams: the slowest and the fastest</summary>
    ${table(
      `Substreams of ${reader.name}`,
      [["substream"], ["partition"], ["watermark", "number"], ["newest event", "number"]],
      sorted.map((each) => [each.name, each.partition, watermarkText(each.watermark_ms, nowMs), watermarkText(each.event_time_ms, nowMs)]),
    )}
  </details>`;
}

export function inputsCard(model, ui, set) {
  const { status, nowMs } = model;
  const all = readers(status);
  const parts = all.map((reader) => {
    const whole = ui.allPartitions === reader.key;
    const sorted = [...reader.partitions].sort(bySlowness);
    const lag = behind(reader.partitions);
    const shown = whole ? sorted : sorted.slice(0, MOST_ROWS);
    return html`<h3 class="axis-title">
        ${reader.name} <small>${plural(reader.partitions.length, "partition")} · watermark ${watermarkText(merged(reader), nowMs)} · slowest first</small>
      </h3>
      ${table(`Partitions of ${reader.name}, slowest first`, PARTITION_COLUMNS, shown.map((each) => partitionRow(each, lag, nowMs)))}
      ${sorted.length > MOST_ROWS
        ? html`<button type="button" aria-expanded=${whole ? "true" : "false"} @click=${() => set({ allPartitions: whole ? null : reader.key })}>
            ${whole ? "show the slowest only" : `show all ${sorted.length}`}
          </button>`
        : ""}
      ${substreams(status, reader, nowMs)}`;
  });
  const references = status.references ?? [];
  const backlog = Object.entries(status.backlog ?? {});
  const body = html`
    ${parts.length ? parts : html`<p class="empty">${NO_DATA}: no input has been read yet</p>`}
    ${backlog.length ? html`<p class="note">There and not read: ${backlog.map(([name, value]) => `${name} ${count(value)}`).join(", ")}</p>` : ""}
    ${references.length
      ? html`<h3 class="axis-title">Reference data</h3>
          ${table(
            "Reference inputs",
            [["input"], ["snapshots", "number"], ["rows of the newest", "number"], ["effective from", "number"]],
            references.map((each) => [
              each.input,
              count(each.snapshots),
              typeof each.rows === "number" ? count(each.rows) : "not counted",
              instant(each.effective_ms) === null ? "none is loaded" : clock(each.effective_ms, nowMs),
            ]),
          )}`
      : ""}
  `;
  return card("inputs", "Inputs", body, { wide: true });
}

function life(each) {
  if (each.alive === null || each.alive === undefined) return "not called yet";
  return each.alive ? html`<span class="good">alive</span>` : html`<span class="bad">dead</span>`;
}

export function outputsCard(model) {
  const { status, nowMs } = model;
  const rows = (status.outputs ?? []).map((each) => [
    each.output,
    each.connector,
    life(each),
    count(each.rows),
    each.last_row ? ago(each.last_row, nowMs) : "none in this run",
    instant(each.last_row_ms) === null ? NO_DATA : clock(each.last_row_ms, nowMs),
    each.failed_calls ? html`${count(each.calls)}, <span class="bad">${count(each.failed_calls)} failed</span>` : count(each.calls),
    each.calls ? duration(each.seconds / each.calls) : NO_DATA,
    html`<span class="long-text">${each.last_error ?? "none"}</span>`,
  ]);
  const body = table(
    "Outputs",
    [["output"], ["kind"], ["state"], ["rows", "number"], ["last row", "number"], ["its time", "number"], ["calls", "number"], ["a call takes", "number"], ["last error", "long"]],
    rows,
    `${NO_DATA}: no output has reported yet`,
  );
  return card("outputs", "Outputs", body, { wide: true });
}
