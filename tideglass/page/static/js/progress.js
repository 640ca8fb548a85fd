// Catching up and replaying, the runs of the job, its batches and where their time goes, and refused events.

import { html, svg } from "../vendor/lit-html/lit-html.js";
import { clock, count, duration, known, NO_DATA, percent, plural, rate } from "./format.js";
import { ago, card, fact, swatch, table, wall } from "./parts.js";
import { totalRows } from "./top.js";

const MOST_RUNS = 8;
const BATCH_HEIGHT = 120;

function runsTable(runs, nowMs) {
  if (!runs) return html`<p class="empty">${NO_DATA}: the journal of runs could not be read</p>`;
  return table(
    "Runs, newest first",
    [["run", "number"], ["how it ended"], ["started", "number"], ["lasted", "number"], ["events", "number"], ["rows", "number"], ["caught up in", "number"], ["why it started so", "long"]],
    runs.slice(0, MOST_RUNS).map(({ how, start, end }) => {
      const [from, to] = [Date.parse(start?.started ?? ""), Date.parse(end?.ended ?? "")];
      return [
        start?.run ?? NO_DATA,
        how,
        wall(start?.started, nowMs),
        known(from) && known(to) ? duration((to - from) / 1000) : how === "under way" && known(from) ? duration((nowMs - from) / 1000) : NO_DATA,
        end ? count(end.events) : "—",
        end ? count(totalRows(end.rows)) : "—",
        known(end?.caught_up_seconds) ? duration(end.caught_up_seconds) : "—",
        start?.cause ?? NO_DATA,
      ];
    }),
    "No run is in the journal.",
  );
}

export function recoveryCard(model) {
  const { status, nowMs } = model;
  const now = status.catching_up;
  const body = html`
    ${now
      ? html`<p class="caption">${now.cause}; it reads on from ${now.began_from}.</p>
          <progress max="1" value=${known(now.share) ? now.share : 0} aria-label="Share that is read">${percent(now.share)}</progress>
          <dl class="facts">
            ${fact("read", percent(now.share))}
            ${fact("events", `${count(now.events)} of ${known(now.events_expected) ? `about ${count(now.events_expected)}` : NO_DATA}`)}
            ${fact("rate", rate(now.events_per_second))}
            ${fact("so far", duration(now.seconds))}
            ${fact("left", known(now.seconds_left) ? `about ${duration(now.seconds_left)}` : NO_DATA)}
            ${fact("done at", known(now.seconds_left) ? `about ${clock(nowMs + now.seconds_left * 1000, nowMs)}` : NO_DATA)}
          </dl>`
      : html`<p class="caption">
          ${status.alive ? "The run has caught up: nothing is replayed, and what was there at the start is read." : "No run is under way, so nothing is caught up or replayed."}
        </p>`}
    <h3 class="axis-title">Runs</h3>
    ${runsTable(model.runs, nowMs)}
  `;
  return card("recovery", "Recovery and replay", body, { wide: true });
}

function batchBars(batches, width) {
  const most = Math.max(...batches.map((each) => each.seconds), 1e-9);
  const step = width / Math.max(20, batches.length);
  const height = (seconds) => (seconds / most) * (BATCH_HEIGHT - 22);
  return html`<svg class="batches" width=${width} height=${BATCH_HEIGHT} role="img" aria-label=${`Seconds of the last ${batches.length} batches, at most ${duration(most)}`}>
    <line class="rule" x1="0" x2=${width} y1="16" y2="16"></line>
    <text class="axis" x="0" y="12">${duration(most)}</text>
    <line class="rule" x1="0" x2=${width} y1=${BATCH_HEIGHT - 5.5} y2=${BATCH_HEIGHT - 5.5}></line>
    ${batches.map((each, at) => {
      const whole = height(each.seconds);
      const commit = Math.min(whole, height(each.commit_seconds ?? 0));
      const x = at * step + 1;
      return svg`<g><title>${`batch ${each.batch}: ${duration(each.seconds)}, commit ${duration(each.commit_seconds)}, ${plural(each.events, "event")}, ${plural(each.rows, "row")}`}</title>
        <rect class="fill-work" x=${x} y=${BATCH_HEIGHT - 6 - whole} width=${Math.max(1, step - 2)} height=${Math.max(0.5, whole - commit)}></rect>
        <rect class="fill-commit" x=${x} y=${BATCH_HEIGHT - 6 - commit} width=${Math.max(1, step - 2)} height=${commit}></rect></g>`;
    })}
  </svg>`;
}

