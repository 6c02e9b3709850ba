/* The form of the page "What if": asks for a simulation, and says its answer. The page's address holds the question. */

import { ask } from "./actions.js";

const form = document.getElementById("what-if");
const box = document.getElementById("what-if-answer");

function line(tag, text, className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

function questionOf(data) {
  const question = { profile: data.get("profile"), users: Number(data.get("users")) };
  const count = Number(data.get("count"));
  const [by, name] = JSON.parse(data.get("added") || "[]");
  if (count && by) question.added_nodes = [{ [by]: name, count }];
  if (data.get("lost")) question.lost_nodes = [data.get("lost")];
  return question;
}

function show(found) {
  const list = document.createElement("ul");
  list.append(
    line("li", `${found.on_placeholders} on warm placeholders`),
    line("li", `${found.on_ready_nodes} on free capacity of nodes that have the images`),
    line("li", `${found.on_other_nodes} on free capacity of other nodes, which load images first`),
  );
  const refused = document.createElement("ul");
  for (const each of found.not_starting.filter((each) => each.is_lost)) {
    const who = `${each.servers} of the lost servers of ${each.profile}`;
    refused.append(line("li", `${who} cannot start: ${each.because || "the cause is not known"}.`, "unknown"));
  }
  const isGood = found.not_starting.length === 0;
  box.replaceChildren(line("p", found.sentence, isGood ? "good" : "unknown"), ...(refused.children.length ? [refused] : []), list);
}

async function answer() {
  try {
    show(await ask("POST", "api/what-if", questionOf(new FormData(form))));
  } catch (error) {
    box.replaceChildren(line("p", error.message, "unknown"));
  }
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  // The address is one to send to others, and to come back to.
  history.replaceState(null, "", `?${new URLSearchParams(new FormData(form))}`);
  answer();
});
if (form?.dataset.asked !== undefined) answer();
