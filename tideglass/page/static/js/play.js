// The playground: a query, events and tolerances go to the server, and what became of every event comes back.

import { html, render, svg } from "../vendor/lit-html/lit-html.js";
import { axisTimes, clock, duration, plural, TIME_STEPS_SECONDS } from "./format.js";
import { card, choice, swatch } from "./parts.js";

/** Typing rests for so long before the server is asked. */
const REST_MS = 300;
const STEPS_SECONDS = [0, 1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 599, 1200, 1800, 3600, 21_600, 86_400];
const MOST_OUT_OF_ORDER_SECONDS = 599;
const OUTCOMES = ["accepted", "adjusted", "dropped"];

const root = document.getElementById("page");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const model = { start: null, attempt: null, outcome: null, error: null, busy: false, again: false, reader: null, chosen: null };

const known = (value) => typeof value === "number" && Number.isFinite(value);
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// ---------------------------------------------------------------- asking the server

async function ask(address, body) {
  const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(address, { credentials: "same-origin", ...(body === undefined ? {} : post) });
  const content = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(content?.error?.message ?? `the server answered ${answer.status}`);
  return content;
}

/** One question at a time: what changes meanwhile is asked when the answer is there. */
async function play() {
  if (model.busy) {
    model.again = true;
    return;
  }
  model.busy = true;
  draw();
  do {
    model.again = false;
    try {
      model.outcome = await ask("/api/play", model.attempt);
      model.error = null;
    } catch (error) {
      model.error = error instanceof TypeError ? "the server does not answer" : error.message;
    }
  } while (model.again);
  model.busy = false;
  draw();
}

let resting;
function change(changes, rest = REST_MS) {
  model.attempt = { ...model.attempt, ...changes };
  clearTimeout(resting);
  resting = setTimeout(play, rest);
  draw();
}

const tolerate = (changes) => change({ tolerances: { ...model.attempt.tolerances, ...changes } }, 80);

// ---------------------------------------------------------------- what is typed

/** Put the cursor at a place of a text, both counted from 1. */
function reveal(id, line, column = 1) {
  const area = document.getElementById(id);
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
  const end = column > 1 ? start + 1 : start + (lines[line - 1] ?? "").length;
  area.focus();
  area.setSelectionRange(start, end);
  area.scrollTop = Math.max(0, (line - 4) * 19);
}

function problems(where) {
  const found = (model.outcome?.problems ?? []).filter((each) => each.where === where || (where === "query" && each.where === "tolerances"));
  return html`<ul class="problems" role="status">
    ${found.map(
      (each) => html`<li class=${each.severity} data-code=${each.code}>
        ${known(each.line)
          ? html`<button class="link" type="button" @click=${() => reveal(where, each.line, each.column ?? 1)}>
                line ${each.line}${known(each.column) && where === "query" ? `, column ${each.column}` : ""}</button
              >: `
          : ""}${each.message}${each.hint ? html`<span class="hint">${each.hint}</span>` : ""}
      </li>`,
    )}
  </ul>`;
}

const wrong = (where) => (model.outcome?.problems ?? []).some((each) => each.where === where && each.severity === "error");

/** Tab leaves the text as everywhere; Ctrl and Enter ask at once. */
const onKey = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) change({}, 0);
};

const area = (id, label) => html`<textarea
  id=${id}
  aria-label=${label}
  aria-invalid=${wrong(id)}
  spellcheck="false"
  autocomplete="off"
  wrap="off"
  .value=${model.attempt[id]}
  @input=${(event) => change({ [id]: event.target.value })}
  @keydown=${onKey}
></textarea>`;

