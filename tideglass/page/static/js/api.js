// What the page asks the server: see "Addresses" in docs/page.md. Only GET, only this server.

/** The job that an address names; null for the one job there is, or the index. */
export function jobOf(pathname) {
  const match = /\/job\/(.+?)\/?$/.exec(pathname);
  return match ? decodeURIComponent(match[1]) : null;
}

const path = (name) => name.split("/").map(encodeURIComponent).join("/");

export const pageOf = (name) => `/job/${path(name)}`;

export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.hint = error?.hint ?? null;
  }
}

async function get(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, body?.error);
  return body;
}

export const jobs = () => get("/api/jobs");
export const part = (job, name, query = "") => get(`/api/job/${path(job)}/${name}${query}`);
export const history = (job, sinceMs) =>
  part(job, "history", sinceMs === null ? "" : `?since_ms=${encodeURIComponent(sinceMs)}`);

const FIRST_WAIT_MS = 1000;
const MOST_WAIT_MS = 15_000;

/**
 * The statuses of a job as they are written. It connects again by itself, with growing pauses, and rests while
 * the page is hidden. `onChange` gets `{status}` or `{connection}`: "connecting", "live", "not connected", "paused".
 */
export class Feed {
  constructor(job, onChange) {
    this.address = `/api/job/${path(job)}/events`;
    this.onChange = onChange;
    this.wait = FIRST_WAIT_MS;
    document.addEventListener("visibilitychange", () => this.follow());
    window.addEventListener("pagehide", () => this.close());
    window.addEventListener("pageshow", (event) => event.persisted && this.follow());
    this.follow();
  }

  follow() {
    if (document.hidden) {
      this.close();
      this.onChange({ connection: "paused" });
    } else if (!this.source) {
      this.open();
    }
  }

  open() {
    clearTimeout(this.timer);
    this.source = new EventSource(this.address);
    this.onChange({ connection: "connecting" });
    this.source.addEventListener("open", () => {
      this.wait = FIRST_WAIT_MS;
      this.onChange({ connection: "live" });
    });
    this.source.addEventListener("status", (event) => this.onChange({ connection: "live", status: JSON.parse(event.data) }));
    this.source.addEventListener("gone", () => this.onChange({ connection: "live", gone: true }));
    this.source.addEventListener("closing", () => this.lost());
    this.source.addEventListener("error", () => this.lost());
  }

  lost() {
    if (!this.source) return;
    this.close();
    this.onChange({ connection: "not connected" });
    this.timer = setTimeout(() => this.follow(), this.wait);
    this.wait = Math.min(MOST_WAIT_MS, this.wait * 2);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}
