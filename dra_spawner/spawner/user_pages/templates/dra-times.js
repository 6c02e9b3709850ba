// Sentences of the hub have times in UTC, such as “2026-11-29 14:00 UTC”, some of them with the day of the week; a
// browser shows them in its own zone.
(() => {
  "use strict";
  const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const ofHub = /\b((?:Sun|Mon|Tue|Wed|Thu|Fri|Sat) )?(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC/g;
  const digits = (number, length = 2) => String(number).padStart(length, "0");

  // A time for people: with its date, unless that is today.
  function timeText(moment, hasDay) {
    const clock = `${digits(moment.getHours())}:${digits(moment.getMinutes())}`;
    const date = [digits(moment.getFullYear(), 4), digits(moment.getMonth() + 1), digits(moment.getDate())].join("-");
    const day = hasDay ? `${days[moment.getDay()]} ` : "";
    return moment.toDateString() === new Date().toDateString() ? clock : `${day}${date} ${clock}`;
  }

  const withLocalTimes = (text) =>
    text.replace(ofHub, (written, day, date, clock) => {
      const moment = new Date(`${date}T${clock}Z`);
      return Number.isNaN(moment.getTime()) ? written : timeText(moment, Boolean(day));
    });

  // For scripts that set texts themselves: a text that changes twice would be read aloud again.
  window.draSpawnerTimes = withLocalTimes;

  // What the administrator writes stays as it is.
  const others = "script, style, textarea, pre, code, .announcement";

  function localize(root) {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = root.nodeType === Node.TEXT_NODE ? root : texts.nextNode(); node; node = texts.nextNode()) {
      const text = node.data.includes(" UTC") ? withLocalTimes(node.data) : node.data;
      if (text !== node.data && !node.parentElement?.closest(others)) {
        node.data = text;
      }
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    localize(document.body);
    new MutationObserver((changes) => {
      for (const { type, target, addedNodes } of changes) {
        (type === "characterData" ? [target] : addedNodes).forEach(localize);
      }
    }).observe(document.body, { characterData: true, childList: true, subtree: true });
  });
})();
