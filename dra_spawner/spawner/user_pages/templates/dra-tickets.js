// The queue for devices: the user's own tickets on a page of the hub. All texts are set as text.
(() => {
  "use strict";
  const retryMilliseconds = 5000;
  const limitMilliseconds = 8000;
  // Ending a start and beginning another one takes seconds.
  const startMilliseconds = 60000;
  // A page that is in another tab looks, too: it notifies its user.
  const hiddenMilliseconds = 20000;
  // A page without tickets; another tab may get one.
  const idleMilliseconds = 30000;
  const hiddenKey = "dra-spawner-hidden-tickets";

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

  const clock = (seconds) => localTimes(`${new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ")} UTC`);

  document.addEventListener("DOMContentLoaded", () => {
    const place = document.getElementById("dra-tickets");
    const problemLine = document.getElementById("dra-tickets-problem");
    const said = document.getElementById("dra-tickets-said");
    const given = document.getElementById("dra-tickets-data");
    if (!place || !problemLine || !said || !given) {
      return;
    }
    const data = JSON.parse(given.textContent);
    const address = new URL(data.address, window.location.href);
    const list = made("div", "", "");
    const tell = made("div", "", "dra-tell");
    place.append(list);
    // On the page of a start, beside what else would start now.
    document.querySelector(".dra-waiting")?.after(place);
    // In the form it stands beside the button that starts a server.
    const startButton = document.querySelector("#spawn_form .feedback-container");
    if (startButton) {
      startButton.before(tell);
    } else {
      place.append(tell);
    }
    tell.hidden = true;
    // Why the form's last start was refused: the next step answers it.
    const refusal = startButton && document.querySelector(".spawn-error-msg");
    const title = document.title;
    let tickets = [];
    let own = null; // the choice of this page's start, which waits or has waited in vain
    let wanted = null; // what the form has chosen, where that is not free now
    let ready = null; // choices that were ready at the last answer; null before the first one
    let isOwnPage = false; // an administrator may have opened the page of another user
    let isChanging = false;
    let changes = 0;
    let timer = 0;

    // What a user has hidden in this browser: messages that a device was held in vain.

    function hiddenOnes() {
      try {
        return JSON.parse(window.localStorage.getItem(hiddenKey)) || [];
      } catch {
        return [];
      }
    }

    function hide(ticket) {
      try {
        const marks = [...hiddenOnes().filter((each) => typeof each === "string").slice(-20), mark(ticket)];
        window.localStorage.setItem(hiddenKey, JSON.stringify(marks));
      } catch {
        // A browser that stores nothing: it is hidden on this page alone.
      }
      tickets = tickets.filter((each) => each !== ticket);
      show();
    }

    const mark = (ticket) => `${ticket.choice} ${ticket.since}`;

    // What the page shows

    const headlines = {
      waits: (ticket) => `You wait for “${ticket.text}”`,
      ready: (ticket) => `“${ticket.text}” is ready for you until ${clock(ticket.until)}`,
      missed: (ticket) => `“${ticket.text}” was ready for you until ${clock(ticket.since)}`,
      gone: (ticket) => `You wait for “${ticket.text}”`,
      kept: (ticket) => `You wait for “${ticket.text}”`,
    };

    function button(text, kind, act) {
      const element = made("button", text, `btn btn-sm ${kind}`);
      element.type = "button";
      element.addEventListener("click", act);
      return element;
    }

    function actions(ticket) {
      const leave = () => button("Leave the queue", "btn-secondary", () => change("DELETE", ticket.choice));
      switch (ticket.state) {
        case "waits":
          return [leave(), ...notifyButton()];
        case "ready":
          return [
            button("Start it", "btn-primary", () => start(ticket)),
            button("Leave it to others", "btn-secondary", () => change("DELETE", ticket.choice)),
          ];
        case "missed":
          return [
            button("Join the queue again, at its end", "btn-secondary", () => change("PUT", ticket.choice)),
            button("Hide", "btn-secondary", () => hide(ticket)),
          ];
        case "gone":
          return [leave()];
        default:
          return [];
      }
    }

    function notifyButton() {
      if (!("Notification" in window) || Notification.permission !== "default") {
        return [];
      }
      return [
        button("Notify me in this browser", "btn-secondary", async (event) => {
          const element = event.target;
          const answer = await Notification.requestPermission();
          const asked = answer === "granted" ? "This browser notifies you while a page of the hub is open." : "";
          say(asked || "This browser does not notify you. The page says it when a device is ready.");
          element.remove();
        }),
      ];
    }

    function card(ticket, old) {
      const element = old || made("article", "", "dra-ticket");
      if (!old) {
        element.append(made("h2", "", ""), made("p", "", ""), made("div", "", ""));
      }
      const [headline, sentence, buttons] = element.children;
      setText(headline, headlines[ticket.state](ticket));
      setText(sentence, ticket.sentence);
      if (element.dataset.state !== ticket.state || element.dataset.mark !== mark(ticket)) {
        // Buttons stay while the state does, and so does the focus.
        const hadFocus = buttons.contains(document.activeElement);
        buttons.replaceChildren(...actions(ticket));
        if (hadFocus) {
          buttons.querySelector("button")?.focus();
        }
      }
      element.dataset.state = ticket.state;
      element.dataset.mark = mark(ticket);
      element.dataset.choice = ticket.choice;
      return element;
    }

    function show() {
      const hiddenMarks = hiddenOnes();
      const shown = tickets.filter(
        (each) => Object.hasOwn(headlines, each.state) && !(each.state === "missed" && hiddenMarks.includes(mark(each))),
      );
      const inQueue = (element) => place.contains(element) || tell.contains(element);
      const hadFocus = inQueue(document.activeElement);
      const old = new Map([...list.children].map((each) => [each.dataset.choice, each]));
      const cards = shown.map((each) => card(each, old.get(each.choice)));
      [...list.children].filter((each) => !cards.includes(each)).forEach((each) => each.remove());
      cards.forEach((each, number) => {
        if (list.children[number] !== each) {
          list.insertBefore(each, list.children[number] || null);
        }
      });
      showOffer(shown);
      place.hidden = !shown.length && (tell.hidden || !place.contains(tell));
      if (hadFocus && (!inQueue(document.activeElement) || document.activeElement.closest("[hidden]"))) {
        const buttons = [...place.querySelectorAll("button"), ...tell.querySelectorAll("button")];
        buttons.find((each) => !each.closest("[hidden]"))?.focus();
      }
      const held = shown.find((each) => each.state === "ready");
      const now = held ? `Ready: ${held.text}` : title;
      if (document.title !== now) {
        document.title = now;
      }
    }

    // The way into the queue

    function showOffer(shown) {
      const offered = isOwnPage ? own || wanted : null;
      const isIn = offered && shown.some((each) => each.choice === offered.choice);
      tell.hidden = !offered || isIn;
      const key = JSON.stringify(offered);
      if (tell.hidden || tell.dataset.key === key) {
        return;
      }
      tell.dataset.key = key;
      const failed = own && !own.is_waiting;
      const about = failed ? `“${own.text}” was not free.` : own ? `“${own.text}” is not free now.` : "Your choice is not free now.";
      const what = "In the queue you need not wait at this page: a device is held for you when it is your turn.";
      const stays = own?.is_waiting ? " Your place stays if this start gives up." : "";
      tell.replaceChildren(
        made("p", `${about} ${what}${stays}`, ""),
        button("Tell me when it is free", "btn-secondary", () => change("PUT", offered.choice)),
      );
    }

    // The form of this page says what is chosen.
    document.addEventListener("dra-spawner-choice", (event) => {
      wanted = event.detail;
      if (wanted?.server) {
        address.searchParams.set("server", wanted.server);
      }
      show();
    });

    // What happens is said

    function say(text) {
      said.textContent = text;
    }

    function sayWhatIsReady() {
      const now = tickets.filter((each) => each.state === "ready");
      const before = ready;
      ready = now.map((each) => each.choice);
      for (const each of now) {
        if (before === null || !before.includes(each.choice)) {
          say(`${headlines.ready(each)}.`);
          if (before !== null || document.visibilityState !== "visible") {
            notify(each);
          }
        }
      }
    }

    function notify(ticket) {
      if (!("Notification" in window) || Notification.permission !== "granted") {
        return;
      }
      try {
        // One for all tabs of the hub.
        const shown = new Notification(headlines.ready(ticket), { tag: `dra-spawner ${mark(ticket)}` });
        shown.onclick = () => window.focus();
      } catch {
        // Some browsers of phones notify by service workers alone; the title and the page say it, too.
      }
    }

    function showProblem(text) {
      setText(problemLine, text);
      problemLine.hidden = !text;
    }

    // The hub

    async function asked(method, choice, limit) {
      const url = new URL(address);
      if (choice !== undefined) {
        url.searchParams.set("choice", choice);
      }
      const response = await fetch(url, {
        method,
        headers: { Accept: "application/json", "X-XSRFToken": data.xsrf },
        cache: "no-store",
        redirect: "error",
        signal: AbortSignal.timeout(limit),
      });
      let answer = {};
      try {
        answer = await response.json();
      } catch {
        // A page of an error.
      }
      return { status: response.status, answer };
    }

    function take(answer) {
      isOwnPage = true;
      tickets = answer.tickets;
      own = answer.own;
      sayWhatIsReady();
      show();
    }

    async function change(method, choice) {
      if (isChanging) {
        return;
      }
      isChanging = true;
      changes += 1;
      try {
        const { status, answer } = await asked(method, choice, limitMilliseconds);
        if (status === 200) {
          showProblem(answer.problem);
          take(answer);
          if (method === "PUT" && refusal) {
            refusal.hidden = true;
          }
          say(method === "PUT" ? "You are in the queue." : "You have left the queue.");
        } else {
          showProblem(answer.problem || "This did not work. Please reload the page, and try again.");
        }
      } catch {
        showProblem("The hub does not answer. Please try again.");
      } finally {
        isChanging = false;
        plan();
      }
    }

    async function start(ticket) {
      if (isChanging) {
        return;
      }
      isChanging = true;
      say(`“${ticket.text}” is being started…`);
      try {
        const { status, answer } = await asked("POST", ticket.choice, startMilliseconds);
        if (status === 200 && answer.address) {
          window.location.assign(answer.address);
          return;
        }
        const busy = status === 429 ? "Too many servers start at the moment. Please try again." : "";
        showProblem(answer.problem || busy || "This did not work. Please try again, or go to Home.");
      } catch {
        showProblem("The hub does not answer. Please try again.");
      }
      isChanging = false;
      plan();
    }

    async function ask() {
      if (isChanging) {
        return;
      }
      const before = changes;
      // What is asked before a change may be answered after it; the change asks again.
      const isOld = () => isChanging || changes !== before;
      let next = document.visibilityState === "visible" ? 1000 * data.every_seconds : hiddenMilliseconds;
      try {
        const { status, answer } = await asked("GET", undefined, limitMilliseconds);
        if (isOld()) {
          return;
        }
        if (status === 200) {
          showProblem(answer.problem);
          take(answer);
          next = tickets.length || own || wanted ? next : Math.max(next, idleMilliseconds);
        } else if (status === 401 || status === 403) {
          // The login is over, or the page is another user's; it is asked again when it is looked at.
          isOwnPage = false;
          tickets = [];
          show();
          return;
        } else {
          next = retryMilliseconds;
          lose();
        }
      } catch {
        if (isOld()) {
          return;
        }
        next = retryMilliseconds;
        lose();
      }
      plan(next);
    }

    // Without an answer the page shows no place; where it had one, it says that it is not known.
    function lose() {
      if (tickets.length) {
        showProblem("Your place in the queue is not known now: the hub does not answer. This page tries again.");
      }
      tickets = [];
      show();
    }

    function plan(milliseconds = 1000 * data.every_seconds) {
      clearTimeout(timer);
      timer = setTimeout(ask, milliseconds);
    }

    // The start of this page is over: what is offered is other than while it waited.
    document.addEventListener("dra-spawner-start-over", () => plan(1000));
    document.addEventListener("dra-spawner-start-news", () => plan(0));
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") {
        plan(0);
      }
    });
    ask();
  });
})();
