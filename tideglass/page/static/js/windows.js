// The windows of the query: which are closed, closing and open, and the rows in them.

import { html, svg } from "../vendor/lit-html/lit-html.js";
import { clock, count, duration, NO_DATA, plural } from "./format.js";
import { instant, isEnd, largest } from "./model.js";
import { card, swatch, table, watermarkText } from "./parts.js";

const CLOSED = 5;
const COMING = 4;
const MOST_LANES = 8;
const LANE_PX = 20;
const MOST_PANES = 80;

/**
 * Rows that were emitted when a watermark passed `endMs`: {rows, atMs, together: closings at once}; null: unknown.
 * markOf: the watermark and the rows so far of a sample: [ms, rows]; null where it has none.
 */
export function emittedAt(samples, markOf, endMs, hopMs) {
  for (let at = samples.length - 1; at > 0; at -= 1) {
    const [before, after] = [markOf(samples[at - 1]), markOf(samples[at])];
    if (!before || !after || samples[at].run !== samples[at - 1].run) continue;
    const [from, to] = [instant(before[0]), instant(after[0])];
    if (from === null || (to === null && !isEnd(after[0]))) continue;
    if (from <= endMs && (to === null || endMs < to)) {
      const later = to === null ? 1 : Math.ceil((to - endMs) / hopMs);
      const together = Math.max(1, later + Math.floor((endMs - from) / hopMs));
      return { rows: Math.max(0, after[1] - before[1]), atMs: samples[at].at_ms, together };
    }
  }
  return null;
}

/** The final results of a step in a sample: its watermark, and its rows less those of early panes. */
const finalOf = (step) => (sample) => {
  const found = sample.steps.get(step.operator);
  if (!found) return null;
  const early = (step.early_panes ?? []).map((each) => sample.earlyPanes.get(`${step.operator} ${each.percent}`)?.rows_out ?? 0);
  return [found.input_watermark_ms, found.rows_out - early.reduce((a, b) => a + b, 0)];
};

/** The early panes of a step at a percentage in a sample. */
const earlyOf = (step, percent) => (sample) => {
  const found = sample.earlyPanes.get(`${step.operator} ${percent}`);
  return found ? [found.watermark_ms, found.rows_out] : null;
};

/** The early panes of the window that ends at `endMs`: emitted once the watermark at their percentage is past it. */
function earlyPanes(step, samples, endMs, hopMs, alone) {
  return (step.early_panes ?? []).map((each) => {
    const isEmitted = isEnd(each.watermark_ms) || (instant(each.watermark_ms) ?? -Infinity) > endMs;
    const found = isEmitted && alone ? emittedAt(samples, earlyOf(step, each.percent), endMs, hopMs) : null;
    return { percent: each.percent, isEmitted, rows: found?.rows ?? null, atMs: found?.atMs ?? null, together: found?.together ?? 1 };
  });
}

/**
 * The windows of one operator around its watermark, earliest first.
 * alone: the operator has no other kind of window; of several nobody counts the rows apart.
 */
export function windowsOf(step, outline, samples, newestEventMs, alone = true) {
  const mark = instant(step.input_watermark_ms);
  const hopMs = typeof outline.hop_seconds === "number" ? outline.hop_seconds * 1000 : null;
  const sizeMs = outline.size_seconds * 1000;
  const held = (step.holders ?? []).filter((each) => each.component === "state");
  if (mark === null || hopMs === null || instant(outline.aligned_at_ms) === null) {
    return held.map((each) => ({
      startMs: instant(each.oldest_ms),
      endMs: instant(each.due_ms),
      state: "open",
      rows: each.rows ?? null,
      kind: each.kind,
      atMs: null,
    }));
  }
  const first = outline.aligned_at_ms + Math.ceil((mark - outline.aligned_at_ms) / hopMs) * hopMs;
  const found = [];
  for (let number = -CLOSED; number < COMING; number += 1) {
    const endMs = first + number * hopMs;
    const startMs = endMs - sizeMs;
    const isClosed = endMs < mark;
    const holder = held.find((each) => each.due_ms === endMs) ?? null;
    const begun = newestEventMs !== null && newestEventMs > startMs;
    const emitted = isClosed && alone ? emittedAt(samples, finalOf(step), endMs, hopMs) : null;
    found.push({
      early: earlyPanes(step, samples, endMs, hopMs, alone),
      startMs,
      endMs,
      state: isClosed ? "closed" : number === 0 ? "closing" : begun ? "open" : "coming",
      rows: isClosed ? (emitted?.rows ?? null) : (holder?.rows ?? null),
      together: emitted?.together ?? 1,
      atMs: emitted?.atMs ?? null,
      kind: holder?.kind ?? null,
    });
  }
  return found;
}

