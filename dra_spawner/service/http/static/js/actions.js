/* Actions of the service's pages. A button opens a dialog that says what will happen; its form sends the request.

   <button type="button" data-action-kind="drain" data-action-method="PUT"
           data-action-path="api/settings/draining/n1" data-action-subject="n1">Drain</button>

   data-action-kind     names the template in actions.html, or in the page: <template data-action="drain">
   data-action-subject  name for people; without it, the last part of the path
   data-action-etag     the ETag of what was read, sent as If-Match
   data-action-values   JSON with first values of the form's fields
   data-action-body     JSON with members of the body that the form does not have

   One listener on the document serves all buttons, so buttons may come and go. */

import { address, refresh } from "./live.js";

const dialog = document.getElementById("action-dialog");
const status = document.getElementById("action-status");
const HOUR = 3600_000;
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const SHOWN = 10_000; // how long the sentence about a success stays
let fading = 0;
let running = null; // the button of the open dialog, its template, and whether a rehearsal has answered

/** The last part of a path, as text. */
function subjectOf(button) {
  const { actionSubject: subject, actionPath: path } = button.dataset;
  return subject ?? decodeURIComponent(path.split("?")[0].split("/").pop());
}

function element(name) {
  return dialog.querySelector(`[data-part="${name}"]`);
}

/** Fill a sentence of a template: {subject} is the name of what the action is about. */
function filled(sentence, subject) {
  return (sentence ?? "").replaceAll("{subject}", () => subject);
}

// --- times ----------------------------------------------------------------------------------------------------------

function twoDigits(number) {
  return String(number).padStart(2, "0");
}

/** A moment for an input of the type datetime-local, in local time. */
function localInput(moment) {
  const date = [moment.getFullYear(), twoDigits(moment.getMonth() + 1), twoDigits(moment.getDate())].join("-");
  return `${date}T${twoDigits(moment.getHours())}:${twoDigits(moment.getMinutes())}`;
}

/** What a choice of a time means for people: with its moment, and without. */
const TIMES = {
  until: ["It ends by itself: {moment}.", "It stays until somebody ends it."],
  evict_at: ["Servers that still have it end: {moment}. Unsaved work is lost then.", "No server ends."],
};

/** The moment that the choice of a time means; null for none. */
function momentOf(form, name) {
  const choice = form.elements.namedItem(name)?.value ?? "";
  if (!choice) return null;
  if (choice === "date") {
    const written = form.elements.namedItem(`${name}-date`).value;
    return written ? new Date(written) : null;
  }
  const now = new Date();
  if (choice === "tonight") return new Date(now.getFullYear(), now.getMonth(), now.getDate(), 23, 59);
  return new Date(now.getTime() + Number(choice) * HOUR);
}

/** A time by the clock of this browser, in the format of the pages, with its zone: theirs are in UTC. */
function timeText(moment) {
  return `${moment.toLocaleDateString("en", { weekday: "short" })} ${localInput(moment).replace("T", " ")} (${ZONE})`;
}

function showTimes(form) {
  for (const [name, [ends, stays]] of Object.entries(TIMES)) {
    const choice = form.elements.namedItem(name);
    if (!choice) continue;
    const date = form.elements.namedItem(`${name}-date`);
    date.closest("label").hidden = date.disabled = choice.value !== "date";
    date.required = !date.disabled;
    const moment = momentOf(form, name);
    form.querySelector(`[data-time=${name}]`).textContent = moment
      ? ends.replace("{moment}", timeText(moment))
      : stays;
  }
}

// --- the request ----------------------------------------------------------------------------------------------------

/** The answer of the service; its problem as an Error with a sentence. */
export async function ask(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers, "X-XSRFToken": document.documentElement.dataset.xsrf }, credentials: "same-origin" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(address(path), options);
  } catch {
    throw new Error("The service does not answer. Check your connection, and try again.");
  }
  const text = await answer.text();
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    /* an answer of a proxy */
  }
  if (!answer.ok) throw new Error(found?.detail ?? `The service answered ${answer.status}.`);
  return found;
}

/** Members of the body, by the names of the form's fields; empty fields are left out. */
function bodyOf(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || field.name.split("-")[0] in TIMES || field.value === "") continue;
    body[field.name] = field.type === "number" ? Number(field.value) : field.value.trim();
  }
  for (const name of Object.keys(TIMES)) {
    const moment = momentOf(form, name);
    if (moment) body[name] = moment.toISOString();
  }
  return body;
}

/** A calendar entry as the API takes it. */
function entryOf(form) {
  const { users, profile, begins, ...rest } = bodyOf(form);
  return { users: `${users} of "${profile}"`, begins: begins.replace("T", " "), timezone: ZONE, ...rest };
}

/** What a rehearsal has found, as elements. */
function answerOf(found) {
  const parts = [sentence("p", found.verdict, found.is_possible ? "good" : "unknown")];
  const list = document.createElement("ul");
  for (const each of found.problems) list.append(sentence("li", each.message));
  for (const each of found.orders) {
    const at = timeText(new Date(each.order_at));
    list.append(sentence("li", `${each.nodes} more ${each.nodes === 1 ? "node" : "nodes"} (${each.kind}), to be ordered by ${at}.`));
  }
  if (list.children.length) parts.push(list);
  return parts;
}

