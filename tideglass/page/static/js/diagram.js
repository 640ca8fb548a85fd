// The job as a diagram: logical (inputs, steps, outputs) or physical (operators by level, with their key groups).

import { Graph, layout } from "../vendor/dagre/dagre.esm.js";
import { html, svg } from "../vendor/lit-html/lit-html.js";
import { clock, count, duration, NO_DATA, plural, rate } from "./format.js";
import { holderOf, instant, isEnd, largest, linesOf, logicalNodes, physicalNodes, recentRate } from "./model.js";
import { card, choice, fact, table, watermarkText } from "./parts.js";

const WIDTH = 212;
const HEIGHT = 104;
/** Above the operators of a level stands its name; so far are the lines of two exchanges apart. */
const HEADING = 22;
const LINE_PX = 6;
/** A wide diagram is made smaller down to this; then it scrolls. */
const LEAST_SCALE = 0.76;
/** A level with more key groups shows the slowest of them only. */
const MOST_GROUPS = 20;

/** Places for nodes: laid out again only when nodes or edges change, so nothing moves while a job runs. */
export class Layout {
  place(nodes, { upright, byLevel }) {
    const shape = JSON.stringify([upright, byLevel, nodes.map((each) => [each.key, each.sources])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.result = byLevel && !upright ? placedByLevel(nodes) : placed(nodes, upright);
    }
    return this.result;
  }
}

/** A row for each level; exchanges run beside and between the rows, each on a line of its own. */
function placedByLevel(nodes) {
  const levels = [...new Set(nodes.map((each) => each.level))].sort((a, b) => a - b);
  const levelOf = new Map(nodes.map((each) => [each.key, each.level]));
  const exchanges = nodes.flatMap((node) =>
    node.sources.filter((source) => levelOf.has(source) && levelOf.get(source) !== node.level).map((from) => ({ from, to: node.key })),
  );
  const side = exchanges.length ? 12 + LINE_PX * exchanges.length : 0;
  const between = 16 + LINE_PX * exchanges.length;
  const [at, edges, bands] = [new Map(), [], []];
  let [top, width] = [0, 0];
  for (const level of levels) {
    const own = placed(nodes.filter((each) => each.level === level), false);
    const moved = ({ x, y, ...rest }) => ({ ...rest, x: x + side, y: y + top + HEADING });
    for (const [key, place] of own.at) at.set(key, moved(place));
    for (const each of own.edges) edges.push({ ...each, points: each.points.map(moved) });
    bands.push({ level, left: side, top, height: own.height + HEADING, right: side + own.width });
    top += own.height + HEADING + between;
    width = Math.max(width, own.width);
  }
  const bandOf = new Map(bands.map((each) => [each.level, each]));
  for (const [number, { from, to }] of exchanges.entries()) {
    const [sender, receiver] = [at.get(from), at.get(to)];
    const off = 8 + LINE_PX * number;
    const band = bandOf.get(levelOf.get(from));
    const [right, below] = [band.right + off, band.top + band.height + off];
    const curve =
      `M${sender.x + WIDTH / 2} ${sender.y} H${right} V${below} H${side - off} V${receiver.y} H${receiver.x - WIDTH / 2}`;
    edges.push({ from, to, curve });
  }
  return { at, edges, bands: bands.map((each) => ({ ...each, width: each.right - each.left })), width: width + 2 * side, height: top - between };
}

function placed(nodes, upright) {
  const graph = new Graph();
  graph.setGraph({ rankdir: upright ? "TB" : "LR", nodesep: upright ? 8 : 18, ranksep: upright ? 34 : 40, marginx: 6, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const each of nodes) graph.setNode(each.key, { width: WIDTH, height: HEIGHT });
  for (const each of nodes) for (const source of each.sources) if (graph.hasNode(source)) graph.setEdge(source, each.key);
  layout(graph);
  const at = new Map(nodes.map((each) => [each.key, graph.node(each.key)]));
  const edges = graph.edges().map((each) => ({ from: each.v, to: each.w, points: graph.edge(each).points }));
  return { at, edges, width: Math.ceil(graph.graph().width), height: Math.ceil(graph.graph().height) };
}

export const nodesOf = (model, ui) => (ui.physical ? physicalNodes(model.status) : logicalNodes(model.status, model.query));

/** Rows a node has handed on in this run: of an output those it has written, of others those of its last operators. */
const written = (node, rows) => rows?.[node.operators.find((each) => each.output)?.output];
export const rowsOf = (node, status) => written(node, status.rows) ?? node.rowsOut;

/** The same per second, of the newest samples; null of a run that is over. */
export function rateOf(node, model) {
  const read = (sample) => {
    const counted = written(node, sample.rows);
    if (counted !== undefined) return counted;
    const ends = node.ends.map((operator) => sample.steps.get(operator));
    return ends.every(Boolean) ? ends.reduce((sum, each) => sum + each.rows_out, 0) : null;
  };
  return model.status.alive ? recentRate(model.history.samples, read) : null;
}

/** The newest event time of what an input node reads. */
const newestEvent = (node, model) =>
  largest((model.status.inputs ?? []).filter((each) => each.input === node.operators[0].step).map((each) => each.event_time_ms));

const heldRows = (node) => {
  const rows = node.holders.map((each) => each.rows).filter((each) => typeof each === "number");
  return rows.length ? rows.reduce((a, b) => a + b, 0) : null;
};

const short = (words, most) => (words.length > most ? `${words.slice(0, most - 1)}…` : words);

function path(points) {
  const [first, ...rest] = points;
  let line = `M${first.x} ${first.y}`;
  for (let at = 0; at < rest.length - 1; at += 1) {
    const [here, next] = [rest[at], rest[at + 1]];
    line += ` Q${here.x} ${here.y} ${(here.x + next.x) / 2} ${(here.y + next.y) / 2}`;
  }
  const last = rest.at(-1);
  return `${line} L${last.x} ${last.y}`;
}

function nodeText(node, model) {
  const parts = [
    `${node.role} ${node.title}`,
    `input watermark ${watermarkText(node.inputWatermarkMs, model.nowMs)}`,
    `output watermark ${watermarkText(node.outputWatermarkMs, model.nowMs)}`,
    `${count(node.rowsIn)} rows in, ${count(rowsOf(node, model.status))} out`,
  ];
  return parts.join(", ");
}

function rowsText(node, model, held) {
  const parts = [plural(rowsOf(node, model.status), "row"), held ? `holds ${count(held)}` : ""];
  return [model.status.alive ? rate(rateOf(node, model)) : "", ...parts].filter(Boolean).join(" · ");
}

function box(node, place, model, ui, set, holder) {
  const [x, y] = [place.x - WIDTH / 2, place.y - HEIGHT / 2];
  const held = heldRows(node);
  const isHolder = node.key === holder;
  const chosen = ui.node === node.key;
  const press = () => set({ node: chosen ? null : node.key });
  const keys = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    press();
  };
  const unknown = instant(node.outputWatermarkMs) === null && !isEnd(node.outputWatermarkMs);
  return svg`<g
    class=${`node ${node.role}${chosen ? " chosen" : ""}${isHolder ? " holder" : ""}`}
    transform=${`translate(${x} ${y})`}
    role="button"
    tabindex="0"
    aria-pressed=${chosen ? "true" : "false"}
    aria-label=${nodeText(node, model)}
    data-node=${node.key}
    @click=${press}
    @keydown=${keys}
  >
    <rect class="box" width=${WIDTH} height=${HEIGHT} rx="8"></rect>
    <rect class="edge" width="5" height=${HEIGHT} rx="2.5"></rect>
    <text class="name" x="15" y="21">${short(node.title, isHolder ? 17 : 23)}</text>
    ${isHolder
      ? svg`<g transform=${`translate(${WIDTH - 48} 8)`}><rect class="tag" width="40" height="17" rx="8.5"></rect><text class="tag-text" x="20" y="12.5">holds</text></g>`
      : ""}
    <text class="kind" x="15" y="37">${short(node.kind, 31)}</text>
    ${node.role === "input"
      ? svg`<text class="row" x="15" y="57">event</text><text class="value" x="54" y="57">${clock(newestEvent(node, model), model.nowMs)}</text>`
      : svg`<text class="row" x="15" y="57">in</text><text class="value" x="38" y="57">${short(watermarkText(node.inputWatermarkMs, model.nowMs), 20)}</text>`}
    <text class="row" x="15" y="74">out</text>
    <text class=${unknown ? "value unknown" : "value"} x=${node.role === "input" ? 54 : 38} y="74">${short(watermarkText(node.outputWatermarkMs, model.nowMs), 20)}</text>
    <text class="row" x="15" y="93">${short(rowsText(node, model, held), 32)}</text>
  </g>`;
}

function levelText(level, model) {
  if (level === 0) return "scan: a task for each input partition";
  const groups = (model.status.ranges ?? []).filter((each) => each.level === level).length;
  return groups ? `level ${level}: ${plural(groups, "key group")}` : `level ${level}`;
}

function drawing(nodes, places, model, ui, set, holder) {
  const scale = Math.max(LEAST_SCALE, Math.min(1, ui.width / places.width));
  return html`<div class="scroll diagram" tabindex="-1">
    <svg
      class="graph"
      viewBox=${`0 0 ${places.width} ${places.height}`}
      width=${Math.floor(places.width * scale)}
      height=${Math.floor(places.height * scale)}
      role="group"
      aria-label=${ui.physical ? "Physical diagram" : "Logical diagram"}
    >
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path class="arrow" d="M0 0 8 4 0 8z"></path>
        </marker>
      </defs>
      ${(places.bands ?? []).map(
        (each) => svg`<rect class="band" x=${each.left} y=${each.top} width=${each.width} height=${each.height} rx="8"></rect>
          <text class="row" x=${each.left + 12} y=${each.top + 18}>${levelText(each.level, model)}</text>`,
      )}
      ${places.edges.map((each) => svg`<path class="link" d=${each.curve ?? path(each.points)} marker-end="url(#arrow)"></path>`)}
      ${nodes.map((each) => box(each, places.at.get(each.key), model, ui, set, holder))}
    </svg>
  </div>`;
}

/** The times the settings have chosen for the results of a node's operators; most have none. */
const stamps = (node, model) => {
  const chosen = model.query?.stamped ?? {};
  return [...new Set(node.operators.map((each) => chosen[each.operator]).filter(Boolean))];
};

/** What a node is in full: numbers, and what it holds. */
function details(node, model) {
  if (!node) return html`<p class="note">Choose a box to see what it holds and its text in the query.</p>`;
  const now = model.nowMs;
  return html`
    <h3>${node.title} <small>${node.kind}</small></h3>
    <dl class="facts">
      ${fact("input watermark", watermarkText(node.inputWatermarkMs, now))}
      ${fact("output watermark", watermarkText(node.outputWatermarkMs, now))}
      ${fact("latency it adds", duration(node.latencySeconds))}
      ${fact("data watermark lag", duration(node.dataLagSeconds))}
      ${fact("system watermark lag", duration(node.systemLagSeconds))}
      ${fact("rows in, out", `${count(node.rowsIn)}, ${count(rowsOf(node, model.status))}`)}
      ${stamps(node, model).map((each) => fact("time of its results", each))}
      ${fact("ranges that report", node.ranges ? `${count(node.rangesReported)} of ${count(node.ranges)}` : NO_DATA)}
    </dl>
    ${table(
      `What ${node.title} holds`,
      [["held", "words"], ["where", "words"], ["oldest", "number"], ["due when the watermark passes", "number"], ["rows", "number"]],
      node.holders.map((each) => [
        each.kind,
        `${each.component}, ${each.place}`,
        watermarkText(each.oldest_ms, now),
        each.due_ms === null || each.due_ms === undefined ? "an event decides" : watermarkText(each.due_ms, now),
        typeof each.rows === "number" ? count(each.rows) : "not counted",
      ]),
      "It holds nothing.",
    )}
    ${substreams(node, model)}
  `;
}

/** Substreams that are ahead after a step: the slowest, then the fastest. */
function substreams(node, model) {
  const ends = (model.status.steps ?? []).filter((each) => node.ends.includes(each.operator));
  const listed = new Set(ends.map((each) => each.substreams_of));
  const found = (model.status.step_substreams ?? []).filter((each) => listed.has(each.operator));
  if (!found.length) return "";
  const ahead = Math.max(...ends.map((each) => each.substreams ?? 0));
  return html`<details>
    <summary>${plural(ahead, "substream")} ahead of the output watermark: the slowest and the fastest</summary>
    ${table(
      `Substreams of ${node.title}`,
      [["substream"], ["partition"], ["key group"], ["watermark", "number"]],
      found.map((each) => [each.name, each.partition, each.key_group, watermarkText(each.watermark_ms, model.nowMs)]),
    )}
  </details>`;
}

function keyGroups(model) {
  const ranges = model.status.ranges ?? [];
  if (!ranges.length) return html`<p class="empty">No stage has key groups.</p>`;
  const levels = [...new Set(ranges.map((each) => each.level))].sort((a, b) => a - b);
  return levels.map((level) => {
    const all = ranges.filter((each) => each.level === level);
    const rank = (each) => instant(each.output_watermark_ms) ?? (isEnd(each.output_watermark_ms) ? Infinity : -Infinity);
    const slowest = [...all].sort((a, b) => rank(a) - rank(b) || b.rows_in - a.rows_in).slice(0, MOST_GROUPS);
    const rows = all.reduce((sum, each) => sum + each.rows_in, 0);
    return html`<details>
      <summary>Level ${level}: ${plural(all.length, "key group")}, ${plural(rows, "row")} in</summary>
      ${table(
        `Key groups of level ${level}, slowest first`,
        [["key group"], ["input watermark", "number"], ["output watermark", "number"], ["rows in", "number"], ["share", "number"], ["rows out", "number"]],
        slowest.map((each) => [
          each.key_group,
          watermarkText(each.input_watermark_ms, model.nowMs),
          watermarkText(each.output_watermark_ms, model.nowMs),
          count(each.rows_in),
          rows ? `${Math.round((100 * each.rows_in) / rows)} %` : NO_DATA,
          count(each.rows_out),
        ]),
      )}
      ${all.length > slowest.length ? html`<p class="note">${all.length - slowest.length} faster ones are not shown.</p>` : ""}
    </details>`;
  });
}

function queryPane(model, node) {
  const { query } = model;
  if (!query?.text) return html`<p class="empty">${NO_DATA}: the text of the query is not in the job directory</p>`;
  const marked = linesOf(node, query);
  return html`<div class="code" id="query" tabindex="0" role="region" aria-label="Query">
    <ol>
      ${query.text.trimEnd().split("\n").map((line, at) => {
        const isMarked = marked && at + 1 >= marked.first && at + 1 <= marked.last;
        return html`<li class=${isMarked ? "marked" : ""} aria-current=${isMarked ? "true" : "false"}>${line || " "}</li>`;
      })}
    </ol>
  </div>`;
}

/** Bring the marked lines into view within the query's own box; the page itself stays where it is. */
export function revealMarked() {
  const pane = document.getElementById("query");
  const line = pane?.querySelector(".marked");
  if (line) pane.scrollTop = Math.max(0, line.offsetTop - 24);
}

export function diagramCard(model, ui, set, places) {
  const nodes = nodesOf(model, ui);
  const holder = holderOf(nodes);
  const node = nodes.find((each) => each.key === ui.node) ?? null;
  const aside = choice("diagram-kind", "Kind of diagram", [["logical", "logical"], ["physical", "physical"]], ui.physical ? "physical" : "logical", (kind) =>
    set({ physical: kind === "physical", node: null }),
  );
  const body = html`
    ${nodes.length ? drawing(nodes, places.place(nodes, { upright: ui.narrow, byLevel: ui.physical }), model, ui, set, holder) : html`<p class="empty">${NO_DATA}: no step has reported yet</p>`}
    <div class="pair">
      <div id="node-details">${details(node, model)}</div>
      ${queryPane(model, node)}
    </div>
    ${ui.physical ? keyGroups(model) : ""}
  `;
  return card("steps", "Steps", body, { wide: true, aside });
}
