(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("dra-spawner-form-data").textContent);
  const list = document.querySelector(".dra-spawner-form");
  const ageLine = document.querySelector(".js-availability-age");
  const lostLine = document.querySelector(".js-connection");
  const notKnown = { state: "unknown", label: "not known", sentence: "" };
  // The hub's answer is a second old, as a rule: a change is seen within five.
  const askEveryMilliseconds = 3000;
  const pauseMilliseconds = 500;
  // With the pause between questions: a connection that is lost is said within ten seconds.
  const limitMilliseconds = 5000;
  const showAgeFromSeconds = 10;
  const forgetAfterSeconds = 60;
  const mostCombinations = 32;
  // Values of a drop-down with free text: of this form, and of jupyterhub-fancy-profiles.
  const freeText = ["unlisted-choice", "unlisted_choice", "--extra-selectable-item"];

  const waitingStates = ["waits", "needs-node", "when-stopped", "closed"];

  const fieldName = (slug, option) => `profile-option-${slug}--${option}`;

  // What is chosen

  // The field of an option: a drop-down here, a hidden input in other forms.
  function field(slug, option) {
    return document.getElementById(fieldName(slug, option)) || document.getElementsByName(fieldName(slug, option))[0];
  }

  function nameWith(slug, choices) {
    const others = data.profiles[slug]
      .filter(([option, standard]) => choices[option] !== undefined && choices[option] !== standard)
      .map(([option]) => `${option}=${choices[option]}`);
    return others.length ? `${slug}/${others.join(",")}` : slug;
  }

  // The name of the combination that is chosen in a profile, with another choice of one option; null with free text.
  function chosenName(slug, other = {}) {
    const choices = {};
    for (const [option] of data.profiles[slug]) {
      const value = other[option] ?? field(slug, option)?.value;
      if (freeText.includes(value)) {
        return null;
      }
      choices[option] = value || undefined;
    }
    return nameWith(slug, choices);
  }

  // The form itself

  function choose(profile) {
    const radio = profile.querySelector("input[name=profile]");
    if (!radio.checked) {
      radio.checked = true;
      radio.dispatchEvent(new Event("change", { bubbles: true }));
    }
  }

  // Either the drop-down or the free text is sent.
  function showFreeText(select) {
    const container = select.closest(".js-options-container");
    const input = container.querySelector(".js-other-input");
    if (!input) {
      return;
    }
    const isFree = select.value === "unlisted-choice";
    container.querySelector(".js-other-input-container").hidden = !isFree;
    input.toggleAttribute("name", isFree);
    select.toggleAttribute("name", !isFree);
    (isFree ? input : select).setAttribute("name", isFree ? input.dataset.name : select.id);
    input.disabled = !isFree;
  }

  if (list) {
    list.addEventListener("change", (event) => {
      const profile = event.target.closest(".js-profile");
      if (event.target.matches(".js-profile-option-select")) {
        showFreeText(event.target);
        choose(profile);
      }
      if (data.choices) {
        show();
        askForCombinations();
      }
    });
    list.addEventListener("input", (event) => {
      if (event.target.matches(".js-other-input")) {
        choose(event.target.closest(".js-profile"));
      }
    });
    // A click anywhere in a profile chooses it, and so does opening a drop-down by the keyboard.
    list.addEventListener("click", (event) => {
      const profile = event.target.closest(".js-profile");
      if (profile && !event.target.closest("a")) {
        choose(profile);
      }
    });
    list.addEventListener("keydown", (event) => {
      if (event.target.matches(".js-profile-option-select") && ["Enter", " "].includes(event.key)) {
        choose(event.target.closest(".js-profile"));
      }
    });
    list.querySelectorAll(".js-profile-option-select").forEach(showFreeText);
  }
  if (!data.choices) {
    return;
  }

  // Availability

  let choices = data.choices;
  let answeredAt = data.age_seconds === null ? null : performance.now() - 1000 * data.age_seconds;
  let asking = null;
  let askedAt = performance.now();
  let askedFor = "";
  let hasAnswer = false;
  let timer = null;
  const plainTexts = new Map();
  const fancyTexts = new Map();
  const fancyShown = new WeakMap();

  const availability = (name) => (name !== null && Object.hasOwn(choices, name) ? choices[name] : notKnown);
  const ageSeconds = () => (answeredAt === null ? null : (performance.now() - answeredAt) / 1000);

  // As in dra-times.js; a page of an administrator may lack it.
  const localTimes = window.draSpawnerTimes ?? ((text) => text);

  function setText(element, text) {
    const shown = localTimes(text);
    if (element.textContent !== shown) {
      element.textContent = shown;
    }
  }

  // What follows the text of a choice, beside what is chosen of the other options.
  function labelOf(slug, option, choice) {
    const name = chosenName(slug, { [option]: choice });
    const isAsked = name !== null && (Object.hasOwn(choices, name) || Object.hasOwn(data.choices, name));
    return isAsked ? data.separator + availability(name).label : "";
  }

  function showProfile(profile) {
    const slug = profile.dataset.profile;
    const found = availability(chosenName(slug));
    const isChosen = profile.querySelector("input[name=profile]").checked;
    const badge = profile.querySelector(".js-availability");
    badge.dataset.state = found.state;
    if (isChosen) {
      badge.setAttribute("aria-live", "polite");
    } else {
      badge.removeAttribute("aria-live");
    }
    setText(badge, found.label);
    const isSaid = found.state === "never" && found.label !== "never";
    setText(profile.querySelector(".js-sentence"), isSaid ? "" : found.sentence);
    for (const select of profile.querySelectorAll(".js-profile-option-select")) {
      for (const option of select.options) {
        if (plainTexts.has(option)) {
          setText(option, plainTexts.get(option) + labelOf(slug, select.dataset.option, option.value));
        }
      }
    }
  }

  // jupyterhub-fancy-profiles: a profile's label stands below the description. React makes the texts of choices while a
  // drop-down is open, from what they were when the page was opened; those are replaced here. A screen reader is told
  // them by React, so it hears the labels of that moment.
  function showFancyProfile(slug) {
    const place = document.getElementById(`profile-option-${slug}-label`);
    if (!place) {
      return;
    }
    let badge = place.querySelector(".dra-availability");
    if (!badge) {
      badge = document.createElement("span");
      badge.className = "dra-availability";
      place.append(badge);
    }
    const found = availability(chosenName(slug));
    badge.dataset.state = found.state;
    badge.title = found.sentence;
    setText(badge, found.label);
    data.profiles[slug].forEach(([option]) => showFancyChoices(slug, option));
  }

  function showFancyChoices(slug, option) {
    const texts = fancyTexts.get(fieldName(slug, option));
    const titles = field(slug, option)?.parentElement?.querySelectorAll(".react-select-item-title") ?? [];
    for (const title of texts ? titles : []) {
      const shown = fancyShown.get(title);
      const text = shown && shown.now === title.textContent ? shown.first : title.textContent;
      const choice = texts.get(text);
      if (choice) {
        const now = choice.plain + labelOf(slug, option, choice.value);
        fancyShown.set(title, { first: text, now });
        setText(title, now);
      }
    }
  }

  // The choices of an option by their texts when the page was opened; without those that have the same text.
  function readFancyTexts() {
    for (const { slug, profile_options: options } of window.profileList ?? []) {
      for (const [option, { choices: listed }] of Object.entries(options ?? {})) {
        const texts = new Map();
        for (const [value, { display_name: text }] of Object.entries(listed ?? {})) {
          const end = text.lastIndexOf(data.separator);
          const plain = end < 0 ? text : text.slice(0, end);
          texts.set(text, texts.has(text) ? null : { value, plain });
        }
        fancyTexts.set(fieldName(slug, option), texts);
      }
    }
  }

  function showAge() {
    const age = ageSeconds();
    const isOld = age !== null && age >= showAgeFromSeconds;
    const isUnknown = age === null && hasAnswer && lostLine.hidden;
    ageLine.hidden = !isOld && !isUnknown;
    const unknown = "What is free is not known at the moment. This page asks again every few seconds.";
    setText(ageLine, isOld ? `Availability as of ${Math.round(age)} s ago.` : isUnknown ? unknown : "");
  }

  function showConnection(status) {
    const isOver = status === 401 || status === 403;
    lostLine.hidden = !isOver && status > 0 && status < 500;
    const lost = "The hub does not answer. This page asks again every few seconds.";
    setText(lostLine, lostLine.hidden ? "" : isOver ? "Your login is over. Please reload the page." : lost);
  }

  function show() {
    const age = ageSeconds();
    if (age !== null && age > forgetAfterSeconds) {
      choices = {};
      answeredAt = null;
    }
    if (list) {
      list.querySelectorAll(".js-profile").forEach(showProfile);
    } else {
      Object.keys(data.profiles).forEach(showFancyProfile);
    }
    showAge();
    sayChoice();
  }

  // For the page's own script of the queue: what is chosen, where it is not free now; null for anything else.
  function sayChoice() {
    const slug = document.querySelector("input[name=profile]:checked")?.value;
    const choice = Object.hasOwn(data.profiles, slug) ? chosenName(slug) : null;
    const server = new URL(data.address, window.location.href).searchParams.get("server");
    const detail = waitingStates.includes(availability(choice).state) ? { choice, server } : null;
    document.dispatchEvent(new CustomEvent("dra-spawner-choice", { detail }));
  }

  function valuesOf(slug, option) {
    const choices = list ? field(slug, option).options : (fancyTexts.get(fieldName(slug, option))?.values() ?? []);
    return Array.from(choices, (choice) => choice?.value).filter((value) => value !== undefined);
  }

  // Combinations of options that the page needs: what is chosen in each profile, and what else the chosen profile has.
  function combinations() {
    const names = Object.keys(data.profiles).map((slug) => chosenName(slug));
    const slug = document.querySelector("input[name=profile]:checked")?.value;
    for (const [option] of data.profiles[slug] ?? []) {
      names.push(...valuesOf(slug, option).map((value) => chosenName(slug, { [option]: value })));
    }
    const needed = names.filter((name) => name !== null && !Object.hasOwn(data.choices, name));
    return [...new Set(needed)].slice(0, mostCombinations);
  }

  async function ask() {
    asking?.abort();
    const current = new AbortController();
    asking = current;
    askedAt = performance.now();
    const limit = setTimeout(() => current.abort(), limitMilliseconds);
    let status = 0;
    try {
      const address = new URL(data.address, window.location.href);
      combinations().forEach((name) => address.searchParams.append("name", name));
      const response = await fetch(address, {
        headers: { Accept: "application/json" },
        redirect: "error",
        signal: current.signal,
      });
      status = response.status;
      if (response.ok) {
        const answer = await response.json();
        hasAnswer = true;
        choices = answer.choices;
        answeredAt = answer.age_seconds === null ? null : performance.now() - 1000 * answer.age_seconds;
      }
    } catch {
      // The labels get older, and are not known in the end.
    } finally {
      clearTimeout(limit);
    }
    if (asking === current) {
      asking = null;
      showConnection(status);
      show();
      plan();
    }
  }

  function plan() {
    clearTimeout(timer);
    if (document.visibilityState === "visible") {
      const next = askedAt + askEveryMilliseconds - performance.now();
      timer = setTimeout(ask, Math.max(next, pauseMilliseconds));
    }
  }

  function askForCombinations() {
    const needed = combinations().filter((name) => !Object.hasOwn(choices, name)).join("\n");
    if (needed && needed !== askedFor) {
      ask();
    }
    askedFor = needed;
  }

  if (list) {
    for (const option of list.querySelectorAll("option[data-label]")) {
      const end = option.dataset.label ? data.separator.length + option.dataset.label.length : 0;
      plainTexts.set(option, option.textContent.slice(0, option.textContent.length - end));
    }
  } else {
    // React makes the form after this script, and anew when something is chosen.
    readFancyTexts();
    const root = document.getElementById("form");
    if (root) {
      new MutationObserver(() => {
        Object.keys(data.profiles).forEach(showFancyProfile);
        askForCombinations();
      }).observe(root, {
        characterData: true,
        childList: true,
        subtree: true,
      });
    }
  }
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") {
      show();
      ask();
    } else {
      clearTimeout(timer);
    }
  });
  // A browser may restore what was chosen before the page was left.
  window.addEventListener("pageshow", () => {
    list?.querySelectorAll(".js-profile-option-select").forEach(showFreeText);
    show();
    askForCombinations();
  });
  show();
  askForCombinations();
  plan();
})();
