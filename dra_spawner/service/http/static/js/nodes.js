/* The nodes and their devices: a row a node, a bar a device.

   A row gets its bars when it comes near the view, so that hundreds of nodes cost little. All text of the cluster goes
   through textContent or setAttribute, never through HTML. */

import { follow, keeping, read } from "./live.js";
import { barParts, closedWord, describe, haystackOf, marksOf, percent, percents, sumOf } from "./bars.js";
import { roving } from "./roving.js";
import { listsServers } from "./servers.js";
import { showsTips } from "./tips.js";

const MARKS = {
  "not-ready": ["not ready", "bad"],
  cordoned: ["cordoned", "bad"],
  draining: ["draining", "warn"],
  emptying: ["emptying", "warn"],
  waiting: ["not for users yet", "warn"],
  late: ["late", "warn"],
  ready: ["ready", "good"],
  newest: ["newest", "good"],
};
const PAGE_OF_NODES = 1000;
const mayOperate = document.documentElement.dataset.allowed.split(" ").includes("operate");

const board = document.getElementById("node-board");
const grid = document.getElementById("node-grid");
const search = document.getElementById("node-search");
const groupBy = document.getElementById("node-group");
const sortBy = document.getElementById("node-sort");
const count = document.getElementById("node-count");

const rows = new Map(); // name -> Row
const closed = new Set(); // names of closed groups
let words = [];
let total = 0;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A bar with one element for each part. */
function barOf(parts) {
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  for (const part of parts) {
    if (part.share <= 0) continue;
    const piece = element("i", { class: part.kind });
    piece.style.flexGrow = part.share;
    bar.append(piece);
  }
  return bar;
}

class Row {
  constructor(name) {
    this.name = name;
    this.text = "";
    this.isFilled = false;
    this.who = element("div", { role: "rowheader", class: "who", "data-key": name });
    this.bars = element("div", { class: "bars", role: "presentation" });
    this.use = element("div", { role: "gridcell", class: "use" });
    this.node = element("div", { role: "row", class: "node" }, this.who, this.bars, this.use);
    this.node.row = this;
  }

  /** Take over what the service says; true if it has changed. */
  take(data) {
    const text = JSON.stringify(data);
    if (text === this.text) return false;
    this.text = text;
    this.data = data;
    this.sought = null;
    this.sum = sumOf(data);
    this.showHead();
    if (this.isFilled) keeping(this.node, () => this.fill());
    return true;
  }

  showHead() {
    const { name, node_pool: pool, kind } = this.data;
    const sub = element("span", { class: "sub" });
    for (const each of marksOf(this.data)) {
      const [text, tone] = MARKS[each] ?? [each, ""];
      sub.append(element("span", { class: `mark ${tone}` }, text));
    }
    if (pool) sub.append(element("span", { class: "pool" }, pool));
    if (kind) sub.append(element("span", { class: "kind" }, kind));
    const strong = element("span", { class: "node-name" }, name);
    this.who.replaceChildren(strong, sub);
    const because = this.data.waiting_because || this.data.unknown_because;
    this.who.title = [name, pool, kind, because].filter(Boolean).join("\n");
    const use = this.data.utilization;
    const hasDevices = this.data.devices.length || this.data.unknown.length;
    this.use.textContent = use === null ? (hasDevices ? "?" : "") : percent(use);
    this.use.title = use === null ? this.data.unknown_because || "" : "utilization by capacity";
    if (use === null && hasDevices) this.use.setAttribute("aria-label", "utilization not known");
    else this.use.removeAttribute("aria-label");
  }

  fill() {
    this.isFilled = true;
    const cells = this.data.devices.map((device) => {
      const name = element("span", { class: "device-name", "aria-hidden": "true" }, device.name);
      const key = `${this.name}/${device.driver}/${device.name}`;
      const label = describe(device);
      const cell = element("div", { role: "gridcell", class: "device", tabindex: "-1", "data-key": key, "aria-label": label });
      cell.append(barOf(barParts(device)), name);
      const word = closedWord(device);
      if (word) cell.append(element("span", { class: "device-closed", "aria-hidden": "true" }, word));
      cell.device = device;
      servers?.mark(cell);
      return cell;
    });
    for (const pool of this.data.unknown) {
      const key = `${this.name}/${pool.driver}/${pool.pool}?`;
      const label = `Devices of ${pool.driver} are not known: ${pool.because}`;
      const cell = element("div", { role: "gridcell", class: "device", tabindex: "-1", "data-key": key, "aria-label": label });
      cell.append(barOf([{ kind: "unknown", share: 1 }]), element("span", { class: "device-name", "aria-hidden": "true" }, "not known"));
      cell.device = { ...pool, unknown: true };
      cells.push(cell);
    }
    if (!cells.length) cells.push(element("div", { role: "gridcell", class: "none" }, "no devices"));
    this.bars.replaceChildren(...cells);
    if (hasActions()) this.showAction();
    this.mark();
  }