/** Length of the pieces that overlapping windows share; null where they do not overlap. */
export function paneSeconds(outline) {
  if (!outline.hop_seconds || outline.hop_seconds === outline.size_seconds) return null;
  let [a, b] = [Math.round(outline.size_seconds * 1000), Math.round(outline.hop_seconds * 1000)];
  while (b) [a, b] = [b, a % b];
  return a / 1000;
}

function panes(outline, from, to, x, bottom) {
  const paneMs = (paneSeconds(outline) ?? 0) * 1000;
  if (!paneMs || (to - from) / paneMs > MOST_PANES) return "";
  const first = outline.aligned_at_ms + Math.ceil((from - outline.aligned_at_ms) / paneMs) * paneMs;
  const marks = [];
  for (let at = first; at <= to; at += paneMs) marks.push(svg`<line class="pane" x1=${x(at)} x2=${x(at)} y1=${bottom - 2} y2=${bottom + 3}></line>`);
  return marks;
}

function bars(step, outline, windows, newestEventMs, width) {
  const mark = instant(step.input_watermark_ms);
  // Where an event decides the end, a window is drawn up to the newest one.
  const until = (each) => each.endMs ?? Math.max(newestEventMs ?? mark, each.startMs + 1);
  const placed = windows.filter((each) => each.startMs !== null).map((each) => ({ ...each, endMs: until(each), isOpenEnded: each.endMs === null }));
  if (isEnd(step.input_watermark_ms)) return html`<p class="empty">The input has ended: all windows are closed.</p>`;
  if (mark === null) return html`<p class="empty">${NO_DATA}: the watermark is unknown</p>`;
  if (!placed.length) return html`<p class="empty">No window holds a row.</p>`;
  const from = Math.min(...placed.map((each) => each.startMs));
  const to = Math.max(...placed.map((each) => each.endMs), newestEventMs ?? mark);
  const x = (ms) => ((ms - from) / Math.max(1, to - from)) * (width - 12) + 6;
  const overlap = outline.hop_seconds ? Math.ceil(outline.size_seconds / outline.hop_seconds) : placed.length;
  const lanes = Math.max(1, Math.min(MOST_LANES, overlap));
  const bottom = 20 + lanes * LANE_PX;
  const label = (ms, name, y) => {
    const at = x(ms);
    const end = at > width * 0.6;
    return svg`<line class=${`mark-${name}`} x1=${at} x2=${at} y1="14" y2=${bottom}></line>
      <text class=${`label-${name}`} x=${end ? at - 4 : at + 4} y=${y} text-anchor=${end ? "end" : "start"}>${name === "watermark" ? "watermark" : "newest event"} ${clock(ms, mark)}</text>`;
  };
  return html`<svg class="windows" width=${width} height=${bottom + 34} role="img" aria-label=${`Windows of ${step.step}: ${outline.text}`}>
    ${placed.map((each, at) => {
      const [left, right] = [x(each.startMs), x(each.endMs)];
      const y = 17 + (at % lanes) * LANE_PX;
      const words = each.rows === null ? "" : each.together > 1 ? `${count(each.rows)} in ${each.together}` : count(each.rows);
      const wide = right - left > words.length * 7 + 6;
      return svg`<g><title>${windowText(each, mark)}</title>
        <rect class=${`window ${each.state}${each.isOpenEnded ? " open-ended" : ""}`} x=${left + 1} y=${y} width=${Math.max(2, right - left - 2)} height=${LANE_PX - 4} rx="3"></rect>
        ${wide ? svg`<text class=${`in-window ${each.state}`} x=${(left + right) / 2} y=${y + (each.early?.length ? 10 : 12)} text-anchor="middle">${words}</text>` : ""}
        ${(each.early ?? []).map((pane, place) => {
          const part = (right - left - 6) / each.early.length;
          return svg`<rect class=${`early-pane ${pane.isEmitted ? "emitted" : "waiting"}`} x=${left + 3 + place * part} y=${y + LANE_PX - 8} width=${Math.max(1, part - 2)} height="3"><title>${earlyText(pane)}</title></rect>`;
        })}</g>`;
    })}
    ${(step.early_panes ?? []).map((each) => {
      const at = instant(each.watermark_ms);
      if (at === null || at < from || at > to) return "";
      return svg`<line class="mark-percent" x1=${x(at)} x2=${x(at)} y1="14" y2=${bottom}><title>watermark at ${each.percent} percent ${clock(at, mark)}</title></line>`;
    })}
    ${panes(outline, from, to, x, bottom)} ${label(mark, "watermark", 11)} ${newestEventMs !== null && newestEventMs <= to ? label(newestEventMs, "event", bottom + 12) : ""}
    <text class="axis" x="6" y=${bottom + 29}>${clock(from, mark)}</text>
    <text class="axis" x=${width - 6} y=${bottom + 29} text-anchor="end">${clock(to, mark)}</text>
  </svg>`;
}

