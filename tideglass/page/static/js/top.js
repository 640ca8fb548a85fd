// The head of a job's page: its name and state, what is wrong in words, and the numbers that say how it goes.

import { html } from "../vendor/lit-html/lit-html.js";
import { bytes, clock, count, duration, NO_DATA, percent, plural, rate } from "./format.js";
import { instant, isEnd, least, merged, readers, recentRate } from "./model.js";
import { ago, fact, wall, watermarkText } from "./parts.js";

const CONNECTIONS = {
  connecting: "connecting …",
  live: "live",
  paused: "paused",
  "not connected": "not connected",
  over: "not running",
};

export const SECTIONS = [
  ["picture", "Watermark"],
  ["steps", "Steps"],
  ["delays", "Delays"],
  ["windows", "Windows"],
  ["inputs", "Inputs"],
  ["outputs", "Outputs"],
  ["batches", "Batches"],
  ["errors", "Errors"],
  ["recovery", "Recovery"],
];

export const state = (name) => html`<span class=${`state ${String(name ?? "none").toLowerCase()}`}>${name ?? "no status"}</span>`;

export function connection(name) {
  return html`<span class=${`connection ${name.replace(" ", "-")}`} role="status">${CONNECTIONS[name] ?? name}</span>`;
}

export function head(model, ui) {
  const { status } = model;
  const shown = ui.connection === "live" && status && !status.alive ? "over" : ui.connection;
  return html`<header class="top">
    <div class="names">
      ${model.many ? html`<a class="up" href="/">all jobs</a>` : ""}
      <h1>${status?.job ?? model.job ?? "tideglass"}</h1>
      ${status ? state(status.state) : ""}
      ${status?.catching_up ? html`<a class="state starting" href="#recovery">reads what was there: ${percent(status.catching_up.share)}</a>` : ""}
      ${connection(shown)}
    </div>
    ${status
      ? html`<p class="about">
          run ${status.run}, ${status.alive ? `since ${wall(status.since, model.nowMs)}` : `began ${wall(status.since, model.nowMs)}`} ·
          ${status.cause || `start mode ${status.mode}`} · reported ${wall(status.updated, model.nowMs)}${status.alive
            ? ""
            : ` (${ago(status.updated, model.nowMs)})`}
          · times in UTC
        </p>`
      : html`<p class="about">${NO_DATA}: this job has left no status yet</p>`}
    <nav aria-label="Parts of the page">
      <ul>
        ${SECTIONS.map(([id, title]) => html`<li><a href=${`#${id}`}>${title}</a></li>`)}
      </ul>
    </nav>
  </header>`;
}

const MARKS = { problem: "!", warning: "!", note: "i", waiting: "…" };
const isCause = (finding) => finding.severity === "problem" || finding.severity === "warning";

function finding(each, open) {
  return html`<li class=${`finding ${each.severity}`}>
    <span class="sign" aria-hidden="true">${MARKS[each.severity] ?? "?"}</span>
    <div>
      <p><strong class="severity">${each.severity}</strong> ${each.text}</p>
      ${each.remedy ? html`<p class="remedy">${each.remedy}</p>` : ""}
      ${each.evidence?.length
        ? html`<details ?open=${open}>
            <summary>Evidence</summary>
            <ul class="evidence">
              ${each.evidence.map((line) => html`<li>${line}</li>`)}
            </ul>
          </details>`
        : ""}
    </div>
  </li>`;
}

/** What is wrong, in words; where nothing is, when the next row is expected. */
export function whyPart(model) {
  const { why, whyError } = model;
  let body;
  if (!why) {
    body = html`<p class="plain">${whyError ? `${NO_DATA}: ${whyError}` : "Looking for causes …"}</p>`;
  } else {
    const findings = why.findings ?? [];
    const problems = findings.filter(isCause);
    const waiting = findings.filter((each) => !isCause(each));
    const next = (why.next_rows ?? []).map((each) => each.text || `${each.output}: next row ${wall(each.expected, model.nowMs)}`);
    body = html`
      ${why.healthy
        ? html`<p class="plain healthy"><span class="sign" aria-hidden="true">✓</span> <strong>Healthy.</strong> ${next.slice(0, 2).join("; ")}</p>`
        : html`<ul class="findings">
            ${problems.slice(0, 3).map((each) => finding(each, false))}
          </ul>`}
      ${problems.length > 3 || (waiting.length && !why.healthy) || (why.healthy && (waiting.length || next.length > 2))
        ? html`<details class="more">
            <summary>${plural(Math.max(0, problems.length - 3) + waiting.length + (why.healthy ? Math.max(0, next.length - 2) : 0), "more note")}</summary>
            <ul class="findings">
              ${[...problems.slice(3), ...waiting].map((each) => finding(each, true))}
              ${why.healthy ? next.slice(2).map((each) => html`<li class="finding waiting"><span class="sign" aria-hidden="true">…</span><p>${each}</p></li>`) : ""}
            </ul>
          </details>`
        : ""}
    `;
  }
  return html`<section id="why" class=${why && !why.healthy ? "why wrong" : "why"} aria-labelledby="why-title" aria-live=${why && !why.healthy ? "polite" : "off"}>
    <h2 id="why-title" class="unseen">Why</h2>
    ${body}
  </section>`;
}

