/* The tip of a device: who has how much of it. It shows on hover and on focus, stays while the pointer is on it, and
   Escape hides it. Screen readers read the device's label, which says the same. */

import { linesOf } from "./bars.js";

const GAP = 6;
const LEAVE_MS = 120;

function line(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

/** Show a tip for each element with a `device` in a grid. */
export function showsTips(grid, tip) {
  let cell = null;
  let leaving = 0;

  function fill(device) {
    const head = document.createElement("p");
    head.append(line("b", "", device.unknown ? device.pool : device.name), line("span", "", device.unknown ? device.driver : `${device.product} · ${device.driver}`));
    const list = document.createElement("ul");
    const lines = device.unknown ? [{ kind: "unknown", who: "not known", share: "", more: device.because }] : linesOf(device);
    for (const { kind, who, share, more } of lines) {
      const item = document.createElement("li");
      const swatch = line("i", `swatch ${kind}`, "");
      item.append(swatch, line("span", "tip-who", who), line("span", "tip-share", share));
      if (more) item.append(line("span", "tip-more", more));
      list.append(item);
    }
    tip.replaceChildren(head, list);
  }

  function place() {
    const at = cell.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.max(GAP, Math.min(at.left, document.documentElement.clientWidth - size.width - GAP));
    const below = at.bottom + GAP;
    const top = below + size.height > window.innerHeight && at.top - GAP > size.height ? at.top - GAP - size.height : below;
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  }

  function show(next) {
    clearTimeout(leaving);
    cell = next;
    fill(cell.device);
    tip.hidden = false;
    place();
  }

  function hide() {
    clearTimeout(leaving);
    cell = null;
    tip.hidden = true;
  }

  function hideSoon() {
    clearTimeout(leaving);
    leaving = setTimeout(hide, LEAVE_MS);
  }

  function deviceAt(target) {
    const found = target instanceof Element ? target.closest(".device") : null;
    return found?.device ? found : null;
  }

  for (const type of ["pointerover", "focusin", "click"]) {
    grid.addEventListener(type, (event) => {
      const found = deviceAt(event.target);
      if (found) show(found);
      else if (cell) hideSoon();
    });
  }
  grid.addEventListener("pointerleave", hideSoon);
  grid.addEventListener("focusout", hideSoon);
  tip.addEventListener("pointerenter", () => clearTimeout(leaving));
  tip.addEventListener("pointerleave", hideSoon);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && cell) hide();
  });
  window.addEventListener("scroll", () => cell && (cell.isConnected ? place() : hide()), { passive: true });

  return {
    hide,
    /** After devices have changed. */
    refresh() {
      if (!cell) return;
      const key = CSS.escape(cell.dataset.key);
      const found = cell.isConnected ? cell : grid.querySelector(`[data-key="${key}"]`);
      if (found?.device) show(found);
      else hide();
    },
  };
}
