// The watermark picture: event time over processing time, the ideal diagonal, and how far everything is from it.

import { html } from "../vendor/lit-html/lit-html.js";
import { axisTimes, clock, duration, NO_DATA, TIME_STEPS_SECONDS } from "./format.js";
import { END, instant, isEnd, largest, merged, readers, watermarkOf } from "./model.js";
import { card, choice, swatch, watermarkText } from "./parts.js";

/** Inputs with more partitions are drawn as a band from the slowest to the fastest. */
const MOST_LINES = 8;
/** The diagonal is left out where it would press the rest into less than this share of the picture. */
const LEAST_SHARE = 0.12;

/** Less than this across says nothing. */
const LEAST_SECONDS = 10;

const SPANS = [
  ["5", "5 min"],
  ["60", "1 h"],
  ["run", "this run"],
  ["all", "all runs"],
];

/** Samples of the chosen span; between two runs stands null. */
function chosenSamples(model, span) {
  const { history, status } = model;
  const lastMs = history.lastMs ?? 0;
  const found =
    span === "run"
      ? history.within(-Infinity, status.run)
      : history.within(span === "all" ? -Infinity : lastMs - Number(span) * 60_000);
  const result = [];
  for (const each of found) {
    const before = result[result.length - 1];
    if (before && before.run !== each.run) result.push({ at_ms: each.at_ms - 1, run: each.run, gap: true });
    result.push(each);
  }
  return result;
}

/** What is drawn, as columns of seconds: `series` are [name, colour, dashed, width, values, label]. */
export function pictureOf(model, ui) {
  const reader = readers(model.status).find((each) => each.key === ui.reader) ?? readers(model.status)[0];
  if (!reader) return null;
  const samples = chosenSamples(model, ui.span);
  const x = samples.map((each) => each.at_ms / 1000);
  const of = (read) => samples.map((each) => {
    if (each.gap) return null;
    const ms = instant(read(each));
    return ms === null ? null : ms / 1000;
  });
  const sampleOf = (each) => each.inputs.get(reader.key);
  const settings = (model.query?.readers ?? []).find((each) => each.reader === reader.reader);
  const arrival = of((each) => sampleOf(each)?.last_arrival_ms);
  const event = of((each) => sampleOf(each)?.event_time_ms);
  const watermark = of((each) => {
    const input = sampleOf(each);
    return input && input.known === input.partitions ? input.watermarks_ms?.[0] : null;
  });

  const series = [];
  const bands = [];
  const add = (name, colour, values, options = {}) => series.push({ name, colour, values, ...options }) - 1;
  if (settings?.application_time && ui.bands) {
    const shifted = (seconds) => arrival.map((each) => (each === null || seconds === null ? null : each + seconds));
    if (typeof settings.early_seconds === "number" && typeof settings.late_seconds === "number") {
      const high = add("early limit", "early", shifted(settings.early_seconds), { edge: true, bound: true });
      const low = add("late limit", "late", shifted(-settings.late_seconds), { edge: true, bound: true });
      bands.push({ series: [high, low], colour: "tolerance", name: "in tolerance" });
    } else if (typeof settings.late_seconds === "number") {
      add("late limit", "late", shifted(-settings.late_seconds), { edge: true, bound: true });
    } else if (typeof settings.early_seconds === "number") {
      add("early limit", "early", shifted(settings.early_seconds), { edge: true, bound: true });
    }
  }
  const lines = reader.partitions.length <= MOST_LINES && samples.some((each) => each.partitions?.get(reader.key));
  if (reader.partitions.length > 1 && !lines) {
    const quarter = (at) => of((each) => sampleOf(each)?.watermarks_ms?.[at]);
    const [fastest, upper, lower, slowest] = [4, 3, 1, 0].map((at) =>
      add(["slowest partition", "lower quartile", "", "upper quartile", "fastest partition"][at], "partition", quarter(at), { edge: true }),
    );
    bands.push({ series: [fastest, slowest], colour: "spread", name: "all partitions" });
    bands.push({ series: [upper, lower], colour: "spread", name: "half of the partitions" });
  }
  add("newest arrival", "arrival", arrival, { width: 1.5 });
  add("newest event time", "event", event, { width: 1, dashed: [1, 3] });
  const newest = samples.filter((each) => !each.gap).at(-1);
  const percentiles = Object.keys((newest && sampleOf(newest)?.percentiles_ms) ?? {}).sort((a, b) => a - b);
  const named = `at ${percentiles.join(", ")} %`;
  for (const p of percentiles) {
    add(named, "percentile", of((each) => sampleOf(each)?.percentiles_ms?.[p]), { width: 1, dashed: [6, 3] });
  }
  if (lines && reader.partitions.length > 1) {
    for (const [at, partition] of reader.partitions.entries()) {
      const row = (each) => each.partitions.get(reader.key)?.get(partition.partition);
      add(`partition ${partition.partition}`, `line${at % MOST_LINES}`, of((each) => row(each)?.watermark_ms), { width: 1.25 });
    }
  }
  add("watermark", "watermark", watermark, { width: 2.5 });

  const ys = series.filter((each) => !each.bound).flatMap((each) => each.values.filter((value) => value !== null));
  const [low, high] = ys.length ? ys.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]) : [0, 0];
  const whole = Math.max(high, x.at(-1) ?? 0) - Math.min(low, x[0] ?? 0);
  const near = ys.length > 0 && (whole === 0 || Math.max(high - low, 1) / whole >= LEAST_SHARE);
  if (near) series.unshift({ name: "ideal", colour: "ideal", values: x.slice(), dashed: [4, 4], width: 1 });
  if (near) for (const band of bands) band.series = band.series.map((at) => at + 1);
  return { reader, samples, x, series, bands, near, low, high, arrival, watermark, newest, settings };
}