function texts() {
  const { functions, inputs, most_events: most } = model.start;
  const reset = html`<button class="button" type="button" @click=${() => change(structuredClone(model.start.attempt), 0)}>Start again</button>`;
  return html`
    ${card("query-card", "Query", html`${area("query", "Query")} ${problems("query")}
      ${functions.length ? html`<p class="note">Functions of the project: ${functions.join(", ")}</p>` : ""}`, { aside: reset })}
    ${card("events-card", "Events", html`${area("events", "Events, a JSON object a line")} ${problems("events")}
      <p class="note">
        A JSON object a line, in the order of arrival; at most ${most}. <code>_arrival</code> is when it arrived (without it: at its
        event time), <code>_partition</code> its partition${inputs.length === 1 ? "" : html`, <code>_input</code> its input`}.
      </p>`)}
  `;
}

// ---------------------------------------------------------------- tolerances

/** The steps of a slider, the value it began with among them; null, no limit, is the last one. */
function stepsOf(values, limitless, most) {
  const all = [...new Set([...STEPS_SECONDS, ...values.filter(known)])].filter((each) => each <= most).sort((a, b) => a - b);
  return limitless ? [...all, null] : all;
}

function slider(name, title, limitless, most = Infinity) {
  const value = model.attempt.tolerances[name];
  const steps = stepsOf([value, model.start.attempt.tolerances[name]], limitless, most);
  const words = value === null ? "no limit" : duration(value);
  return html`<div>
    <label for=${name}>${title} <output for=${name}>${words}</output></label>
    <input
      id=${name}
      type="range"
      min="0"
      max=${steps.length - 1}
      step="1"
      .value=${String(steps.indexOf(value))}
      aria-valuetext=${words}
      @input=${(event) => tolerate({ [name]: steps[Number(event.target.value)] })}
    />
  </div>`;
}

function sliders() {
  const policy = choice("policy", "What happens to events beyond them", [["adjust", "Adjust"], ["drop", "Drop"]],
    model.attempt.tolerances.drop ? "drop" : "adjust", (value) => tolerate({ drop: value === "drop" }));
  const state = model.busy ? "playing …" : known(model.outcome?.seconds) ? `in ${duration(model.outcome.seconds)}` : "";
  const body = html`<div class="sliders">
    ${slider("late_seconds", "Late arrival", true)} ${slider("out_of_order_seconds", "Out of order", false, MOST_OUT_OF_ORDER_SECONDS)}
    ${slider("early_seconds", "Early arrival", true)}
  </div>`;
  return card("tolerances", "Tolerances", body, { aside: html`<div class="controls">${policy}<span class="busy" role="status">${state}</span></div>` });
}

// ---------------------------------------------------------------- the picture

/** The events of the chosen reader: the first that has events unless one is chosen. */
function readerOf(outcome) {
  const readers = [...new Set(outcome.events.map((each) => each.reader))];
  return readers.includes(model.reader) ? model.reader : readers[0];
}

const eventsOf = (outcome) => outcome.events.filter((each) => each.reader === readerOf(outcome));

/** Columns of seconds over the arrival, which never runs back: the newest so far counts, as for the watermark. */
export function pictureOf(events, tolerances) {
  const placed = [...events].sort((a, b) => a.line - b.line);
  let newest = -Infinity;
  const x = placed.map((each) => (newest = Math.max(newest, each.arrival_time_ms)) / 1000);
  const of = (read) => placed.map((each) => (known(read(each)) ? read(each) / 1000 : null));
  const series = [];
  series.push({ name: "ideal", colour: "ideal", values: x, dash: [4, 4], width: 1 });
  if (known(tolerances.early_seconds)) series.push({ name: "early limit", colour: "early", values: x.map((each) => each + tolerances.early_seconds), dash: [2, 4], width: 1, bound: true });
  if (known(tolerances.late_seconds)) series.push({ name: "late limit", colour: "late", values: x.map((each) => each - tolerances.late_seconds), dash: [2, 4], width: 1, bound: true });
  const partitions = [...new Set(placed.map((each) => each.partition))].sort((a, b) => a - b);
  for (const [at, partition] of partitions.entries()) {
    let last = null;
    const values = placed.map((each) => {
      if (each.partition === partition && known(each.watermark_after_ms)) last = each.watermark_after_ms / 1000;
      return last;
    });
    const several = partitions.length > 1;
    series.push({ name: several ? `watermark of partition ${partition}` : "watermark", colour: several ? `line${at % 8}` : "watermark", values, width: 2.5, stepped: true });
  }
  for (const outcome of OUTCOMES) {
    series.push({ name: outcome, colour: { accepted: "good", adjusted: "warn", dropped: "bad" }[outcome], values: of((each) => each.outcome === outcome && each.event_time_ms), points: true });
  }
  series.push({ name: "moved to", colour: "warn", values: of((each) => each.outcome === "adjusted" && each.system_timestamp_ms), points: true, hollow: true });
  return { placed, x, series: series.filter((each) => each.values.some((value) => value !== null)) };
}