function windowText(each, besideMs) {
  const span = `${each.startMs === null ? "?" : clock(each.startMs, besideMs)} to ${each.isOpenEnded ? "an event decides" : clock(each.endMs, besideMs)}`;
  const rows = each.rows === null ? "rows not counted" : plural(each.rows, "row");
  return [`${span}: ${each.state}, ${rows}`, ...(each.early ?? []).map(earlyText)].join("; ");
}

function earlyText(pane) {
  if (!pane.isEmitted) return `early ${pane.percent}: not yet`;
  return `early ${pane.percent}: ${pane.rows === null ? "emitted, rows not counted" : `${plural(pane.rows, "row")}${pane.together > 1 ? ` in ${pane.together} windows` : ""}`}`;
}

export function windowsCard(model, ui) {
  const { status, query, history } = model;
  const newestEventMs = largest((status.inputs ?? []).map((each) => instant(each.event_time_ms)));
  const samples = history.within(-Infinity, status.run);
  const steps = new Map((status.steps ?? []).map((each) => [each.operator, each]));
  const known = (query?.windows ?? []).filter((each) => steps.has(each.operator));
  const width = Math.max(240, ui.narrow || ui.width < 840 ? ui.width : Math.floor(ui.width / 2) - 24);
  const parts = known.map((outline) => {
    const step = steps.get(outline.operator);
    const alone = known.filter((each) => each.operator === outline.operator).length === 1;
    const windows = windowsOf(step, outline, samples, newestEventMs, alone);
    const mark = instant(step.input_watermark_ms);
    const next = windows.find((each) => each.state === "closing");
    const caption = next && mark !== null ? `the next closes in ${duration((next.endMs - mark) / 1000)} of event time` : `input watermark ${watermarkText(step.input_watermark_ms, model.nowMs)}`;
    const pane = paneSeconds(outline);
    const early = step.early_panes ?? [];
    const marks = early.map((each) => `${each.percent} % at ${watermarkText(each.watermark_ms, model.nowMs)}`);
    return html`<h3 class="axis-title">${step.step} <small>${outline.text}${pane ? `, of panes of ${duration(pane)}` : ""}${query.stamped?.[step.operator] ? `, results stamped with the ${query.stamped[step.operator]}` : ""} · ${caption}${marks.length ? ` · early panes: watermark of ${marks.join(", ")}` : ""}</small></h3>
      ${bars(step, outline, windows, newestEventMs, width)}
      ${windows.length ? html`<details>
        <summary>as a table</summary>
        ${table(
          `Windows of ${step.step}`,
          [["window ends", "number"], ["state"], ...early.map((each) => [`early ${each.percent}`, "number"]), ["rows", "number"], ["emitted at", "number"]],
          windows.map((each) => [
            each.endMs === null ? "an event decides" : clock(each.endMs, model.nowMs),
            each.state,
            ...(each.early ?? []).map((each) => (each.isEmitted ? (each.rows === null ? "not counted" : `${count(each.rows)}${each.atMs === null ? "" : ` at ${clock(each.atMs, model.nowMs)}`}`) : "—")),
            each.rows === null ? "not counted" : `${count(each.rows)}${each.together > 1 ? ` in ${each.together} windows` : ""}`,
            each.atMs === null ? "—" : clock(each.atMs, model.nowMs),
          ]),
        )}
      </details>` : ""}`;
  });
  const body = parts.length
    ? html`${parts}
        <ul class="legend">
          ${[["closed", "closed: rows emitted"], ["closing", "closes next"], ["open", "open: rows held"], ["coming", "no row yet"]].map(
            ([name, words]) => html`<li>${swatch(`window-${name}`)}${words}</li>`,
          )}
          ${known.some((each) => steps.get(each.operator).early_panes?.length)
            ? html`<li>${swatch("early-pane")}early pane emitted</li><li>${swatch("mark-percent")}watermark at a percentage</li>`
            : ""}
        </ul>`
    : html`<p class="empty">${query ? "The query has no window." : NO_DATA}</p>`;
  return card("windows", "Windows", body);
}