/** The same, each value as how far it is behind processing time, or behind the newest arrival of old events. */
function sheared(picture) {
  const base = picture.near ? picture.x : picture.arrival;
  const behind = (values) => values.map((each, at) => (each === null || base[at] === null ? null : base[at] - each));
  return { ...picture, series: picture.series.map((each) => ({ ...each, values: behind(each.values) })) };
}

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function axis(extra) {
  return {
    stroke: style("ink-soft"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: style("grid"), width: 1 },
    ticks: { stroke: style("grid"), width: 1, size: 4 },
    ...extra,
  };
}

/** The chart itself: one uPlot, made anew when what is drawn is of another shape. */
export class Chart {
  constructor(onCursor, skew) {
    this.onCursor = onCursor;
    this.skew = skew;
    this.plot = null;
  }

  forget() {
    this.plot?.destroy();
    this.plot = null;
    this.shape = null;
  }

  draw(place, picture, ui) {
    if (!place) return this.forget();
    const drawn = this.skew ? sheared(picture) : picture;
    const width = Math.max(240, place.clientWidth);
    const height = Math.max(160, place.clientHeight);
    const shape = JSON.stringify([
      ui.theme, drawn.bands, drawn.series.map((each) => [each.name, each.colour, each.width]), picture.reader.key,
    ]);
    this.picture = picture;
    const data = [drawn.x, ...drawn.series.map((each) => each.values)];
    if (this.plot && this.shape === shape && this.place === place) {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.range = rangeOf(drawn, this.skew);
      this.plot.setData(data);
      return undefined;
    }
    this.forget();
    [this.shape, this.place] = [shape, place];
    this.range = rangeOf(drawn, this.skew);
    this.plot = new uPlot(this.options(drawn, width, height), data, place);
    return undefined;
  }