class Picture {
  forget() {
    this.plot?.destroy();
    this.plot = this.shape = null;
  }

  draw(place, picture, windows) {
    if (!place || !picture.x.length) return this.forget();
    [this.picture, this.windows] = [picture, windows];
    const shape = JSON.stringify([dark.matches, picture.series.map((each) => [each.name, each.colour])]);
    const size = { width: Math.max(240, place.clientWidth), height: Math.max(200, place.clientHeight) };
    const data = [picture.x, ...picture.series.map((each) => each.values)];
    if (this.plot && this.shape === shape && this.place === place) {
      if (this.plot.width !== size.width || this.plot.height !== size.height) this.plot.setSize(size);
      this.plot.setData(data);
      return undefined;
    }
    this.forget();
    [this.shape, this.place] = [shape, place];
    this.plot = new uPlot(this.options(size), data, place);
    return undefined;
  }

  options(size) {
    const axis = (extra) => ({
      stroke: style("ink-soft"), font: "12px system-ui, sans-serif", grid: { stroke: style("grid"), width: 1 },
      ticks: { stroke: style("grid"), width: 1, size: 4 }, incrs: TIME_STEPS_SECONDS,
      values: (_, ticks, __, ___, step) => axisTimes(ticks, step), ...extra,
    });
    return {
      ...size,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      padding: [10, 14, 0, 0],
      scales: { x: { time: false, range: () => spread(this.picture.x, 0.03) }, y: { range: () => this.yRange() } },
      axes: [axis({ space: 72, size: 38 }), axis({ space: 34, size: 74 })],
      series: [
        {},
        ...this.picture.series.map((each) => ({
          stroke: style(each.colour), width: each.width ?? 0, dash: each.dash,
          paths: each.points ? () => null : each.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
          points: each.points
            ? { show: true, size: each.hollow ? 8 : 9, width: 2, stroke: style(each.colour), fill: each.hollow ? style("card") : style(each.colour) }
            : { show: false },
        })),
      ],
      hooks: {
        drawClear: [(plot) => this.drawWindows(plot)],
        setCursor: [(plot) => choose(this.picture.placed[plot.cursor.idx]?.line ?? null)],
      },
    };
  }

  yRange() {
    const drawn = this.picture.series.filter((each) => !each.bound);
    return spread(drawn.flatMap((each) => each.values.filter((value) => value !== null)), 0.06);
  }

  /** Windows as bands of event time, every other one darker where they do not overlap. */
  drawWindows(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = style("spread");
    ctx.strokeStyle = style("line");
    for (const each of this.windows) {
      const [top, bottom] = [each.end_ms, each.start_ms].map((ms) => plot.valToPos(ms / 1000, "y", true));
      if (each.closed_line === null) ctx.fillRect(bbox.left, top, bbox.width, bottom - top);
      ctx.strokeRect(bbox.left - 1, top, bbox.width + 2, bottom - top);
    }
    ctx.restore();
  }
}

/** The least and the largest value with some room; a single value has room of a second. */
function spread(values, share) {
  if (!values.length) return [0, 1];
  const [low, high] = values.reduce(([a, b], each) => [Math.min(a, each), Math.max(b, each)], [Infinity, -Infinity]);
  const room = Math.max(1, (high - low) * share);
  return [low - room, high + room];
}

