// Small pieces that several parts of the page share.

import { html, svg } from "../vendor/lit-html/lit-html.js";
import { clock, duration, NO_DATA, text } from "./format.js";
import { instant, isEnd } from "./model.js";

/** A watermark: its time, "end of input", or "unknown" where something has not reported. */
export function watermarkText(ms, besideMs) {
  if (isEnd(ms)) return "end of input";
  return instant(ms) === null ? "unknown" : clock(ms, besideMs);
}

/** A moment of the wall clock, ISO text, as HH:MM:SS. */
export function wall(iso, besideMs) {
  const ms = iso ? Date.parse(iso) : NaN;
  return Number.isNaN(ms) ? NO_DATA : clock(ms, besideMs);
}

export function ago(iso, nowMs) {
  const ms = iso ? Date.parse(iso) : NaN;
  return Number.isNaN(ms) ? NO_DATA : `${duration(Math.max(0, (nowMs - ms) / 1000))} ago`;
}

/** A part of the page with its heading. */
export function card(id, title, body, { wide = false, aside = "" } = {}) {
  return html`<section id=${id} class=${wide ? "card wide" : "card"} aria-labelledby=${`${id}-title`}>
    <header class="card-head">
      <h2 id=${`${id}-title`}>${title}</h2>
      ${aside}
    </header>
    ${body}
  </section>`;
}

/** One of several choices, as radio buttons that look like a switch. */
export function choice(name, label, options, chosen, onChoose) {
  return html`<fieldset class="choice">
    <legend class="unseen">${label}</legend>
    ${options.map(
      ([value, words]) => html`<label
        ><input type="radio" name=${name} .value=${value} .checked=${value === chosen} @change=${() => onChoose(value)} /><span
          >${words}</span
        ></label
      >`,
    )}
  </fieldset>`;
}

/** A small square of a colour of the style sheet, beside the name of what is drawn in it. */
export const swatch = (name, dashed = false) => html`<svg class="swatch" viewBox="0 0 18 10" aria-hidden="true">
  ${dashed
    ? svg`<line x1="0" y1="5" x2="18" y2="5" class=${`stroke-${name} dashed`}></line>`
    : svg`<rect x="0" y="2" width="18" height="6" rx="2" class=${`fill-${name}`}></rect>`}
</svg>`;

/** A table; `columns` are [title, class]; it scrolls sideways by itself where the page is narrow. */
export function table(caption, columns, rows, empty = NO_DATA) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="unseen">${caption}</caption>
      <thead>
        <tr>
          ${columns.map(([title, kind]) => html`<th scope="col" class=${kind ?? ""}>${title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr>
            ${row.map((cell, at) =>
              at === 0
                ? html`<th scope="row" class=${columns[at][1] ?? ""}>${cell}</th>`
                : html`<td class=${columns[at][1] ?? ""}>${cell}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export const fact = (name, value, note = "") => html`<div class="fact">
  <dt>${name}</dt>
  <dd>${value}${note ? html`<small>${note}</small>` : ""}</dd>
</div>`;

export const shown = (value) => text(value);