  options(drawn, width, height) {
    return {
      width,
      height,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 6 }, sync: { key: "picture" } },
      padding: [10, 30, 0, 0],
      scales: { x: { time: false, range: (_, min, max) => [Math.min(min, max - LEAST_SECONDS), max] }, y: { range: () => this.range } },
      axes: [
        axis({ incrs: TIME_STEPS_SECONDS, space: 72, size: 38, values: (_, ticks, __, ___, step) => axisTimes(ticks, step) }),
        axis({
          incrs: TIME_STEPS_SECONDS,
          space: 34,
          size: 74,
          values: (_, ticks, __, ___, step) => (this.skew ? ticks.map((each) => duration(each)) : axisTimes(ticks, step)),
        }),
      ],
      series: [
        {},
        ...drawn.series.map((each) => ({
          stroke: each.edge && !each.bound ? "transparent" : style(each.colour),
          width: each.width ?? 1,
          dash: each.dashed ?? (each.bound ? [2, 4] : undefined),
          // A line of one point would not be seen.
          points: { show: (plot, at) => !each.edge && plot.data[at].filter((value) => value !== null).length === 1, size: 6 },
        })),
      ],
      bands: drawn.bands.map((each) => {
        const sides = each.series.map((at) => at + 1);
        return { series: this.skew ? sides.reverse() : sides, fill: style(each.colour) };
      }),
      hooks: { setCursor: [(plot) => this.onCursor(plot.cursor.idx ?? null)] },
    };
  }

  /** Move the cursor by samples, for the keyboard. */
  step(by) {
    if (!this.plot || !this.picture.x.length) return;
    const last = this.picture.x.length - 1;
    const at = Math.min(last, Math.max(0, (this.plot.cursor.idx ?? last) + by));
    this.plot.setCursor({ left: this.plot.valToPos(this.picture.x[at], "x"), top: this.plot.over.clientHeight / 2 });
  }
}

