/* What a bar shows of a device, and what is said of it. */

const LEAST = 0.0005;

/** A share as text. */
export function percent(share) {
  if (share > 0 && share < 0.01) return "under 1 %";
  return `${Math.round(share * 100)} %`;
}

/** Shares of one whole as texts. Their numbers never add up to more than the whole, and equal shares have equal ones. */
export function percents(shares) {
  const shown = shares.filter((share) => share >= 0.01);
  const floor = (share) => Math.floor(share * 100 + 1e-6);
  let left = Math.round(100 * shown.reduce((sum, share) => sum + share, 0)) - shown.reduce((sum, share) => sum + floor(share), 0);
  const up = new Set();
  const rest = (share) => share * 100 - floor(share);
  for (const share of [...new Set(shown)].sort((one, other) => rest(other) - rest(one))) {
    const count = shown.filter((each) => each === share).length;
    if (rest(share) < 1e-6 || count > left) continue;
    up.add(share);
    left -= count;
  }
  return shares.map((share) => (share < 0.01 ? percent(share) : `${floor(share) + up.has(share)} %`));
}

/** Who has a part: users, or a placeholder. */
export function holderOf(part) {
  if (part.kind === "placeholder") return part.reserved_for ? `placeholder, reserved for ${part.reserved_for}` : "placeholder";
  const names = part.users ?? part.pods;
  const more = part.more_pods ? ` and ${part.more_pods} more` : "";
  return names.length ? `${names.join(", ")}${more}` : `claim ${part.claim}`;
}

/** How much a part is: its amounts, and the partition. */
export function amountOf(part) {
  const amounts = Object.entries(part.amounts ?? {}).map(([name, amount]) => `${name} ${amount}`);
  return [part.partition, ...amounts].filter(Boolean).join(", ");
}

function blockedOf(device) {
  return device.blocked ?? 0; // members without a meaning are left out
}

/** The part of a device that nobody has. */
export function freeOf(device) {
  const used = device.parts.reduce((sum, part) => sum + part.share, 0);
  return Math.max(0, 1 - used - blockedOf(device));
}

/** The pieces of a bar in their order. */
export function barParts(device) {
  const used = device.parts.map(({ kind, share }) => ({ kind, share }));
  used.sort((one, other) => (one.kind === "user" ? 0 : 1) - (other.kind === "user" ? 0 : 1));
  return [...used, { kind: "blocked", share: blockedOf(device) }, { kind: "free", share: freeOf(device) }];
}

/** The word for a device that no new server gets; empty for others, and where its node is closed. */
export function closedWord({ closed }) {
  if (!closed || closed === "node") return "";
  return closed === "drained" ? closed : "closed";
}

/** Lines about a device: kind, text and share of each part. */
export function linesOf(device) {
  const blocked = blockedOf(device);
  const free = freeOf(device);
  const texts = percents([...device.parts.map((part) => part.share), blocked, free]);
  const lines = device.parts.map((part, number) => ({
    kind: part.kind,
    who: holderOf(part),
    share: part.admin_access ? "sees it all, uses nothing" : device.is_boundless ? "shares it" : texts[number],
    more: [amountOf(part), part.profile].filter(Boolean).join(" · "),
  }));
  const who = closedWord(device);
  if (who) {
    const share = blocked > LEAST ? texts.at(-2) : "";
    lines.unshift({ kind: "blocked", who, share, more: `no new server gets it${who === "closed" ? `: ${device.closed}` : ""}` });
  } else if (blocked > LEAST) {
    lines.push({ kind: "blocked", who: device.closed ? "its node is closed" : "blocked by partitions", share: texts.at(-2), more: "" });
  }
  if (free > LEAST) {
    const partitions = Object.entries(device.free_partitions ?? {}).map(([name, number]) => `${number} × ${name}`);
    const more = partitions.length ? `can be had: ${partitions.join(", or ")}` : device.is_boundless ? "may be shared without limit" : "";
    lines.push({ kind: "free", who: "free", share: device.is_boundless ? "" : texts.at(-1), more });
  }
  return lines;
}

/** All of it as a sentence, for screen readers. */
export function describe(device) {
  const lines = linesOf(device).map(({ who, share, more }) => [who, share, more && `(${more})`].filter(Boolean).join(" "));
  return `${device.name}, ${device.product}: ${lines.join("; ")}`;
}

/** Device-equivalents of each kind on a node. */
export function sumOf(node) {
  const sum = { devices: node.devices.length + node.unknown.length, user: 0, placeholder: 0, blocked: 0, unknown: node.unknown.length, free: 0 };
  for (const device of node.devices) {
    for (const part of device.parts) sum[part.kind] += part.share;
    sum.blocked += blockedOf(device);
    sum.free += freeOf(device);
  }
  return sum;
}

/** Names of a node's marks. */
export function marksOf(node) {
  return node.is_waiting ? [...node.marks, "waiting"] : node.marks;
}

/** What the search looks into: of the node, of each device, and all of it; in small letters. */
export function haystackOf(node, marks) {
  const words = marksOf(node).map((each) => marks[each]?.[0] ?? each);
  const own = [node.name, node.node_pool, ...words].join("\n").toLowerCase();
  const devices = node.devices.map((device) => {
    const isFree = device.parts.length === 0 && blockedOf(device) < LEAST;
    return `${describe(device)} ${device.driver} ${device.parts.flatMap((part) => part.pods).join(" ")} ${isFree ? "idle" : ""}`.toLowerCase();
  });
  devices.push(...node.unknown.map((pool) => `unknown not known ${pool.driver} ${pool.because}`.toLowerCase()));
  return { node: own, devices, all: [own, ...devices].join("\n") };
}
