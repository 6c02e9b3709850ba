/* Keeps a page up to date by the service's stream of events, without losing focus, scroll position or what is open.

   follow(resources, path, render): `render(answer)` is called with the JSON of `path` at first, and when it has changed
   after one of these lists of the API changed. Sections with `data-live="nodes placeholders"` and an id are followed
   without a script of their own: their HTML is taken from the page as it is now. `data-key` names an element in them
   that may have the focus and has no id. */

const { prefix, xsrf, allowed } = document.documentElement.dataset;
// The stream is for readers: pages of others, such as Classes of a student, ask.
const isReader = allowed.split(" ").includes("read");
const POLL_MS = 30_000;
const REFUSED_MS = 10_000;
const SILENT_MS = 9_000; // the stream has a heartbeat each 5 s
const NO_ANSWER = "The service does not answer. This page tries again.";
const GATHER_MS = 300;
const REST_MS = 1_500;
const GRACE_MS = 8_000;
const RETRY_MS = 5_000;
const READ_MS = 60_000;
const TICK_MS = 1_000;
const OLD_SECONDS = 15; // watches of the cluster begin anew each 10 s; as in page_frame.py

/** Address below the service's prefix. */
export function address(path) {
  return prefix + path;
}

/** Headers with which JupyterHub accepts the login's cookie from a script. */
export function headers(more = {}) {
  return { "X-XSRFToken": xsrf, ...more };
}

/* What is wrong with the stream itself, among what is wrong with what is followed. */
const connection = { problem: "", note() {}, plan() {} };
const followers = [connection];
let heardAt = 0;
let source = null;
let lastEvent = document.documentElement.dataset.event ?? "";
let isLive = false;
let confirmedAt = 0;
let changedAt = 0;
let dataAt = NaN; // when the service's data about the cluster were complete; NaN while it is not known
let graceTimer = 0;
let pollTimer = 0;

class Follower {
  constructor(resources, path, render, asText) {
    Object.assign(this, { resources: new Set(resources), path, render, asText });
    this.etag = "";
    this.timer = 0;
    this.isBusy = false;
    this.isStale = true;
    this.readAt = 0;
    this.problem = "";
  }

  note(resources) {
    if (!resources || resources.some((each) => this.resources.has(each))) {
      this.isStale = true;
      this.plan();
    }
  }

  plan() {
    if (!this.timer && !this.isBusy && this.isStale && !document.hidden) {
      // A busy cluster changes all the time: after each answer there is a rest.
      const wait = this.readAt ? Math.max(GATHER_MS, this.readAt + REST_MS - Date.now()) : 0;
      this.timer = setTimeout(() => this.read(), wait);
    }
  }

  async read() {
    this.timer = 0;
    this.isBusy = true;
    this.isStale = false;
    try {
      const answer = await fetch(this.asText ? this.path : address(this.path), {
        headers: headers(this.etag ? { "If-None-Match": this.etag } : {}),
        cache: "no-store",
        credentials: "same-origin",
        redirect: "error",
        signal: AbortSignal.timeout(READ_MS),
      });
      noteAge(parseFloat(answer.headers.get("DRA-Spawner-Data-Age")));
      if (answer.ok) {
        this.etag = answer.headers.get("ETag") ?? "";
        const found = await (this.asText ? answer.text() : answer.json());
        await released;
        await this.render(found, answer);
      } else if (answer.status !== 304) {
        throw new Error(await problemOf(answer));
      }
      this.problem = connection.problem = "";
      confirmedAt = Date.now();
    } catch (error) {
      const isSilent = error instanceof TypeError || error.name === "TimeoutError";
      this.problem = isSilent ? NO_ANSWER : error.message;
      this.isStale = true;
    } finally {
      this.isBusy = false;
      this.readAt = Date.now();
      showFreshness();
      if (this.problem) setTimeout(() => this.plan(), RETRY_MS);
      else this.plan();
    }
  }
}

/** The JSON at a path of the API; a refusal as an Error with its sentence. */
export async function read(path) {
  const answer = await fetch(address(path), { headers: headers(), cache: "no-store", credentials: "same-origin", redirect: "error" });
  if (!answer.ok) throw new Error(await problemOf(answer));
  return answer.json();
}

