/* The servers that have a device, each with a button that stops it, and a button that drains the device: in a dialog
   that a click on the device, or Enter, opens. Only readers who may stop servers have the dialog. */

import { percent } from "./bars.js";

function serversOf(device) {
  return (device.parts ?? []).flatMap((part) => (part.servers ?? []).map((server) => ({ ...server, share: part.share })));
}

function titleOf({ user, name }) {
  return name ? `${user} (${name})` : user;
}

function stopButton(server) {
  const button = document.createElement("button");
  const query = server.name ? `?server=${encodeURIComponent(server.name)}` : "";
  button.type = "button";
  button.textContent = "Stop";
  button.dataset.actionMethod = "DELETE";
  button.dataset.actionPath = `api/servers/${encodeURIComponent(server.user)}${query}`;
  button.dataset.actionKind = "stop-server";
  button.dataset.actionSubject = titleOf(server);
  button.setAttribute("aria-label", `Stop the server of ${titleOf(server)}`);
  return button;
}

/** The name of a device in the API; empty for what is no device of its own. */
function nameOf(device) {
  return device.pool && !device.unknown ? `${device.driver}/${device.pool}/${device.name}` : "";
}

/** Let the dialog's button drain a device, or end that. */
function setDrain(button, device) {
  const name = nameOf(device);
  const isDrained = device.closed === "drained";
  button.hidden = !name;
  button.textContent = isDrained ? "End draining this device …" : "Drain this device …";
  button.dataset.actionMethod = isDrained ? "DELETE" : "PUT";
  button.dataset.actionPath = `api/devices/${name.split("/").map(encodeURIComponent).join("/")}/drain`;
  button.dataset.actionKind = isDrained ? "undrain-device" : "drain-device";
  button.dataset.actionSubject = device.name;
}

/** Open the dialog for the devices of a grid that servers have, after `opening`; null for readers without the dialog. */
export function listsServers(grid, dialog, opening) {
  if (!dialog) return null;

  function open(cell) {
    const { device } = cell;
    dialog.querySelector("h2").textContent = `Servers with ${device.name}`;
    const items = serversOf(device).map((server) => {
      const item = document.createElement("li");
      const who = document.createElement("span");
      who.textContent = `${titleOf(server)} `;
      const share = document.createElement("small");
      share.textContent = percent(server.share);
      const button = stopButton(server);
      // The device's cell may be another one by then.
      button.focusAfter = () => grid.querySelector(`[data-key="${CSS.escape(cell.dataset.key)}"]`);
      item.append(who, share, button);
      return item;
    });
    dialog.querySelector("ul").replaceChildren(...items);
    const drain = dialog.querySelector("[data-part=drain]");
    setDrain(drain, device);
    drain.focusAfter = () => grid.querySelector(`[data-key="${CSS.escape(cell.dataset.key)}"]`);
    opening();
    dialog.showModal();
  }

  function opens(device) {
    return serversOf(device).length > 0 || nameOf(device) !== "";
  }

  function cellAt(target) {
    const cell = target instanceof Element ? target.closest(".device") : null;
    return cell?.device && opens(cell.device) ? cell : null;
  }

  grid.addEventListener("click", (event) => {
    const cell = cellAt(event.target);
    if (cell) open(cell);
  });
  grid.addEventListener("keydown", (event) => {
    const cell = event.key === "Enter" ? cellAt(event.target) : null;
    if (!cell) return;
    event.preventDefault();
    open(cell);
  });
  // The next dialog asks whether the server shall stop, and says what came of it.
  dialog.addEventListener("click", (event) => event.target.closest("[data-action-kind]") && dialog.close());

  return {
    /** Say of a device's cell that it opens the dialog. */
    mark(cell) {
      if (opens(cell.device)) cell.setAttribute("aria-haspopup", "dialog");
      if (serversOf(cell.device).length) cell.dataset.servers = "";
    },
  };
}