export const totalRows = (rows) => (rows ? Object.values(rows).reduce((a, b) => a + b, 0) : null);

/** The least merged watermark of all readers; null while one is unknown. */
export const jobWatermark = (status) => least(readers(status).map(merged), true);

export function tiles(model) {
  const { status, history } = model;
  const samples = history.samples;
  const mark = readers(status).length ? jobWatermark(status) : null;
  const batches = status.recent_batches ?? [];
  const last = batches.at(-1);
  const mean = batches.length ? batches.reduce((sum, each) => sum + each.seconds, 0) / batches.length : null;
  const backlog = Object.values(status.backlog ?? {});
  const eventRate = status.alive ? recentRate(samples, (each) => each.events) : null;
  const rowRate = status.alive ? recentRate(samples, (each) => totalRows(each.rows)) : null;
  const note = (words) => words ?? "";
  return html`<dl class="tiles" aria-label="Numbers">
    ${fact("watermark", watermarkText(mark, model.nowMs), isEnd(mark) ? "" : instant(mark) === null ? "not all partitions have one" : "merged, of all inputs")}
    ${fact("watermark delay", duration(status.watermark_delay_seconds), "newest arrival minus watermark")}
    ${fact("events", count(status.events), status.alive ? note(rate(eventRate)) : "in this run")}
    ${fact("rows", count(totalRows(status.rows)), status.alive ? note(rate(rowRate)) : "in this run")}
    ${fact("last batch", duration(last?.seconds), mean === null ? NO_DATA : `mean ${duration(mean)} · ${plural(status.batches, "batch", "batches")}`)}
    ${fact("backlog", backlog.length ? count(backlog.reduce((a, b) => a + b, 0)) : NO_DATA, "there and not read")}
    ${fact(
      "memory",
      bytes(status.memory_bytes),
      status.memory_bytes && status.memory_limit_bytes ? `${percent(status.memory_bytes / status.memory_limit_bytes)} of ${bytes(status.memory_limit_bytes)}` : "of the run's processes",
    )}
  </dl>`;
}

/** All jobs below a folder. */
export function indexPage(model, ui, hrefOf) {
  const jobs = model.jobs ?? [];
  const sum = (rows) => (rows && typeof rows === "object" ? totalRows(rows) : rows);
  return html`<header class="top">
      <div class="names"><h1>Jobs</h1>${connection(ui.connection)}</div>
      <p class="about">${plural(jobs.length, "job")} · ${clock(model.nowMs)} UTC</p>
    </header>
    <main id="content" tabindex="-1">
      ${jobs.length
        ? html`<section class="card wide" aria-label="Jobs">
            <div class="scroll" tabindex="0" role="region" aria-label="All jobs">
              <table class="jobs">
                <thead>
                  <tr>
                    <th scope="col">job</th><th scope="col">state</th><th scope="col" class="number">delay</th>
                    <th scope="col" class="number">run</th><th scope="col" class="number">events</th>
                    <th scope="col" class="number">rows</th><th scope="col">reported</th><th scope="col">last error</th>
                  </tr>
                </thead>
                <tbody>
                  ${jobs.map(
                    (each) => html`<tr>
                      <th scope="row"><a href=${hrefOf(each.name)}>${each.name}</a></th>
                      <td>${state(each.state)}${each.catching_up ? html` <small>catching up</small>` : ""}</td>
                      <td class="number">${duration(each.watermark_delay_seconds)}</td>
                      <td class="number">${count(each.run)}</td>
                      <td class="number">${count(each.events)}</td>
                      <td class="number">${count(sum(each.rows))}</td>
                      <td>${each.updated ? ago(each.updated, model.nowMs) : NO_DATA}</td>
                      <td class="long">${each.error ?? "none"}</td>
                    </tr>`,
                  )}
                </tbody>
              </table>
            </div>
          </section>`
        : html`<p class="empty">${NO_DATA}: no job was found here</p>`}
    </main>`;
}