async function problemOf(answer) {
  if (answer.status === 401) return "Your login is over. Please reload the page.";
  // A proxy before the service has a page of its own, or none.
  if (answer.status >= 502 && answer.status <= 504 && !isJson(answer)) return NO_ANSWER;
  try {
    return (await answer.json()).detail ?? `Error ${answer.status}`;
  } catch {
    return `Error ${answer.status}`;
  }
}

function isJson(answer) {
  return (answer.headers.get("Content-Type") ?? "").includes("json");
}

/** Call `render` with the JSON at `path` now, and again when one of these lists of the API has changed it. */
export function follow(resources, path, render) {
  const follower = new Follower(resources, path, render, false);
  followers.push(follower);
  follower.plan();
  return follower;
}

/** Read everything again soon, as after an action. */
export function refresh() {
  for (const each of followers) each.note();
}

/** Change the page by `change`, and restore focus, what is open, and the scroll position. */
export function keeping(root, change) {
  const focused = root.contains(document.activeElement) ? keyOf(document.activeElement) : "";
  const details = new Map([...root.querySelectorAll("details")].map((each) => [keyOf(each), each.open]));
  const { scrollX, scrollY } = window;
  change();
  for (const each of root.querySelectorAll("details")) {
    const open = details.get(keyOf(each));
    if (open !== undefined) each.open = open;
  }
  if (focused && keyOf(document.activeElement) !== focused) {
    const again = [...root.querySelectorAll("a, button, summary, input, select, [tabindex]")];
    again.find((each) => keyOf(each) === focused)?.focus({ preventScroll: true });
  }
  window.scrollTo(scrollX, scrollY);
}

function keyOf(element) {
  if (element.id || element.dataset.key) return element.id || element.dataset.key;
  const { actionMethod, actionPath, actionKind } = element.dataset;
  if (actionPath) return `${actionMethod} ${actionPath} ${actionKind}`;
  const within = element.parentElement?.closest("[id], [data-key]");
  const text = element.querySelector(":scope > summary")?.textContent ?? element.textContent;
  return `${within ? keyOf(within) : ""} ${element.localName} ${text.replace(/\d+/g, "#")}`;
}

// The page does not change while a button of the mouse is down: an element that is replaced meanwhile gets no click.
let released = Promise.resolve();
let release = null;

function letGo() {
  release?.();
  release = null;
}

document.addEventListener(
  "pointerdown",
  (event) => {
    if (event.button !== 0 || release) return;
    released = new Promise((resolve) => {
      release = resolve;
    });
  },
  true,
);
// The click comes right after the release. Where the release is not seen, the next move shows it.
for (const each of ["pointerup", "pointercancel"]) document.addEventListener(each, () => setTimeout(letGo), true);
document.addEventListener(
  "pointermove",
  (event) => {
    if (!event.buttons) letGo();
  },
  true,
);

const shownSections = new Map();

function followSections() {
  const sections = [...document.querySelectorAll("[data-live][id]")];
  if (!sections.length) return;
  for (const each of sections) shownSections.set(each.id, each.innerHTML);
  const resources = sections.flatMap((each) => each.dataset.live.split(" "));
  const page = new URL(location.href);
  page.hash = "";
  page.searchParams.set("live", "1"); // parts of the page that a script fills can be left out
  const follower = new Follower(resources, page.href, renderSections, true);
  follower.isStale = false; // the page has just come
  followers.push(follower);
}

function renderSections(text) {
  // What such a document contains is inert: its scripts do not run.
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const section of document.querySelectorAll("[data-live][id]")) {
    const now = fresh.getElementById(section.id);
    if (now && now.innerHTML !== shownSections.get(section.id)) {
      shownSections.set(section.id, now.innerHTML);
      keeping(section, () => section.replaceChildren(...now.childNodes));
    }
  }
}