function sentence(tag, text, className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// --- the dialog -----------------------------------------------------------------------------------------------------

function open(button) {
  const kind = button.dataset.actionKind;
  const template = [...document.querySelectorAll("template[data-action]")].find((each) => each.dataset.action === kind);
  if (!dialog || !template || dialog.open) return;
  const subject = subjectOf(button);
  running = { button, template, subject, rehearsed: false };
  element("title").textContent = filled(template.dataset.title, subject);
  element("content").replaceChildren(template.content.cloneNode(true));
  for (const each of element("content").querySelectorAll("[data-subject]")) each.textContent = subject;
  // While the service only observes, it takes orders, and carries none out.
  const held = template.dataset.always === undefined ? document.querySelector("[data-held]") : null;
  element("held").textContent = held?.textContent ?? "";
  element("problem").textContent = "";
  element("answer").replaceChildren();
  element("confirm").removeAttribute("aria-disabled"); // an answer to the dialog before may be on its way
  const form = dialog.querySelector("form");
  const values = JSON.parse(button.dataset.actionValues ?? "{}");
  for (const [name, value] of Object.entries(values)) {
    const field = form.elements.namedItem(name);
    if (field) field.value = value;
  }
  for (const each of form.querySelectorAll("input[type=datetime-local]")) {
    each.min = localInput(new Date());
    if (each.name === "begins" && !each.value) each.value = localInput(new Date(Math.ceil(Date.now() / HOUR + 1) * HOUR));
  }
  showTimes(form);
  label();
  dialog.showModal();
  // The first field, else the button that changes nothing.
  const first = form.querySelector("[data-part=content] :is(input, select)") ?? element("cancel");
  first.focus();
  first.select?.();
}

function label() {
  const { confirm, check } = running.template.dataset;
  element("confirm").textContent = check && !running.rehearsed ? check : confirm;
  element("confirm").classList.toggle("danger", running.template.dataset.danger !== undefined);
}

/** Whether this dialog is open still: people may cancel it, and open another, before the answer comes. */
function isOpen(asked) {
  return dialog.open && running === asked;
}

async function send(form) {
  const mine = running;
  const { button, template, subject } = mine;
  const { actionMethod: method, actionPath: path, actionEtag: etag } = button.dataset;
  if (template.dataset.check && !mine.rehearsed) {
    const entry = entryOf(form);
    let answer;
    try {
      answer = answerOf(await ask("POST", "api/rehearsals", { entry }));
    } catch (error) {
      // What cannot be rehearsed may still be added: the profiles may not be known yet.
      answer = [sentence("p", error.message, "unknown")];
    }
    if (!isOpen(mine) || JSON.stringify(entryOf(form)) !== JSON.stringify(entry)) return;
    element("answer").replaceChildren(...answer);
    mine.rehearsed = true;
    label();
    return;
  }
  let body;
  if (template.dataset.check) body = entryOf(form);
  else if (method !== "DELETE") body = { ...JSON.parse(button.dataset.actionBody ?? "{}"), ...bodyOf(form) };
  await ask(method, path, body, etag ? { "If-Match": etag } : {});
  if (isOpen(mine)) dialog.close();
  say(filled(template.dataset.done, subject));
  refresh();
}

/** Say something politely; it goes away after a while. */
export function say(sentence) {
  status.textContent = "";
  requestAnimationFrame(() => {
    status.textContent = sentence;
  });
  clearTimeout(fading);
  fading = setTimeout(() => {
    status.textContent = "";
  }, SHOWN);
}

async function submit(event) {
  event.preventDefault();
  const form = event.target;
  const confirm = element("confirm");
  if (confirm.getAttribute("aria-disabled") === "true") return;
  element("problem").textContent = "";
  confirm.setAttribute("aria-disabled", "true");
  const mine = running;
  try {
    await send(form);
  } catch (error) {
    if (isOpen(mine)) element("problem").textContent = error.message;
    else say(error.message);
  } finally {
    if (running === mine) confirm.removeAttribute("aria-disabled");
  }
}

/** Where the focus goes: the button, or the one that has taken its place, or the page's main part. */
function refocus() {
  const { button } = running;
  const path = button.dataset.actionPath;
  const others = [...document.querySelectorAll("[data-action-path]")];
  const found = button.focusAfter ? button.focusAfter() : button.isConnected ? button : others.find((each) => each.dataset.actionPath === path);
  (found ?? document.querySelector("main, [role=main]"))?.focus();
}

if (dialog) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-action-kind]");
    if (button) open(button);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target.closest("[data-part=cancel]")) dialog.close();
  });
  dialog.querySelector("form").addEventListener("submit", submit);
  dialog.addEventListener("input", (event) => {
    showTimes(event.target.form);
    if (!running.rehearsed) return;
    running.rehearsed = false;
    element("answer").replaceChildren();
    label();
  });
  dialog.addEventListener("close", refocus);
}
