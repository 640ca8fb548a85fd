// What tests ask of the page from inside the browser; put into every tab before the page's own scripts.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const words = (node) => node.innerText.trim().replace(/[ \n\t]+/g, " ");
  const own = (node) => [...node.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE).map((each) => each.data).join("").trim();

  const colour = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  function ground(node) {
    for (let each = node; each; each = each.parentElement) {
      const found = colour(getComputedStyle(each).backgroundColor);
      if (found.length === 3 || found[3] > 0.99) return found;
    }
    return [255, 255, 255];
  }

  window.checks = {
    /** Names and values of a list of facts; the note below a value is left out. */
    facts: (selector) => Object.fromEntries(
      all(`${selector} .fact`).map((each) => [words(each.querySelector("dt")), own(each.querySelector("dd"))]),
    ),
    rows: (selector) => all(`${selector} tbody tr`).map((row) => [...row.cells].map(words)),
    focused: () => {
      const node = document.activeElement;
      if (node === document.body) return "body";
      return node.dataset.node ?? node.getAttribute("aria-label") ?? node.value ?? words(node);
    },
    /** Whether one sees where the focus is: an outline, or a thick border of a node of the diagram. */
    focusShows: () => {
      const node = document.activeElement;
      const box = node.querySelector(".box");
      if (box) return parseFloat(getComputedStyle(box).strokeWidth) >= 4;
      return [node, node.nextElementSibling].some((each) => each && getComputedStyle(each).outlineStyle !== "none");
    },
    /** Mark what has the focus as reached; false where it was before, or where nothing has it. */
    reach: () => {
      const node = document.activeElement;
      if (node === document.body || node.dataset.reached) return false;
      return (node.dataset.reached = "yes") === "yes";
    },
    /** Controls one can see that the focus has not reached; of radio buttons of one name one is enough. */
    unreached: () => all("a[href], button, input, select, textarea, summary, [tabindex='0']")
      .filter((each) => each.checkVisibility() && !each.disabled && !each.dataset.reached)
      .filter((each) => each.type !== "radio" || !all(`input[name="${each.name}"]`).some((other) => other.dataset.reached))
      .map((each) => each.outerHTML.slice(0, 200)),
    /** What can have the focus and has no name. */
    unnamed: () => all("a, button, input, select, summary, [tabindex], [role=img]")
      .filter((each) => each.tabIndex >= 0 && !(each.getAttribute("aria-label") || each.labels?.length || words(each)))
      .map((each) => each.outerHTML),
    /** Texts that contrast less than 4.5 with what is behind them. */
    faint: () => {
      const found = [];
      const walker = document.createTreeWalker(document.getElementById("page"), NodeFilter.SHOW_TEXT);
      for (let text = walker.nextNode(); text; text = walker.nextNode()) {
        const node = text.parentElement;
        if (!text.data.trim() || !node.checkVisibility() || node.closest(".unseen, svg")) continue;
        const [a, b] = [light(colour(getComputedStyle(node).color)), light(ground(node))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) found.push(`${text.data.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
      }
      return found;
    },
    /** Texts of drawings that reach beyond their box or drawing. */
    clipped: () => all("svg text")
      .filter((each) => {
        const text = each.getBoundingClientRect();
        const whole = (each.closest(".node")?.querySelector(".box") ?? each.ownerSVGElement).getBoundingClientRect();
        return text.width && (text.left < whole.left - 1 || text.right > whole.right + 1 || text.bottom > whole.bottom + 1);
      })
      .map((each) => each.textContent),
    /** Texts of one drawing that lie on each other. */
    overlapping: () => all("svg").flatMap((drawing) => {
      const boxes = all("text", drawing).map((each) => [each.textContent, each.getBoundingClientRect()]).filter(([, box]) => box.width);
      return boxes.flatMap(([name, a], at) => boxes.slice(at + 1)
        .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        .map(([other]) => `${name} | ${other}`));
    }),
    /** Parts of the page that are wider than the window. */
    beyond: () => all(".card, .tiles, .why, header.top").filter((each) => each.getBoundingClientRect().right > innerWidth).length,
    tops: () => all("section, .node, canvas").map((each) => Math.round(each.getBoundingClientRect().top + scrollY)),
    hide: (hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    },
    formatted: async (name, values) => {
      const formats = await import("/static/js/format.js");
      return values.map((each) => formats[name](each));
    },
    /** What the page makes of the answers of the server for its picture: columns by name. */
    drawn: async () => {
      const { History } = await import("/static/js/model.js");
      const { pictureOf } = await import("/static/js/picture.js");
      const { name } = (await (await fetch("/api/jobs")).json()).jobs[0];
      const part = async (which) => (await fetch(`/api/job/${name}/${which}`)).json();
      const [status, query, answer] = [await part("status"), await part("query"), await part("history")];
      const history = new History();
      history.add(answer.samples);
      const found = pictureOf({ status, query, history }, { reader: null, span: "run", bands: true });
      return { x: found.x, near: found.near, series: Object.fromEntries(found.series.map((each) => [each.name, each.values])) };
    },
  };
})();
