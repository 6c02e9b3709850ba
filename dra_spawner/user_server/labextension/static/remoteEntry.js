// The panel "My devices" of JupyterLab 4 and Notebook 7. It is loaded as it stands: there is no build.
//
// JupyterLab loads a prebuilt extension as a container of modules (webpack's module federation), which is an object
// with `init` and `get`. All texts come from the server and are set as text, never as HTML.
(() => {
  "use strict";

  const REFRESH_MS = 30000;
  // The server itself answers within 5 s.
  const LIMIT_MS = 10000;
  const SEEN = "dra-spawner:devices-seen";
  const WIDE_PIXELS = 900;
  const KEEP = "I still need it";
  const KEEP_COMMAND = "dra-spawner:keep";
  const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3 jp-icon-selectable"
    fill="#616161" d="M7 2v2H5a1 1 0 0 0-1 1v2H2v2h2v2H2v2h2v2H2v2h2v2a1 1 0 0 0 1 1h2v2h2v-2h2v2h2v-2h2v2h2v-2h2a1 1 0 0 0
    1-1v-2h2v-2h-2v-2h2v-2h-2V9h2V7h-2V5a1 1 0 0 0-1-1h-2V2h-2v2h-2V2h-2v2H9V2zm-1 4h12v12H6zm3 3v6h6V9z"/></svg>`;
  const STYLE = `
    .dra-devices { overflow: auto; padding: 12px; color: var(--jp-ui-font-color1); font-size: var(--jp-ui-font-size1);
      background: var(--jp-layout-color1); line-height: 1.4; }
    .dra-devices h2 { font-size: var(--jp-ui-font-size2); margin: 0 0 4px; }
    .dra-devices h3 { font-size: var(--jp-ui-font-size1); margin: 0 0 6px; overflow-wrap: anywhere; }
    .dra-devices p { margin: 0 0 8px; overflow-wrap: anywhere; }
    .dra-devices .dra-device { border: 1px solid var(--jp-border-color1); border-radius: 4px; margin: 12px 0; padding: 8px; }
    .dra-devices .dra-faulty { border: 2px solid var(--jp-warn-color0); }
    .dra-devices .dra-end { border: 2px solid var(--jp-warn-color0); border-radius: 4px; padding: 8px; }
    .dra-devices dl { display: grid; gap: 4px 8px; grid-template-columns: max-content 1fr; margin: 0; }
    .dra-devices dt { color: var(--jp-ui-font-color2); }
    .dra-devices dd { margin: 0; overflow-wrap: anywhere; }
    .dra-devices .dra-idle { border: 2px solid var(--jp-warn-color0); border-radius: 4px; margin: 8px 0; padding: 8px; }
    .dra-devices button { font: inherit; padding: 6px 12px; border: 1px solid var(--jp-border-color1); border-radius: 4px;
      color: var(--jp-ui-font-color1); background: var(--jp-layout-color2); cursor: pointer; }
    .dra-devices .dra-note { color: var(--jp-ui-font-color2); }`;

  let shared = {};

  /** A module that JupyterLab shares with extensions. */
  async function sharedModule(name) {
    const versions = Object.values(shared[name] || {});
    const version = versions.find((each) => each.loaded) || versions[0];
    if (!version) {
      throw new Error(`JupyterLab does not share ${name}`);
    }
    return (await version.get())();
  }

  const digits = (number, length = 2) => String(number).padStart(length, "0");

  /** A time by the clock of this browser: with its day, unless that is today. As in dra-times.js of the hub's pages. */
  function timeText(moment) {
    const clock = `${digits(moment.getHours())}:${digits(moment.getMinutes())}`;
    const day = [digits(moment.getFullYear(), 4), digits(moment.getMonth() + 1), digits(moment.getDate())].join("-");
    return moment.toDateString() === new Date().toDateString() ? clock : `${day} ${clock}`;
  }

  /** A sentence of the hub, whose times are in UTC, by the clock of this browser. */
  function localTimes(text) {
    return text.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC/g, (written, day, clock) => {
      const moment = new Date(`${day}T${clock}Z`);
      return Number.isNaN(moment.getTime()) ? written : timeText(moment);
    });
  }

  function element(tag, text, name) {
    const made = document.createElement(tag);
    made.textContent = localTimes(text || "");
    if (name) {
      made.className = name;
    }
    return made;
  }

  function deviceElement(device, index, all) {
    const card = element("section", "", device.faulty ? "dra-device dra-faulty" : "dra-device");
    card.append(element("h3", device.product ? `${device.name} (${device.product})` : device.name));
    const network = device.network || {};
    const rows = {
      Share: device.share.map((each) => each.words).join(", "),
      Enforced: device.enforcement,
      Health: `${device.faulty ? "⚠ " : ""}${device.health_sentence || device.health}`,
      For: all.length > 1 ? device.claim : "", // a word of the profile, which tells devices apart
      Interface: network.interface,
      Hardware: network.hardware_address,
      Addresses: (network.addresses || []).join(", "),
      ...device.attributes,
    };
    const list = document.createElement("dl");
    for (const [title, value] of Object.entries(rows)) {
      if (value) {
        list.append(element("dt", title), element("dd", value));
      }
    }
    if (device.faulty) {
      card.append(element("p", "Save your work. A new start of the server may get another device."));
    }
    card.append(list);
    return card;
  }

  /** When the server ends, by the clock of this browser; empty without a limit. */
  function endText(answer, isForMessage) {
    if (!answer.endsAt) {
      return "";
    }
    const when = timeText(answer.endsAt);
    const minutes = Math.max(Math.floor((answer.endsAt - new Date()) / 60000), 0);
    const hours = minutes >= 60 ? `${Math.floor(minutes / 60)} h` : "";
    const left = [hours, minutes % 60 || !hours ? `${minutes % 60} min` : ""].filter(Boolean).join(" ");
    // A message stays as it is, while time goes on.
    return `Your server ends at ${when}${isForMessage ? "" : `, in ${left}`}.${answer.ends_soon ? " Save your work." : ""}`;
  }

  /** The warning that the server is stopped for being idle, with a button to keep it where that is allowed. */
  function idleElement(idle, keep) {
    const card = element("section", "", "dra-idle");
    card.setAttribute("role", "alert");
    card.append(element("h3", "⚠ This server is idle"), element("p", idle.sentence));
    if (idle.may_keep) {
      const button = element("button", KEEP);
      button.type = "button";
      button.addEventListener("click", () => {
        button.disabled = true;
        void keep().then((sentence) => {
          if (sentence) {
            card.append(element("p", sentence));
            button.disabled = false;
          }
        });
      });
      card.append(button);
    }
    return card;
  }

  /** The panel's content: the devices that were known last, and what is not known now. */
  function show(node, answer, devices, keep) {
    const parts = [element("h2", "My devices"), ...devices.map(deviceElement)];
    const end = endText(answer);
    if (end) {
      parts.splice(answer.ends_soon ? 1 : parts.length, 0, element("p", end, answer.ends_soon ? "dra-end" : ""));
    }
    if (answer.idle && answer.idle.sentence) {
      parts.splice(1, 0, idleElement(answer.idle, keep));
    }
    const where = answer.node ? `On ${answer.node}` : "";
    const warm = answer.warm ? "prepared before your server started" : "";
    const line = [where, warm].filter(Boolean).join(", ");
    if (line) {
      parts.push(element("p", `${line}.`));
    }
    if (answer.sentence) {
      const sentence = element("p", answer.sentence);
      sentence.setAttribute("role", "status");
      parts.push(sentence);
    }
    if (answer.known && !devices.length) {
      parts.push(element("p", "Your server has no devices."));
    }
    parts.push(...(answer.use || []).map((each) => element("p", each)));
    if (answer.at && (devices.length || answer.known)) {
      parts.push(element("p", `As of ${timeText(answer.at)}.`, "dra-note"));
    }
    node.replaceChildren(...parts);
  }

  async function activate(app) {
    const [{ Widget }, { ServerConnection }, { LabIcon }] = await Promise.all(
      ["@lumino/widgets", "@jupyterlab/services", "@jupyterlab/ui-components"].map(sharedModule)
    );
    const settings = app.serviceManager.serverSettings;
    // A panel that is open is no activity of its user.
    const address = `${settings.baseUrl}dra-spawner/devices?no_track_activity=1`;
    const keepAddress = `${settings.baseUrl}dra-spawner/keep?no_track_activity=1`;

    /** The server's answer; null where the server has none for anybody. */
    async function ask() {
      try {
        const init = { cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS) };
        const response = await ServerConnection.makeRequest(address, init, settings);
        if (response.status === 404) {
          return null;
        }
        if (response.ok) {
          return await response.json();
        }
        return { known: false, sentence: `Your server answers ${response.status}; its devices are not known now.` };
      } catch (error) {
        return { known: false, sentence: "Your server does not answer; its devices are not known now." };
      }
    }

    /** Keep the server; a sentence if that failed. */
    async function keep() {
      try {
        const init = { method: "POST", body: "{}", signal: AbortSignal.timeout(LIMIT_MS) };
        const response = await ServerConnection.makeRequest(keepAddress, init, settings);
        const found = response.ok ? await response.json() : {};
        if (found.kept) {
          known.idle = null;
          await refresh();
          return "";
        }
        return found.sentence || `Your server answers ${response.status}. Try again, or run a cell.`;
      } catch (error) {
        return "Your server does not answer. Try again, or run a cell.";
      }
    }

    let last = await ask();
    if (last === null) {
      return; // not a server of a hub
    }
    const style = element("style", STYLE);
    document.head.append(style);
    const panel = new Widget();
    panel.id = "dra-spawner-devices";
    panel.addClass("dra-devices");
    panel.node.setAttribute("role", "region");
    panel.node.setAttribute("aria-label", "My devices");
    panel.title.caption = "My devices";
    panel.title.icon = new LabIcon({ name: "dra-spawner:devices", svgstr: ICON });
    app.shell.add(panel, "right", { rank: 900, type: "My devices" });

    const warned = new Set();
    let isEndSaid = false;
    let known = { known: false, devices: [] };

    function take(answer) {
      if (answer === null || !answer.known) {
        // What was known last stays, with its time.
        const sentence = answer === null ? "Your server does not tell its devices any more." : answer.sentence;
        show(panel.node, { ...known, known: false, sentence, idle: answer && answer.idle }, known.devices, keep);
        warnIdle(answer && answer.idle);
        return;
      }
      const endsAt = Number.isFinite(answer.ends_in_seconds) ? new Date(Date.now() + answer.ends_in_seconds * 1000) : null;
      known = { ...answer, at: new Date(), endsAt };
      show(panel.node, known, known.devices, keep);
      warnIdle(known.idle);
      openOnce();
      if (!known.ends_soon) {
        isEndSaid = false;
      } else if (!isEndSaid) {
        isEndSaid = true;
        const message = endText(known, true);
        void app.commands.execute("apputils:notify", { message, type: "warning", options: { autoClose: false } });
      }
      for (const device of known.devices) {
        const key = [device.driver, device.pool, device.name, device.request].join("/");
        if (!device.faulty) {
          warned.delete(key);
        } else if (!warned.has(key)) {
          warned.add(key);
          // JupyterLab shows some 140 characters; the panel shows all.
          const message = localTimes(`${device.name}: ${device.health_sentence}`);
          void app.commands.execute("apputils:notify", { message, type: "warning", options: { autoClose: false } });
        }
      }
    }

    app.commands.addCommand(KEEP_COMMAND, {
      label: KEEP,
      execute: async () => {
        const message = await keep();
        if (message) {
          void app.commands.execute("apputils:notify", { message, type: "error" });
        }
      },
    });
    let idleNotification = null;

    /** A notification, once for each warning, until it is over; the panel opens, too. On a phone it is out of sight. */
    function warnIdle(idle) {
      const isWarned = Boolean(idle && idle.sentence);
      if (isWarned && idleNotification === null) {
        app.shell.activateById(panel.id);
        // JupyterLab shows some 140 characters; the panel shows all.
        const message = "This server is idle and will be stopped, so that others can use its devices. “My devices” says when.";
        const actions = idle.may_keep ? [{ label: KEEP, commandId: KEEP_COMMAND, displayType: "accent" }] : [];
        const options = { autoClose: false, actions };
        idleNotification = app.commands.execute("apputils:notify", { message, type: "warning", options });
      } else if (!isWarned && idleNotification !== null) {
        void idleNotification.then((id) => app.commands.execute("apputils:dismiss-notification", { id }));
        idleNotification = null;
      }
    }

    // A user who has never seen the panel does not know that it is there. On a phone it would hide all else.
    function openOnce() {
      try {
        const isSeen = window.localStorage.getItem(SEEN) !== null;
        if (!isSeen && known.devices.length && window.innerWidth >= WIDE_PIXELS) {
          window.localStorage.setItem(SEEN, "yes");
          app.shell.activateById(panel.id);
        }
      } catch (error) {
        // A browser that stores nothing: the panel stays closed, rather than open each time.
      }
    }

    let asking = false;
    async function refresh() {
      if (asking || document.visibilityState !== "visible") {
        return;
      }
      asking = true;
      try {
        take(await ask());
      } finally {
        asking = false;
      }
    }

    void app.restored.then(() => take(last));
    setInterval(refresh, REFRESH_MS);
    document.addEventListener("visibilitychange", refresh);
  }

  const plugin = {
    id: "dra-spawner:devices",
    description: "Shows the devices of this server, and warns when one fails or when the server is idle.",
    autoStart: true,
    activate: (app) => {
      // JupyterLab's start does not wait for it, and never fails because of it.
      activate(app).catch((error) => console.warn("My devices cannot be shown", error));
    },
  };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["dra-spawner"] = {
    init: async (scope) => {
      shared = scope;
    },
    get: async (module) => {
      if (module !== "./extension") {
        throw new Error(`There is no module ${module}`);
      }
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