const picture = new Picture();

const dot = (name, hollow = false) => html`<svg class="dot" viewBox="0 0 12 12" aria-hidden="true">
  ${svg`<circle cx="6" cy="6" r="4.2" class=${hollow ? `hollow stroke-${name}` : `fill-${name}`}></circle>`}
</svg>`;

function choose(line) {
  if (model.chosen === line) return;
  model.chosen = line;
  requestAnimationFrame(draw);
}

function pictureCard(outcome) {
  const readers = [...new Set(outcome.events.map((each) => each.reader))];
  const nameOf = (reader) => outcome.events.find((each) => each.reader === reader).input;
  const aside = readers.length > 1
    ? choice("reader", "Reader", readers.map((each) => [each, `${nameOf(each)} (${each})`]), readerOf(outcome), (value) => {
        model.reader = value;
        draw();
      })
    : "";
  const drawn = pictureOf(eventsOf(outcome), model.attempt.tolerances);
  const chosen = drawn.placed.find((each) => each.line === model.chosen);
  const beside = drawn.x.length ? drawn.x[0] * 1000 : undefined;
  const readout = chosen
    ? `line ${chosen.line}: event time ${clock(chosen.event_time_ms, beside)}, arrived ${clock(chosen.arrival_time_ms, beside)}, ${chosen.words}; watermark ${clock(chosen.watermark_after_ms, beside)}`
    : "Point at an event, or at a row of the table below.";
  const body = html`
    <p class="axis-title"><b>event time</b> over arrival time</p>
    <div class="chart-frame"><div id="picture" class="chart" role="img" aria-label="Event time over arrival time; the table of decisions has the same values"></div></div>
    <p class="readout">${readout}</p>
    <ul class="legend">
      ${drawn.series.map((each) => html`<li>${each.points ? dot(each.hollow ? "adjusted" : each.name, each.hollow) : swatch(each.colour, Boolean(each.dash))} ${each.name}</li>`)}
      ${outcome.windows.length ? html`<li>${swatch("window")} window still open at the end</li>` : ""}
    </ul>`;
  return card("picture-card", "Watermark", body, { aside });
}

// ---------------------------------------------------------------- tables

const lineButton = (line) => html`<button class="link" type="button" @click=${() => reveal("events", line)}>${line}</button>`;

