// The page: asks the server, keeps what it answers, and draws it again whenever something new is there.

import { html, render } from "../vendor/lit-html/lit-html.js";
import * as api from "./api.js";
import { Chart, pictureCard, pictureOf } from "./picture.js";
import { delaysCard, delaysOf, drawDelays } from "./delays.js";
import { diagramCard, Layout, revealMarked } from "./diagram.js";
import { History } from "./model.js";
import { batchesCard, errorsCard, recoveryCard } from "./progress.js";
import { inputsCard, outputsCard } from "./tables.js";
import { head, indexPage, tiles, whyPart } from "./top.js";
import { windowsCard } from "./windows.js";

const NARROW = window.matchMedia("(max-width: 720px)");
const DARK = window.matchMedia("(prefers-color-scheme: dark)");
const INDEX_MS = 5000;
const WHY_MS = 5000;

const root = document.getElementById("page");
const model = { job: null, many: false, status: null, history: new History(), why: null, query: null, runs: null, profile: null };
const ui = {
  connection: "connecting", reader: null, span: "run", bands: true, cursor: null, physical: false, node: null, slowestFirst: false, eachPartition: false, cell: null,
  allPartitions: null,
  narrow: NARROW.matches, theme: DARK.matches,
};
const places = new Layout();
const onCursor = (at) => {
  if (ui.cursor === at) return;
  ui.cursor = at;
  schedule();
};
const chart = new Chart(onCursor, false);
const skewChart = new Chart(onCursor, true);

function set(changes) {
  Object.assign(ui, changes);
  if ("reader" in changes || "span" in changes) ui.cursor = null;
  refresh();
  if ("node" in changes) revealMarked();
}

let scheduled = false;
function schedule() {
  if (scheduled || document.hidden) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    refresh();
  });
}

/** Draw everything; how long that takes can be read from the browser's performance entries. */
function refresh() {
  performance.mark("refresh-start");
  if (model.job === null) {
    render(indexPage(model, ui, api.pageOf), root);
  } else {
    drawJob();
  }
  performance.measure("refresh", "refresh-start");
  performance.clearMarks("refresh-start");
}

/** Left and right of what a card holds. */
const CARD_EDGES = 36;

function drawJob() {
  const { status } = model;
  ui.width = Math.max(240, root.clientWidth - CARD_EDGES - (ui.narrow ? 16 : 40));
  const picture = status ? pictureOf(model, ui) : null;
  const delays = status ? delaysOf(model, ui) : null;
  document.title = status ? `${status.job} · ${status.state} · tideglass` : "tideglass";
  render(
    html`
      ${head(model, ui)}
      <main id="content" tabindex="-1">
        ${model.error ? html`<p class="refused" role="alert">${model.error}</p>` : ""}
        ${status
          ? html`${whyPart(model)} ${tiles(model)}
              <div class="cards">
                ${pictureCard(model, ui, picture, set, chart)}
                ${diagramCard(model, ui, set, places)} ${delaysCard(model, ui, delays, set)} ${windowsCard(model, ui)}
                ${inputsCard(model, ui, set)} ${outputsCard(model)} ${batchesCard(model, ui)} ${errorsCard(model)}
                ${recoveryCard(model)}
              </div>`
          : ""}
      </main>
    `,
    root,
  );
  drawDelays(document.getElementById("delays-map"), delays, ui);
  for (const [each, id] of [[chart, "picture-chart"], [skewChart, "skew-chart"]]) {
    if (picture?.x.length) each.draw(document.getElementById(id), picture, ui);
    else each.forget();
  }
}

const refusal = (error) => (error instanceof api.Refused ? [error.message, error.hint].filter(Boolean).join("; ") : "the server does not answer");

async function take(name, put, missing = () => undefined) {
  try {
    put(await api.part(model.job, name));
  } catch (error) {
    missing(error);
  }
}

async function takeHistory() {
  try {
    const answer = await api.history(model.job, model.history.lastMs);
    model.history.add(answer.samples);
  } catch (error) {
    if (error instanceof api.Refused && error.status !== 404) throw error;
  }
}

/** What changes rarely: asked at the start and again when another run has begun. */
async function takeRunFacts() {
  await Promise.all([
    take("query", (answer) => (model.query = answer), () => (model.query = null)),
    take("runs", (answer) => (model.runs = answer.runs), () => (model.runs = null)),
  ]);
  // Only a run that was asked to measures where its time goes.
  const measured = (model.runs ?? []).some((each) => (each.start?.arguments ?? []).includes("--profile"));
  if (measured) await take("profile", (answer) => (model.profile = answer), () => (model.profile = null));
}

let askedWhyMs = -Infinity;
async function takeWhy() {
  if (performance.now() - askedWhyMs < WHY_MS) return;
  askedWhyMs = performance.now();
  await take(
    "why",
    (answer) => Object.assign(model, { why: answer, whyError: null }),
    (error) => Object.assign(model, { why: null, whyError: refusal(error) }),
  );
}

async function onFeed(news) {
  ui.connection = news.connection;
  if (news.status) {
    const another = model.status && (model.status.run !== news.status.run || model.status.alive !== news.status.alive);
    model.status = news.status;
    model.nowMs = news.status.now_ms ?? Date.parse(news.status.updated);
    model.error = null;
    model.history.observe(news.status, model.nowMs);
    await Promise.all([takeHistory(), takeWhy(), another ? takeRunFacts() : undefined]).catch(
      (error) => (model.error = refusal(error)),
    );
  }
  if (news.gone) model.error = "the job directory is no more, or holds no status; below is the last that was known";
  schedule();
}

async function startJob() {
  try {
    model.status = await api.part(model.job, "status");
    model.nowMs = model.status.now_ms ?? Date.parse(model.status.updated);
    model.history.observe(model.status, model.nowMs);
  } catch (error) {
    model.error = refusal(error);
  }
  await Promise.all([takeHistory(), takeWhy(), takeRunFacts()]).catch((error) => (model.error = refusal(error)));
  refresh();
  new api.Feed(model.job, onFeed);
}

async function followIndex() {
  if (!document.hidden) {
    try {
      const answer = await api.jobs();
      Object.assign(model, { jobs: answer.jobs, nowMs: answer.now_ms });
      ui.connection = "live";
    } catch {
      ui.connection = "not connected";
    }
    refresh();
  }
  setTimeout(followIndex, INDEX_MS);
}

async function start() {
  NARROW.addEventListener("change", () => set({ narrow: NARROW.matches }));
  DARK.addEventListener("change", () => set({ theme: DARK.matches }));
  window.addEventListener("resize", schedule);
  root.replaceChildren();
  const named = api.jobOf(window.location.pathname);
  try {
    const answer = await api.jobs();
    Object.assign(model, { jobs: answer.jobs, many: answer.many, nowMs: answer.now_ms });
  } catch (error) {
    model.error = refusal(error);
    ui.connection = "not connected";
  }
  model.job = named ?? (model.many || !model.jobs?.length ? null : model.jobs[0].name);
  if (model.job === null) await followIndex();
  else await startJob();
}

start();