function listen() {
  // JupyterHub wants its token for each request of a script: others have pages on the same origin. An EventSource sends
  // no headers.
  const query = new URLSearchParams({ _xsrf: xsrf, after: lastEvent });
  source = new EventSource(address(`api/events?${query}`));
  source.addEventListener("open", () => {
    connection.problem = "";
    clearTimeout(graceTimer);
    graceTimer = 0;
    stopPolling();
    confirmedAt = Date.now();
    setLive(true);
  });
  const on = (type, resourcesOf) =>
    source.addEventListener(type, (event) => {
      lastEvent = event.lastEventId;
      note(resourcesOf(event));
    });
  on("changed", (event) => JSON.parse(event.data).resources);
  on("reset", () => undefined);
  on("decision", () => ["decisions"]);
  source.addEventListener("age", (event) => {
    heardAt = Date.now();
    noteAge(JSON.parse(event.data).seconds ?? NaN);
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      source.close();
      lost();
      setTimeout(listen, REFUSED_MS);
    } else if (!graceTimer) {
      // The service ends each stream after a while, and the browser comes back within seconds.
      graceTimer = setTimeout(lost, GRACE_MS);
    } else {
      // It did not come back at once.
      clearTimeout(graceTimer);
      lost();
    }
  });
}

/** A connection can be dead without an error: then nothing is heard any more. */
function notice() {
  if (isLive && heardAt && Date.now() - heardAt > SILENT_MS) {
    heardAt = 0;
    source.close();
    connection.problem = NO_ANSWER;
    lost();
    listen();
  }
}
setInterval(notice, 1_000);

function note(resources) {
  changedAt = confirmedAt = Date.now();
  for (const each of followers) each.note(resources);
  showFreshness();
}

function lost() {
  graceTimer = 0;
  setLive(false);
  if (!pollTimer) {
    refresh();
    pollTimer = setInterval(refresh, POLL_MS);
  }
}

function stopPolling() {
  if (pollTimer) {
    clearInterval(pollTimer);
    pollTimer = 0;
    refresh();
  }
}

function setLive(now) {
  isLive = now;
  showFreshness();
}

function noteAge(seconds) {
  dataAt = Date.now() - seconds * 1000;
  showFreshness();
}

/** A duration, as the service's pages say it (page_text.py). */
export function span(seconds) {
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.round(Math.max(seconds, 0))} s`;
}

const firstSeen = new WeakMap();

/** Durations that go on by themselves: they are true also while nothing comes from the service. */
function tick() {
  for (const each of document.querySelectorAll("[data-seconds]")) {
    const known = firstSeen.get(each) ?? { at: Date.now(), seconds: Number(each.dataset.seconds) };
    firstSeen.set(each, known);
    const text = span(known.seconds + (Date.now() - known.at) / 1000);
    if (each.textContent !== text) each.textContent = text;
  }
  showFreshness();
}

function showFreshness() {
  const line = document.getElementById("freshness");
  const problem = followers.map((each) => each.problem).find(Boolean) ?? "";
  const dataSeconds = (Date.now() - dataAt) / 1000;
  const isOld = dataSeconds > OLD_SECONDS + (isLive ? 0 : POLL_MS / 1000);
  line.hidden = false;
  line.dataset.state = problem || isOld ? "failed" : isLive || !isReader ? "live" : "polling";
  const state = line.querySelector("[role=status]");
  const asks = isReader ? "Not live: asks every 30 s" : "Asks every 30 s";
  const said = problem || (isOld ? "Not up to date" : isLive ? "Live" : asks);
  // A screen reader speaks only when this text changes, not with each second.
  if (state.textContent !== said) state.textContent = said;
  const since = (moment) => span((Date.now() - moment) / 1000);
  let text = "";
  if (isOld) text = ` · figures are ${span(dataSeconds)} old`;
  else if (isLive && !problem) text = changedAt ? ` · last change ${since(changedAt)} ago` : "";
  else if (confirmedAt) text = ` · figures are ${since(confirmedAt)} old`;
  const shown = line.querySelector(".age");
  if (shown.textContent !== text) shown.textContent = text;
}

document.addEventListener("visibilitychange", () => {
  for (const each of followers) each.plan();
});
dataAt = Date.now() - parseFloat(document.getElementById("freshness").dataset.age) * 1000;
setInterval(tick, TICK_MS);
followSections();
if (isReader) listen();
else lost();
