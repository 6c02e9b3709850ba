// The page of a start: what JupyterHub's own script shows, and what the hub says beside it. All texts are set as text.
(() => {
  "use strict";
  // What happens is said by JupyterHub's stream of events, which a proxy may end for good. So the hub is asked, too.
  const askEveryMilliseconds = 5000;
  const retryMilliseconds = 2000;
  const limitMilliseconds = 4000;
  // Ending a start takes seconds.
  const switchMilliseconds = 60000;

  const made = (tag, text, name) => {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = name;
    return element;
  };

  // As in dra-times.js; a page of an administrator may lack it.
  const localTimes = window.draSpawnerTimes ?? ((text) => text);

  function setText(element, text) {
    const shown = localTimes(text);
    if (element.textContent !== shown) {
      element.textContent = shown;
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const said = document.getElementById("dra-said");
    const lost = document.getElementById("dra-lost");
    const message = document.getElementById("progress-message");
    const bar = document.getElementById("progress-bar");
    const given = document.getElementById("dra-start-data");
    const hasFailed = () => bar !== null && bar.matches(".bg-danger, .progress-bar-danger");
    if (bar && !bar.hasAttribute("aria-label")) {
      bar.setAttribute("aria-label", "Progress of the start");
    }
    // A screen reader reads each sentence once, not again whenever the time changes.
    if (message) {
      new MutationObserver(() => {
        const line = message.querySelector(".dra-line") || message;
        const now = localTimes(line.textContent.replace(/ \([^()]* of at most [^()]*\)$/, ""));
        if (said.textContent !== now) {
          said.textContent = now;
          // What was offered beside the last sentence may be over.
          document.dispatchEvent(new Event("dra-spawner-start-news"));
        }
      }).observe(message, { characterData: true, childList: true, subtree: true });
    }
    // JupyterHub opens the log of a failed start; here a sentence says why it failed.
    const log = document.getElementById("progress-details");
    if (bar && log) {
      let isOpen = false;
      log.querySelector("summary").addEventListener("click", () => {
        isOpen = !log.open;
      });
      new MutationObserver(() => {
        log.open = isOpen;
        document.dispatchEvent(new Event("dra-spawner-start-over"));
      }).observe(bar, { attributeFilter: ["class"] });
    }
    if (!given || !message || !lost) {
      return;
    }
    const data = JSON.parse(given.textContent);

    // A way back after each failure

    const back = made("a", data.has_choices ? "Back to the choices" : "Try again", "btn btn-primary dra-failed");
    back.href = data.choices;
    back.setAttribute("role", "button");
    message.after(back);

    // While the server waits

    const waiting = made("section", "", "dra-waiting");
    const usual = made("p", "", "mb-2");
    const heading = made("p", "", "mb-1");
    const buttons = made("div", "", "");
    waiting.setAttribute("aria-label", "While you wait");
    waiting.append(usual, heading, buttons);
    message.after(waiting);
    let shown = "";

    function showOffers(answer) {
      setText(usual, answer.usual);
      usual.hidden = !answer.usual;
      const these = answer.offers.length === 1 ? "This" : "These";
      setText(heading, `${these} would start now. Your wait ends with the click.`);
      heading.hidden = !answer.offers.length;
      waiting.hidden = !answer.usual && !answer.offers.length;
      const now = JSON.stringify(answer.offers);
      if (now !== shown) {
        const old = new Map([...buttons.children].map((each) => [each.dataset.choice, each]));
        const wanted = answer.offers.map((offer) => old.get(offer.name) || button(offer));
        // A button that stays in the page keeps the focus.
        [...old.values()].filter((each) => !wanted.includes(each)).forEach((each) => each.remove());
        wanted.forEach((each, number) => {
          if (buttons.children[number] !== each) {
            buttons.insertBefore(each, buttons.children[number] || null);
          }
        });
        shown = now;
      }
    }

    function button(offer) {
      const element = made("button", `Start “${offer.words}” instead`, "btn btn-secondary");
      element.type = "button";
      element.dataset.choice = offer.name;
      element.addEventListener("click", () => start(offer, element));
      return element;
    }

    let isSwitching = false;

    async function start(offer, element) {
      isSwitching = true;
      for (const each of buttons.children) {
        each.disabled = true;
      }
      setText(element, `“${offer.words}” is being started…`);
      let problem = "The hub does not answer.";
      try {
        const answer = await fetch(data.address, {
          method: "POST",
          headers: { "X-XSRFToken": data.xsrf },
          body: new URLSearchParams({ name: offer.name }),
          redirect: "error",
          signal: AbortSignal.timeout(switchMilliseconds),
        });
        if (answer.ok) {
          // Whatever came of it: JupyterHub's page shows it.
          window.location.reload();
          return;
        }
        problem = answer.status === 429 ? "Too many servers start at the moment." : "This did not work.";
      } catch {
        // No answer.
      }
      isSwitching = false;
      lost.textContent = `${problem} Please try again, or go back to Home.`;
      lost.hidden = false;
      shown = "";
      buttons.replaceChildren();
      plan(retryMilliseconds);
    }

    // The connection

    let timer = 0;
    let questions = 0;
    let isLost = false;
    let timesOver = 0;

    function plan(milliseconds) {
      clearTimeout(timer);
      timer = setTimeout(ask, milliseconds);
    }

    async function ask() {
      if (hasFailed() || isSwitching) {
        return;
      }
      if (document.visibilityState !== "visible") {
        return; // asks again when it is looked at
      }
      questions += 1;
      const question = questions;
      let answer = null;
      let status = 0;
      try {
        const response = await fetch(data.address, {
          headers: { Accept: "application/json" },
          cache: "no-store",
          redirect: "error",
          signal: AbortSignal.timeout(limitMilliseconds),
        });
        status = response.status;
        answer = response.ok ? await response.json() : null;
      } catch {
        status = 0;
      }
      if (hasFailed() || isSwitching || question !== questions) {
        return;
      }
      if (status === 0 || status >= 500) {
        isLost = true;
        lost.textContent = "The connection to the hub is lost. This page tries again every few seconds.";
        lost.hidden = false;
        waiting.hidden = true;
        plan(retryMilliseconds);
        return;
      }
      if (isLost) {
        // The server may run, wait or have ended by now, and the stream of events may have ended for good.
        window.location.reload();
        return;
      }
      if (status === 401 || status === 403) {
        lost.textContent = "Your login is over. Please reload the page.";
        lost.hidden = false;
        waiting.hidden = true;
      } else if (answer) {
        lost.hidden = true;
        timesOver = answer.state === "waiting" ? 0 : timesOver + 1;
        // The stream says it sooner, unless it has ended.
        if (timesOver > 1) {
          window.location.reload();
          return;
        }
        const line = message.querySelector(".dra-line");
        if (line && answer.state === "waiting") {
          setText(line, answer.line);
        }
        showOffers(answer);
      }
      plan(askEveryMilliseconds);
    }

    waiting.hidden = true;
    document.addEventListener("visibilitychange", () => plan(0));
    document.addEventListener("dra-spawner-start-news", ask);
    plan(askEveryMilliseconds);
  });
})();
