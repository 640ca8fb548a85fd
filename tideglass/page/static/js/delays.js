// The heat map: how far each partition is behind, over time.

import { html } from "../vendor/lit-html/lit-html.js";
import { clock, duration, NO_DATA, plural } from "./format.js";
import { behind, byName, readers } from "./model.js";
import { card, choice } from "./parts.js";

const MOST_COLUMNS = 240;
const ROW_PX = 18;
const MOST_PX = 330;
const LEAST_PX = 44;
/** What the darkest class begins at: the largest of these the delays reach. */
const TOPS = [60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400, 604_800, 31_536_000];
const CLASSES = ["heat0", "heat1", "heat2", "heat3", "heat4"];

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** What the history keeps of an input with many partitions: their watermarks in order, slowest first. */
const SPREAD = ["slowest", "slower quarter", "median", "faster quarter", "fastest"];

/** Delays of a reader's partitions, or their spread: a row for each, columns over time; null where nothing is known. */
export function delaysOf(model, ui) {
  const all = readers(model.status);
  const reader = all.find((each) => each.key === ui.reader) ?? all[0];
  if (!reader) return null;
  const kept = model.history.samples.some((each) => each.run === model.status.run && each.partitions.has(reader.key));
  const spread = !kept && !ui.eachPartition;
  const names = spread ? SPREAD : reader.partitions.map((each) => each.partition);
  const moments = kept ? keptMoments(model, reader) : spread ? spreadMoments(model, reader) : seenMoments(model, reader);
  const each = Math.max(1, Math.ceil(moments.length / MOST_COLUMNS));
  const columns = [];
  for (let at = 0; at < moments.length; at += each) {
    const group = moments.slice(at, at + each);
    columns.push({
      fromMs: group[0].at_ms,
      toMs: group[group.length - 1].at_ms,
      delays: names.map((name) => {
        let worst = null;
        for (const moment of group) {
          const delay = moment.delayOf(name);
          if (delay !== null && delay !== undefined && (worst === null || delay > worst)) worst = delay;
        }
        return worst;
      }),
    });
  }
  const delay = behind(reader.partitions);
  const newest = new Map(reader.partitions.map((one) => [one.partition, delay(one)]));
  const rows = names.map((_, at) => at);
  if (ui.slowestFirst && !spread) rows.sort((a, b) => (newest.get(names[b]) ?? -1) - (newest.get(names[a]) ?? -1) || byName(names[a], names[b]));
  let largest = 0;
  for (const column of columns) for (const delay of column.delays) if (delay > largest) largest = delay;
  const top = [...TOPS].reverse().find((one) => one <= largest) ?? TOPS[0];
  return { reader, names, rows, columns, newest, limits: [top / 12, top / 4, top / 2, top], kept, spread, largest };
}

function keptMoments(model, reader) {
  return model.history.samples
    .filter((each) => each.run === model.status.run && each.partitions.has(reader.key))
    .map((each) => {
      const rows = each.partitions.get(reader.key);
      const delay = behind([...rows.values()]);
      return { at_ms: each.at_ms, delayOf: (name) => delay(rows.get(name)) };
    });
}

function spreadMoments(model, reader) {
  return model.history.samples
    .filter((each) => each.run === model.status.run && each.inputs.has(reader.key))
    .map((each) => {
      const { watermarks_ms: marks, last_arrival_ms: arrival, partitions, known } = each.inputs.get(reader.key);
      // Where some have no watermark yet, the slowest one is unknown, not the least of the others.
      const delay = behind([{ last_arrival_ms: arrival }]);
      const delayOf = (name) =>
        name === SPREAD[0] && known < partitions ? null : delay({ watermark_ms: marks[SPREAD.indexOf(name)] ?? null });
      return { at_ms: each.at_ms, delayOf };
    });
}

function seenMoments(model, reader) {
  return (model.history.observed ?? [])
    .filter((each) => each.run === model.status.run && each.byReader.has(reader.key))
    .map((each) => ({ at_ms: each.at_ms, delayOf: (name) => each.byReader.get(reader.key).get(name) ?? null }));
}

const classOf = (delay, limits) => limits.filter((limit) => delay >= limit).length;

export const mapHeight = (rows) => Math.max(LEAST_PX, Math.min(MOST_PX, rows * ROW_PX));

function rgb(text, canvas) {
  canvas.fillStyle = text;
  const found = canvas.fillStyle;
  return [1, 3, 5].map((at) => parseInt(found.slice(at, at + 2), 16));
}

/** One pixel of the canvas for each cell; the style sheet stretches it. */
export function drawDelays(canvas, delays, ui) {
  if (!canvas || !delays?.columns.length) return;
  const [width, height] = [delays.columns.length, delays.rows.length];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.style.height = `${mapHeight(height)}px`;
  const context = canvas.getContext("2d");
  const colours = [...CLASSES, "heat-none"].map((name) => rgb(colourOf(name), context));
  const image = context.createImageData(width, height);
  for (const [x, column] of delays.columns.entries()) {
    for (const [y, row] of delays.rows.entries()) {
      const delay = column.delays[row];
      const [r, g, b] = colours[delay === null ? CLASSES.length : classOf(delay, delays.limits)];
      image.data.set([r, g, b, 255], (y * width + x) * 4);
    }
  }
  context.putImageData(image, 0, 0);
  const mark = canvas.nextElementSibling;
  if (mark) {
    mark.hidden = !ui.cell;
    if (ui.cell) {
      Object.assign(mark.style, {
        left: `${(100 * ui.cell[0]) / width}%`, top: `${(100 * ui.cell[1]) / height}%`,
        width: `${100 / width}%`, height: `${100 / height}%`,
      });
    }
  }
}