function shares(title, entries, most = 8) {
  const large = entries.slice(0, most);
  const rest = entries.slice(most).reduce((sum, each) => sum + each.seconds, 0);
  const rows = rest > 0 ? [...large, { name: plural(entries.length - most, "smaller part"), seconds: rest, percent: entries.slice(most).reduce((sum, each) => sum + each.percent, 0) }] : large;
  return html`<h4>${title}</h4>
    ${table(
      title,
      [["part"], ["seconds", "number"], ["share", "number"]],
      rows.map((each) => [each.name, duration(each.seconds), each.percent < 0.5 ? "< 1 %" : `${Math.round(each.percent)} %`]),
    )}`;
}

function profilePart(profile) {
  if (!profile) return html`<p class="note">Inside of a batch: ${NO_DATA}; a run with --profile measures it.</p>`;
  return html`<details>
    <summary>Where the time of ${plural(profile.batches, "batch", "batches")} went (--profile)</summary>
    ${profile.phases?.length ? shares("On the clock", profile.phases) : ""}
    ${Object.entries(profile.tasks ?? {}).map(([level, entries]) => (entries.length ? shares(`In the tasks: ${level}`, entries) : ""))}
  </details>`;
}

export function batchesCard(model, ui) {
  const { status, nowMs } = model;
  const batches = status.recent_batches ?? [];
  const width = Math.max(240, ui.narrow || ui.width < 840 ? ui.width : Math.floor(ui.width / 2) - 24);
  const sum = (name) => batches.reduce((total, each) => total + (each[name] ?? 0), 0);
  const began = Date.parse(status.batch_began ?? "");
  const [first, last] = [Date.parse(batches[0]?.began ?? ""), Date.parse(batches.at(-1)?.began ?? "")];
  const spanSeconds = known(first) && known(last) ? (last - first) / 1000 + batches.at(-1).seconds : null;
  const body = html`
    <p class="caption">
      ${status.alive
        ? known(began)
          ? `A batch is under way, for ${duration(Math.max(0, (nowMs - began) / 1000))}.`
          : "No batch is under way."
        : "No run is under way."}
    </p>
    ${batches.length
      ? html`${batchBars(batches, width)}
          <ul class="legend">
            <li>${swatch("work")}reading and computing</li>
            <li>${swatch("commit")}committing outputs</li>
          </ul>
          <dl class="facts">
            ${fact("mean of the last", duration(sum("seconds") / batches.length), plural(batches.length, "batch", "batches"))}
            ${fact("longest", duration(Math.max(...batches.map((each) => each.seconds))))}
            ${fact("of it commit", percent(sum("seconds") ? sum("commit_seconds") / sum("seconds") : null))}
            ${fact("busy", known(spanSeconds) && spanSeconds > 0 ? percent(Math.min(1, sum("seconds") / spanSeconds)) : NO_DATA, "share of the time")}
          </dl>`
      : html`<p class="empty">${NO_DATA}: no batch is done yet</p>`}
    ${profilePart(model.profile)}
  `;
  return card("batches", "Batches", body);
}

const EVENTS = [
  ["InputEvents", "read"],
  ["LateInputEvents", "late"],
  ["EarlyInputEvents", "early"],
  ["DroppedOrAdjustedEvents", "out of order"],
  ["DeserializationError", "refused"],
  ["ConversionErrors", "not fit for an output"],
  ["Errors", "run-time errors"],
];

export function errorsCard(model) {
  const { status, nowMs } = model;
  const errors = status.errors ?? [];
  const counters = status.counters ?? {};
  const body = html`
    ${status.error ? html`<p class="refused">${status.error}</p>` : ""}
    <dl class="facts">
      ${EVENTS.map(([name, words]) => fact(words, count(counters[name] ?? (Object.keys(counters).length ? 0 : null)), name))}
    </dl>
    ${errors.length
      ? html`<ul class="errors">
          ${errors.map(
            (each) => html`<li>
              <p><strong>${each.error_type}</strong>, ${plural(each.count, "event")} of ${each.input}/${each.partition}, last ${each.last ? ago(each.last, nowMs) : NO_DATA}</p>
              <p class="remedy">${each.message}</p>
              ${each.example ? html`<details><summary>an event</summary><pre tabindex="0" role="region" aria-label="An event that was refused">${each.example}</pre></details>` : ""}
            </li>`,
          )}
        </ul>`
      : html`<p class="empty">No event was refused in this run.</p>`}
  `;
  return card("errors", "Errors", body);
}