/** A table whose rows belong to lines: the one that is pointed at is marked. */
function lineTable(caption, titles, rows) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="unseen">${caption}</caption>
      <thead><tr>${titles.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
      <tbody>
        ${rows.map(
          ({ line, cells }) => html`<tr class=${line !== null && line === model.chosen ? "chosen" : ""} @mouseenter=${() => choose(line)}>
            ${cells.map((cell) => (cell?.text === undefined ? html`<td>${cell}</td>` : html`<td class=${cell.kind}>${cell.text}</td>`))}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function decisionsCard(outcome) {
  const events = eventsOf(outcome);
  const beside = events[0]?.arrival_time_ms;
  const several = new Set(events.map((each) => each.partition)).size > 1;
  const keyed = events.some((each) => each.key !== null);
  const counts = OUTCOMES.map((name) => `${events.filter((each) => each.outcome === name).length} ${name}`).join(", ");
  const titles = ["line", "event time", "arrival", ...(several ? ["partition"] : []), ...(keyed ? ["key"] : []), "decision", "System.Timestamp", "watermark after"];
  const rows = events.map((each) => ({
    line: each.line,
    cells: [
      lineButton(each.line), clock(each.event_time_ms, beside), clock(each.arrival_time_ms, beside), ...(several ? [each.partition] : []),
      ...(keyed ? [each.key ?? "NULL"] : []), { text: each.words, kind: each.outcome },
      each.system_timestamp_ms === null ? "–" : clock(each.system_timestamp_ms, beside),
      each.watermark_after_ms === null ? "none yet" : clock(each.watermark_after_ms, beside),
    ],
  }));
  return card("decisions", "Decisions", html`<p class="caption">${counts}</p>${lineTable("Every event and its decision", titles, rows)}`);
}

function windowsCard(outcome) {
  const beside = outcome.windows[0]?.end_ms;
  const rowsAt = (end) => outcome.rows.filter((each) => each.at_ms === end).length;
  const rows = outcome.windows.map((each) => ({
    line: each.closed_line,
    cells: [
      `${clock(each.start_ms, beside)} – ${clock(each.end_ms, beside)}`, each.text, each.events, lineButton(each.opened_line),
      each.closed_line === null ? { text: "not yet", kind: "still" } : lineButton(each.closed_line), rowsAt(each.end_ms),
    ],
  }));
  const more = outcome.windows_left_out ? html`<p class="note">${plural(outcome.windows_left_out, "more window")}</p>` : "";
  const body = rows.length
    ? html`${lineTable("Windows", ["window (start, end]", "kind", "events", "opened by line", "closed by line", "rows at its end"], rows)}${more}
        <p class="note">A window closes once the watermark is past its end; events are counted before WHERE and grouping.</p>`
    : html`<p class="empty">No tumbling or hopping window over events.</p>`;
  return card("windows", "Windows", body);
}

function rowsCard(outcome) {
  const beside = outcome.rows[0]?.at_ms;
  const tables = outcome.outputs.map((output) => {
    const found = outcome.rows.filter((each) => each.output === output);
    const columns = [...new Set(found.flatMap((each) => each.row.map(([name]) => name)))];
    const rows = found.map((each) => ({
      line: each.line,
      cells: [
        each.line === null ? { text: "end of input", kind: "still" } : lineButton(each.line), clock(each.at_ms, beside),
        ...columns.map((name) => each.row.find(([column]) => column === name)?.[1] ?? { text: "NULL", kind: "null" }),
      ],
    }));
    return html`<div class="rows">
      <h3>${output} <small>${plural(found.length, "row")}</small></h3>
      ${rows.length ? lineTable(`Rows of ${output}`, ["emitted after line", "System.Timestamp", ...columns], rows) : html`<p class="empty">No rows.</p>`}
    </div>`;
  });
  const more = outcome.rows_left_out ? html`<p class="note">${plural(outcome.rows_left_out, "more row")}</p>` : "";
  return card("rows", "Rows", html`${tables}${more}`);
}

// ---------------------------------------------------------------- the page

function draw() {
  if (!model.attempt) return;
  const { outcome, error } = model;
  document.title = `${model.start.name} · playground · tideglass`;
  const results = outcome?.events.length
    ? html`${pictureCard(outcome)} ${decisionsCard(outcome)} ${windowsCard(outcome)} ${rowsCard(outcome)}`
    : card("nothing", "Nothing played yet", html`<p class="empty">${outcome && !model.busy ? "The query or the events are to be mended, or there are no events." : "Playing …"}</p>`);
  render(
    html`
      <header class="top">
        <div class="names"><h1>${model.start.name}</h1><span class="state">Playground</span></div>
        <p class="about">Nothing leaves this machine. Change the query, an event or a tolerance; Ctrl+Enter asks at once.</p>
      </header>
      <main id="content" tabindex="-1">
        ${error ? html`<p class="refused" role="alert">${error}</p>` : ""}
        <div class="play"><div>${texts()}</div><div>${sliders()} ${results}</div></div>
      </main>
    `,
    root,
  );
  if (outcome?.events.length) {
    picture.draw(document.getElementById("picture"), pictureOf(eventsOf(outcome), model.attempt.tolerances), outcome.windows);
  } else {
    picture.forget();
  }
}

async function begin() {
  try {
    model.start = await ask("/api/playground");
  } catch (error) {
    root.replaceChildren();
    render(html`<p class="refused" role="alert">${error.message}</p>`, root);
    return;
  }
  model.attempt = structuredClone(model.start.attempt);
  root.replaceChildren();
  draw();
  window.addEventListener("resize", draw);
  dark.addEventListener("change", draw);
  await play();
}

begin();