  showAction() {
    const isDrained = this.data.is_drain_ordered;
    const kind = isDrained ? "undrain" : "drain";
    const label = isDrained ? "End draining" : "Drain";
    if (this.action?.dataset.actionKind === kind) return;
    this.action = element("button", {
      type: "button",
      class: "small",
      tabindex: "-1",
      "data-key": `${this.name} action`,
      "data-action-method": isDrained ? "DELETE" : "PUT",
      "data-action-path": `api/settings/draining/${encodeURIComponent(this.name)}`,
      "data-action-kind": kind,
      "data-action-subject": this.name,
      "aria-label": `${label}: ${this.name}`,
    });
    this.action.append(label);
    const cell = this.node.querySelector(".act") ?? element("div", { role: "gridcell", class: "act" });
    cell.replaceChildren(this.action);
    this.node.append(cell);
  }

  /** What the search looks into; most pages are never searched. */
  get haystack() {
    this.sought ??= haystackOf(this.data, MARKS);
    return this.sought;
  }

  /** Whether all words of the search are in the node or in one of its devices. */
  matches() {
    return words.every((word) => this.haystack.all.includes(word));
  }

  /** Devices that are not searched for step back. */
  mark() {
    const sought = words.filter((word) => !this.haystack.node.includes(word));
    [...this.bars.children].forEach((cell, index) => {
      const text = sought.length ? (this.haystack.devices[index] ?? "") : "";
      cell.classList.toggle("faint", sought.length > 0 && !sought.every((word) => text.includes(word)));
    });
  }
}

// --- groups, order and search ---------------------------------------------------------------------------------------

const collator = new Intl.Collator(undefined, { numeric: true }); // much faster than localeCompare
const ORDERS = {
  name: (one, other) => collator.compare(one.name, other.name),
  fullest: (one, other) => (other.data.utilization ?? -1) - (one.data.utilization ?? -1) || ORDERS.name(one, other),
  emptiest: (one, other) => (one.data.utilization ?? 2) - (other.data.utilization ?? 2) || ORDERS.name(one, other),
};

function groupOf(row) {
  if (groupBy.value === "kind") return row.data.kind || "without devices";
  if (groupBy.value === "pool") return row.data.node_pool || "without a pool";
  return "";
}

const columns = element(
  "div",
  { role: "row", class: "node columns" },
  ...[["who", "Node"], ["bars", "Devices"], ["use", "In use"]].map(([name, text]) => element("div", { role: "columnheader", class: name }, text)),
);
const heads = new Map(); // name of a group -> its row

function headOf(name, members) {
  let head = heads.get(name);
  if (!head) {
    const button = element("button", { class: "plain group-toggle", type: "button", tabindex: "-1", "data-key": `group ${name}` });
    const who = element("div", { role: "rowheader", class: "who" }, button);
    head = element("div", { role: "row", class: "node group" }, who, element("div", { class: "bars", role: "presentation" }), element("div", { role: "gridcell", class: "use" }));
    button.addEventListener("click", () => {
      if (!closed.delete(name)) closed.add(name);
      arrange();
      remember();
    });
    heads.set(name, head);
  }
  const sum = members.reduce((before, each) => added(before, each.sum), { devices: 0, user: 0, placeholder: 0, blocked: 0, unknown: 0, free: 0 });
  const button = head.querySelector("button");
  button.setAttribute("aria-expanded", String(!closed.has(name)));
  button.replaceChildren(element("span", { class: "node-name" }, name), element("span", { class: "sub" }, `${members.length} ${members.length === 1 ? "node" : "nodes"}`));
  const parts = Object.keys(KINDS).map((kind) => ({ kind, share: sum[kind] }));
  const cell = element("div", { role: "gridcell", class: "whole", "aria-label": kindsText(sum) }, barOf(parts));
  head.querySelector(".bars").replaceChildren(...(sum.devices ? [cell] : []));
  head.querySelector(".use").textContent = sum.devices ? percent((sum.user + sum.placeholder) / sum.devices) : "";
  return head;
}

function added(one, other) {
  return Object.fromEntries(Object.keys(one).map((key) => [key, one[key] + other[key]]));
}

