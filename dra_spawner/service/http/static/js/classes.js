/* The page "Classes": a form to announce, change and copy classes, or to ask for one, and the answers to requests. */

import { ask, say } from "./actions.js";
import { refresh } from "./live.js";

const form = document.getElementById("class-form");
const answer = document.getElementById("class-answer");
const problem = document.getElementById("class-problem");
const heading = document.getElementById("class-heading");
const section = document.getElementById("classes");
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const HOUR = 3600_000;
const firstHeading = heading?.textContent;
let edited = ""; // id of the class that is changed
let zone = ZONE; // of the class that is changed or copied
let isRehearsed = false;
let isRefused = false; // beyond the limits: an administrator may allow it
let isBusy = false;

function button(kind) {
  return form.querySelector(`[data-kind=${kind}]`);
}

function twoDigits(number) {
  return String(number).padStart(2, "0");
}

/** A moment for an input of the type datetime-local, in local time. */
function localInput(moment) {
  const date = [moment.getFullYear(), twoDigits(moment.getMonth() + 1), twoDigits(moment.getDate())].join("-");
  return `${date}T${twoDigits(moment.getHours())}:${twoDigits(moment.getMinutes())}`;
}

/** The class as the API takes it. */
function classOf() {
  const data = new FormData(form);
  const text = (name) => String(data.get(name) ?? "").trim();
  const skipped = text("skipped").split(",").map((each) => each.trim()).filter(Boolean);
  const found = {
    name: text("name"),
    choice: text("choice"),
    users: Number(text("users")),
    begins: text("begins").replace("T", " "),
    minutes: Number(text("minutes")),
    timezone: zone,
  };
  if (text("weekly_until")) found.weekly_until = text("weekly_until");
  if (text("group")) found.group = text("group");
  if (skipped.length) found.skipped = skipped;
  return found;
}

function line(text, className = "") {
  const made = document.createElement("p");
  made.textContent = text;
  made.className = className;
  return made;
}

function showZone() {
  form.querySelector("[data-zone]").textContent = zone;
}

function label() {
  const announce = button("announce");
  if (!announce) return;
  announce.textContent = isRehearsed ? (edited ? "Save the change" : "Announce the class") : "Can they start?";
  announce.hidden = isRefused;
  button("back").hidden = !edited;
  if (!isRehearsed) button("ask").hidden = true;
}

/** Forget the rehearsal: the class is another one now. */
function renew() {
  isRehearsed = isRefused = false;
  answer.replaceChildren();
  problem.textContent = "";
  label();
}

function reset() {
  form.reset();
  edited = "";
  zone = ZONE;
  form.elements.begins.value = localInput(new Date(Math.ceil(Date.now() / HOUR + 24) * HOUR));
  heading.textContent = firstHeading;
  showZone();
  renew();
}

/** Fill the form with a class, to change it (with its id) or to copy it. */
function fill(values, id) {
  reset();
  const { timezone, begins, skipped, title, ...plain } = values;
  const choice = form.elements.choice;
  if (![...choice.options].some((each) => each.value === plain.choice)) choice.append(new Option(title, plain.choice));
  for (const [name, value] of Object.entries(plain)) {
    const field = form.elements.namedItem(name);
    if (field) field.value = value;
  }
  form.elements.begins.value = String(begins).replace(" ", "T").slice(0, 16);
  form.elements.skipped.value = (skipped ?? []).join(", ");
  zone = timezone ?? ZONE;
  edited = id;
  heading.textContent = id ? `Change ${values.name}` : `Copy ${values.name}`;
  showZone();
  label();
  heading.scrollIntoView({ block: "start" });
  form.elements.name.focus();
  form.elements.name.select();
}

/** Whether the form has the same class as when a request was sent. */
function isStill(sent) {
  return JSON.stringify(classOf()) === JSON.stringify(sent);
}

async function rehearse() {
  const asked = classOf();
  const found = await ask("POST", `api/class-rehearsals${edited ? `?instead_of=${edited}` : ""}`, asked);
  if (!isStill(asked)) return;
  const parts = [line(found.verdict, found.is_possible ? "good" : "unknown")];
  if (found.needs_max) parts.push(line("Fewer servers than announced can be prepared unless an administrator allows more.", "unknown"));
  if (found.refusal) parts.push(line(`${found.refusal} You can ask an administrator.`, "unknown"));
  answer.replaceChildren(...parts);
  isRehearsed = true;
  isRefused = Boolean(found.refusal) && !edited;
  label();
  button("ask").hidden = !found.refusal && found.is_possible;
}

async function send(kind) {
  if (kind === "announce" && !isRehearsed) {
    await rehearse();
    return;
  }
  const sent = classOf();
  if (kind === "ask") {
    await ask("POST", "api/class-requests", sent);
    say("The request is sent. The answer will be on this page.");
  } else {
    const changed = edited;
    await ask(changed ? "PUT" : "POST", changed ? `api/classes/${changed}` : "api/classes", sent);
    say(changed ? "The class is changed." : "The class is announced.");
  }
  // The next class may be written already.
  if (isStill(sent)) reset();
  refresh();
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isBusy) return;
  isBusy = true;
  problem.textContent = "";
  const kind = event.submitter?.dataset.kind ?? (button("announce") ? "announce" : "ask");
  for (const each of form.querySelectorAll("button")) each.setAttribute("aria-disabled", "true");
  try {
    await send(kind);
  } catch (error) {
    problem.textContent = error.message;
    if (kind === "announce") button("ask").hidden = false;
  } finally {
    isBusy = false;
    for (const each of form.querySelectorAll("button")) each.removeAttribute("aria-disabled");
  }
});
form?.addEventListener("input", renew);
form?.addEventListener("click", (event) => {
  if (event.target.closest("[data-kind=back]")) reset();
});

section?.addEventListener("click", async (event) => {
  const filling = event.target.closest("[data-fill]");
  if (filling && form) fill(JSON.parse(filling.dataset.fill), filling.dataset.id ?? "");
  const posting = event.target.closest("[data-post]");
  if (!posting || posting.getAttribute("aria-disabled")) return;
  posting.setAttribute("aria-disabled", "true");
  try {
    await ask("POST", posting.dataset.post, JSON.parse(posting.dataset.body));
    say(posting.dataset.done);
  } catch (error) {
    say(error.message);
  } finally {
    posting.removeAttribute("aria-disabled");
    refresh();
  }
});

if (form) reset();
const feed = document.getElementById("feed-address");
if (feed) feed.textContent = new URL(feed.textContent, location.href).href;