function readout(delays, ui, nowMs) {
  const [x, y] = ui.cell ?? [];
  const column = delays.columns[x];
  const row = delays.rows[y];
  if (!column || row === undefined) {
    const worst = [...delays.newest].filter(([, delay]) => delay !== null).sort((a, b) => b[1] - a[1])[0];
    return worst ? `now: the slowest is partition ${worst[0]}, ${duration(worst[1])} behind` : NO_DATA;
  }
  const delay = column.delays[row];
  const what = delays.spread ? `the ${delays.names[row]} of ${plural(delays.newest.size, "partition")}` : `partition ${delays.names[row]}`;
  return `${what}, ${clock(column.toMs, nowMs)}: ${delay === null ? "no watermark" : `${duration(delay)} behind`}`;
}

/** Why a map of many partitions shows what it shows. */
function noteOf(delays, model) {
  return delays.spread
    ? "Of an input with more than 64 partitions the history keeps the slowest, the fastest and the quarters between them, at each moment; a row is not one partition."
    : `Each partition since this page was opened at ${clock(delays.columns[0].fromMs, model.nowMs)}; what was before is kept as the spread only.`;
}

export function delaysCard(model, ui, delays, set) {
  const height = delays ? delays.rows.length : 0;
  const drawable = delays && delays.columns.length > 0;
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = (offset, whole, cells) => Math.min(cells - 1, Math.max(0, Math.floor((offset / whole) * cells)));
    set({ cell: [at(event.clientX - box.left, box.width, delays.columns.length), at(event.clientY - box.top, box.height, height)] });
  };
  const keys = (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    const [x, y] = ui.cell ?? [delays.columns.length - 1 - by[0], -by[1]];
    set({
      cell: [Math.min(delays.columns.length - 1, Math.max(0, x + by[0])), Math.min(height - 1, Math.max(0, y + by[1]))],
    });
  };
  const labelled = height * ROW_PX <= MOST_PX;
  const body = html`
    <p class="readout" id="delays-readout" aria-live=${ui.cell ? "polite" : "off"}>${drawable ? readout(delays, ui, model.nowMs) : NO_DATA}</p>
    ${drawable
      ? html`<div class="heat">
          ${labelled
            ? html`<ol class="heat-names">
                ${delays.rows.map((row) => html`<li>${delays.names[row]}</li>`)}
              </ol>`
            : html`<div class="heat-names ends"><span>${delays.names[delays.rows[0]]}</span><span>${delays.names[delays.rows.at(-1)]}</span></div>`}
          <div
            class="heat-map"
            role="img"
            tabindex="0"
            aria-label=${`Delay of ${delays.spread ? `the slowest to the fastest of ${plural(delays.newest.size, "partition")}` : plural(height, "partition")} over time; arrow keys move over it`}
            aria-describedby="delays-readout"
            @pointermove=${point}
            @pointerleave=${() => set({ cell: null })}
            @keydown=${keys}
            @blur=${() => set({ cell: null })}
          >
            <canvas id="delays-map"></canvas><span class="heat-mark" hidden></span>
          </div>
          <div class="heat-times"><span>${clock(delays.columns[0].fromMs, model.nowMs)}</span><span>${clock(delays.columns.at(-1).toMs, model.nowMs)}</span></div>
        </div>`
      : html`<p class="empty">${NO_DATA}: no sample of this run yet</p>`}
    <ul class="legend">
      ${drawable
        ? [
            ...CLASSES.map((name, at) => html`<li>
              <svg class="swatch" viewBox="0 0 18 10" aria-hidden="true"><rect width="18" height="10" rx="2" class=${`fill-${name}`}></rect></svg
              >${at === 0 ? `below ${duration(delays.limits[0])}` : `from ${duration(delays.limits[at - 1])}`}
            </li>`),
            html`<li><svg class="swatch" viewBox="0 0 18 10" aria-hidden="true"><rect width="18" height="10" rx="2" class="fill-heat-none"></rect></svg>no watermark</li>`,
          ]
        : ""}
    </ul>
    ${drawable && !delays.kept ? html`<p class="note">${noteOf(delays, model)}</p>` : ""}
  `;
  const many = delays && !delays.kept;
  const which = many
    ? choice("delays-which", "What is shown", [["spread", "since the start"], ["each", "each partition"]], ui.eachPartition ? "each" : "spread", (chosen) =>
        set({ eachPartition: chosen === "each", cell: null }),
      )
    : "";
  const order = delays?.spread ? "" : choice("delays-order", "Order of the partitions", [["name", "by name"], ["slowest", "slowest first"]], ui.slowestFirst ? "slowest" : "name", (order) =>
    set({ slowestFirst: order === "slowest", cell: null }),
  );
  return card("delays", "Delay of each partition", body, { aside: html`${which}${order}` });
}