function arrange() {
  const shown = [...rows.values()].filter((row) => row.matches());
  shown.sort(ORDERS[sortBy.value] ?? ORDERS.name);
  const groups = new Map();
  for (const row of shown) {
    const name = groupOf(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  const wanted = shown.length ? [columns] : [];
  const names = [...groups.keys()].sort(collator.compare);
  for (const name of names) {
    const members = groups.get(name);
    if (groupBy.value) wanted.push(headOf(name, members));
    if (!groupBy.value || !closed.has(name)) wanted.push(...members.map((row) => row.node));
  }
  place(wanted);
  for (const row of shown) if (row.isFilled) row.mark();
  const text = shown.length === rows.size ? `${total} ${total === 1 ? "node" : "nodes"}` : `${shown.length} of ${total} nodes`;
  if (count.textContent !== text) count.textContent = text;
  grid.hidden = wanted.length === 0;
  const none = document.getElementById("no-nodes");
  none.hidden = wanted.length > 0;
  none.textContent = rows.size ? "No node matches." : none.dataset.withoutNodes;
  keys.check();
}

/** Make `wanted` the children of the grid, and move no element that is in its place. */
function place(wanted) {
  const kept = new Set(wanted);
  for (const each of [...grid.children]) if (!kept.has(each)) each.remove();
  if (!grid.childElementCount) {
    grid.append(...wanted);
    return;
  }
  let next = grid.firstElementChild;
  for (const each of wanted) {
    if (each === next) next = next.nextElementSibling;
    else grid.insertBefore(each, next);
  }
}

// --- what comes from the service --------------------------------------------------------------------------------------

const KINDS = { user: "users", placeholder: "placeholders", blocked: "blocked or closed", unknown: "not known", free: "free" };

function kindsText(sum) {
  const found = Object.entries(KINDS).filter(([kind]) => sum[kind] > 0.0005);
  const shares = percents(found.map(([kind]) => sum[kind] / sum.devices));
  return found.map(([, text], number) => `${text} ${shares[number]}`).join(", ");
}

function showTotal() {
  const zero = { devices: 0, user: 0, placeholder: 0, blocked: 0, unknown: 0, free: 0 };
  const sum = [...rows.values()].reduce((before, row) => added(before, row.sum), zero);
  const bar = document.getElementById("total-bar");
  bar.replaceChildren(...barOf(Object.keys(KINDS).map((kind) => ({ kind, share: sum[kind] }))).childNodes);
  const shares = percents(Object.keys(KINDS).map((kind) => (sum.devices ? sum[kind] / sum.devices : 0)));
  for (const [number, kind] of Object.keys(KINDS).entries()) {
    const cell = document.getElementById(`total-${kind}`);
    const text = sum.devices ? shares[number] : "–";
    if (cell.textContent !== text) cell.textContent = text;
  }
  document.getElementById("total-devices").textContent = `${sum.devices} ${sum.devices === 1 ? "device" : "devices"}`;
}

async function render(answer) {
  const items = [...answer.items];
  let following = answer.continue;
  while (following) {
    const query = new URLSearchParams({ limit: PAGE_OF_NODES, continue: following });
    const more = await read(`api/node-summaries?${query}`);
    items.push(...more.items);
    following = more.continue;
  }
  const began = performance.now();
  show(items, answer.total);
  board.dataset.renderMs = (performance.now() - began).toFixed(1);
}

/** Whether the page has the dialog of actions.js, for readers who may use it. */
function hasActions() {
  return mayOperate && document.getElementById("action-dialog") !== null;
}

function show(items, all) {
  total = all;
  grid.classList.toggle("with-actions", hasActions());
  const present = new Set();
  for (const data of items) {
    present.add(data.name);
    let row = rows.get(data.name);
    if (!row) {
      row = new Row(data.name);
      rows.set(data.name, row);
    }
    row.take(data);
    if (!row.isWatched) {
      row.isWatched = true;
      nearView.observe(row.node);
    }
  }
  for (const [name, row] of rows) {
    if (!present.has(name)) {
      nearView.unobserve(row.node);
      rows.delete(name);
    }
  }
  board.hidden = false;
  keeping(grid, arrange);
  showTotal();
  tips.refresh();
}

const nearView = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting && !entry.target.row.isFilled) entry.target.row.fill();
  },
  { rootMargin: "800px 0px" },
);

// --- keys, tips, and what is remembered -----------------------------------------------------------------------------------

const keys = roving(grid, (node) => node.row && !node.row.isFilled && node.row.fill());
const tips = showsTips(grid, document.getElementById("device-tip"));
const servers = listsServers(grid, document.getElementById("device-servers"), tips.hide);
const MEMORY = "dra-spawner-nodes";

function remember() {
  try {
    const kept = { group: groupBy.value, sort: sortBy.value, closed: [...closed] };
    sessionStorage.setItem(MEMORY, JSON.stringify(kept));
  } catch {
    // Storage is forbidden: the choice lasts as long as the page.
  }
}

function recall() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(MEMORY) ?? "{}");
    groupBy.value = kept.group ?? "";
    sortBy.value = kept.sort ?? "name";
    for (const each of kept.closed ?? []) closed.add(each);
  } catch {
    groupBy.value = "";
    sortBy.value = "name";
  }
}

let typing = 0;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    arrange();
  }, 80);
});
for (const each of [groupBy, sortBy]) {
  each.addEventListener("change", () => {
    arrange();
    remember();
  });
}

recall();
// Links of other pages look for a user or a node.
search.value = new URLSearchParams(location.search).get("search") ?? "";
words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
const nodes = follow(["nodes", "settings"], `api/node-summaries?limit=${PAGE_OF_NODES}`, async (answer) => {
  if (answer.continue) nodes.etag = ""; // the tag is of the first page alone
  await render(answer);
});