/** The span of the y axis: all lines, and of the bands as much as does not press them together. */
function rangeOf(drawn, skew) {
  let [low, high] = [Infinity, -Infinity];
  for (const each of drawn.series) {
    if (each.bound) continue;
    for (const value of each.values) {
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) return skew ? [0, 1] : [(drawn.x[0] ?? 0) - 1, (drawn.x.at(-1) ?? 0) + 1];
  const span = Math.max(high - low, 1);
  let [lowest, highest] = [low, high];
  for (const each of drawn.series.filter((one) => one.bound)) {
    for (const value of each.values) {
      if (value === null) continue;
      lowest = Math.min(lowest, Math.max(value, low - span * 0.15));
      highest = Math.max(highest, Math.min(value, high + span * 0.15));
    }
  }
  const margin = Math.max(highest - lowest, 1) * 0.04;
  return [lowest - margin, highest + margin];
}

/** What the picture shows, in one sentence. */
export function pictureText(picture) {
  if (!picture) return NO_DATA;
  const mark = merged(picture.reader);
  if (isEnd(mark)) return `The watermark of ${picture.reader.name} is at the end of the input.`;
  if (instant(mark) === null) return `The watermark of ${picture.reader.name} is unknown: not every partition has one.`;
  const arrival = largest(picture.reader.partitions.map((each) => instant(each.last_arrival_ms)));
  const behind = arrival === null ? "" : `, ${duration(Math.max(0, (arrival - mark) / 1000))} behind the newest arrival`;
  return `The watermark of ${picture.reader.name} is ${clock(mark)}${behind}.`;
}

function watermarkAt(picture, sample, seconds) {
  const input = sample.inputs.get(picture.reader.key);
  if (input?.known === input?.partitions && isEnd(input?.watermarks_ms?.[0])) return END;
  return seconds === null ? "unknown" : clock(seconds * 1000, sample.at_ms);
}

function readout(picture, at) {
  const sample = picture.samples[at ?? picture.samples.length - 1];
  if (!sample || sample.gap) return NO_DATA;
  const index = at ?? picture.samples.length - 1;
  const seconds = (values) => (values[index] === null || values[index] === undefined ? null : values[index]);
  const [watermark, arrival] = [seconds(picture.watermark), seconds(picture.arrival)];
  const parts = [
    `${at === null ? "newest sample" : "at"} ${clock(sample.at_ms)}`,
    `watermark ${watermarkAt(picture, sample, watermark)}`,
    `newest arrival ${arrival === null ? NO_DATA : clock(arrival * 1000, sample.at_ms)}`,
  ];
  if (watermark !== null && arrival !== null) parts.push(`delay ${duration(arrival - watermark)}`);
  return parts.join(" · ");
}

function legend(picture) {
  const seen = new Set();
  const items = [];
  for (const each of picture.series) {
    if (each.edge && !each.bound) continue;
    if (seen.has(each.name)) continue;
    seen.add(each.name);
    items.push(html`<li>${swatch(each.colour, Boolean(each.dashed || each.bound))}${each.name}</li>`);
  }
  for (const each of picture.bands) items.push(html`<li>${swatch(each.colour)}${each.name}</li>`);
  return html`<ul class="legend">${items}</ul>`;
}

function skewFacts(picture, nowMs) {
  const { reader } = picture;
  const mark = merged(reader);
  const known = reader.partitions.filter((each) => watermarkOf(each) !== null && watermarkOf(each) !== undefined).length;
  return html`<dl class="facts">
    <div class="fact"><dt>watermark</dt><dd>${watermarkText(mark, nowMs)}</dd></div>
    <div class="fact"><dt>partitions that report</dt><dd>${known} of ${reader.partitions.length}</dd></div>
    <div class="fact">
      <dt>early, late limit</dt>
      <dd>
        ${picture.settings
          ? picture.settings.application_time
            ? `${picture.settings.early_seconds === null ? "none" : duration(picture.settings.early_seconds)}, ${
                picture.settings.late_seconds === null ? "none" : duration(picture.settings.late_seconds)
              }`
            : "none: time is the arrival"
          : NO_DATA}
      </dd>
    </div>
    <div class="fact"><dt>out-of-order tolerance</dt><dd>${picture.settings?.application_time ? duration(picture.settings.out_of_order_seconds) : NO_DATA}</dd></div>
  </dl>`;
}

export function pictureCard(model, ui, picture, set, chart) {
  const all = readers(model.status);
  const drawable = picture && picture.x.length > 0;
  const controls = html`<div class="controls">
    ${all.length > 1
      ? html`<label class="pick"
          >input
          <select @change=${(event) => set({ reader: event.target.value })}>
            ${all.map((each) => html`<option .value=${each.key} ?selected=${each.key === picture?.reader.key}>${each.name}</option>`)}
          </select></label
        >`
      : ""}
    ${choice("picture-span", "Time span", SPANS, ui.span, (span) => set({ span }))}
  </div>`;
  const keys = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    chart.step(by);
  };
  const body = html`
    <p class="caption" id="picture-text">${pictureText(picture)}</p>
    <h3 class="axis-title">Event time <small>over processing time</small></h3>
    <div class="chart-frame">
      <div
        id="picture-chart"
        class="chart"
        role="img"
        tabindex="0"
        aria-label="Event time over processing time; arrow keys move along it"
        aria-describedby="picture-text picture-readout"
        @keydown=${keys}
      ></div>
      ${drawable ? "" : html`<p class="empty over">${NO_DATA}: no sample yet</p>`}
    </div>
    <h3 class="axis-title">Skew <small>behind ${picture && !picture.near ? "the newest arrival" : "processing time"}</small></h3>
    <div id="skew-chart" class="chart low" role="img" aria-label="Skew over processing time" aria-describedby="picture-readout"></div>
    <p class="readout" id="picture-readout">${drawable ? readout(picture, ui.cursor) : NO_DATA}</p>
    ${drawable ? legend(picture) : html`<ul class="legend"></ul>`}
    <p class="note">
      ${drawable && !picture.near
        ? `The ideal diagonal is out of the picture: the newest event is ${duration((picture.x.at(-1) ?? 0) - picture.high)} behind the clock.`
        : "On the ideal diagonal an event is processed the moment it happens; what is below it is skew."}
    </p>
    ${picture ? skewFacts(picture, model.nowMs) : ""}
  `;
  return card("picture", "Watermark", body, { wide: true, aside: controls });
}
