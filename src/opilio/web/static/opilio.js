// What all pages share: forms that go to the API as JSON, their results announced, and a few keys.
//
//   <form data-api="POST /api/c/birds/examples" data-then="reload">   fields become one JSON object
//   data-then: "reload", "stay" (the default) or an address to go to; {field} in it is a field of the answer
//   A form that has an action and a method too works without JavaScript; a field with data-skip is for that case only.
//   A field with data-kind="number", "list" (lines), "flag" (checkbox), "file" (its text) or "json" is sent as such.
//   Checkboxes with data-kind="member" and one name become one list: the values of those that are ticked.
//   A form that gets an answer fires the event "answered" with the answer as its detail.
"use strict";

const csrf = document.querySelector("meta[name=csrf]").content;

function say(text, isBad = false) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.toggle("bad", isBad);
  place.hidden = !text;
}

function sentence(text) {
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

async function call(method, path, body) {
  const headers = { "Content-Type": "application/json", "X-Opilio-Csrf": csrf };
  const options = { method, headers, credentials: "same-origin" };
  if (body !== undefined && method !== "GET") options.body = JSON.stringify(body);
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error([answer.error, answer.hint].filter(Boolean).map(sentence).join(" "));
  return answer;
}

async function valueOf(field) {
  switch (field.dataset.kind || field.type) {
    case "number": case "range": return field.value === "" ? null : Number(field.value);
    case "list": return field.value.split("\n").map((line) => line.trim()).filter(Boolean);
    case "flag": case "checkbox": return field.checked;
    case "json": return JSON.parse(field.value);
    case "file": return field.files.length ? await field.files[0].text() : "";
    default: return field.value;
  }
}

async function send(form, submitter) {
  const [method, path] = form.dataset.api.split(" ");
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || "skip" in field.dataset || (field.type === "radio" && !field.checked)) continue;
    if (field.tagName === "BUTTON" && field !== submitter) continue;
    if (field.dataset.kind === "member") {
      body[field.name] = [...(body[field.name] || []), ...(field.checked ? [field.value] : [])];
    } else {
      body[field.name] = await valueOf(field);
    }
  }
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach((button) => { button.disabled = true; });
  form.setAttribute("aria-busy", "true");
  let isLeaving = false; // keys pressed until the next page is shown would apply to this one
  try {
    say(form.dataset.wait || "");
    const answer = await call(method, path, body);
    say(answer.said || "done");
    form.dispatchEvent(new CustomEvent("answered", { detail: answer, bubbles: true }));
    const then = form.dataset.then || "stay";
    isLeaving = then !== "stay";
    if (isLeaving) sessionStorage.setItem("said", answer.said || "");
    if (then === "reload") {
      location.reload();
    } else if (isLeaving) {
      location.assign(then.replace(/\{(\w+)\}/g, (_, key) => encodeURIComponent(answer[key])));
    }
  } catch (error) {
    say(error.message, true);
  } finally {
    if (!isLeaving) {
      buttons.forEach((button) => { button.disabled = false; });
      form.removeAttribute("aria-busy");
    }
  }
}

window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload(); // the page was restored from the history: it may be out of date
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.api) return;
  event.preventDefault();
  send(form, event.submitter);
});

// Feedback: a row with data-feedback shows what was said of it, with an undo, in place of its buttons. A form outside of
// its row names it in data-row. What is refused is greyed.
document.addEventListener("answered", (event) => {
  const form = event.target;
  const row = form.dataset.row ? document.getElementById(form.dataset.row) : form.closest("[data-feedback]");
  if (!row) return;
  const isUndo = "given" in form.dataset;
  const given = row.querySelector("[data-given]");
  row.querySelector("[data-open]").hidden = !isUndo;
  given.hidden = isUndo;
  row.classList.toggle("refused", !isUndo && event.detail.verdict === "irrelevant");
  if (isUndo) return;
  given.querySelector("[data-said]").textContent = event.detail.said;
  const undo = given.querySelector("button");
  undo.form.elements.moment_us.value = event.detail.moment_us;
  undo.focus();
});

// After feedback: how many changes no model has learned yet. The crawl page renews itself.
document.addEventListener("answered", async (event) => {
  const old = document.querySelector("[data-taught]");
  if (!old || old.closest("[data-part]") || !(event.target.dataset.row || event.target.closest("[data-feedback]"))) return;
  const response = await fetch(location.href, { credentials: "same-origin" });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-taught]");
  if (fresh) old.replaceWith(document.adoptNode(fresh));
});

document.addEventListener("keydown", (event) => {
  const find = document.getElementById("find");
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (event.key === "/" && find && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    find.focus();
    find.select();
  }
});

const kept = sessionStorage.getItem("said");
if (kept) {
  sessionStorage.removeItem("said");
  say(kept);
}

// The address that `opilio serve` prints has the token after #, where no server and no log sees it.
const login = document.getElementById("login");
if (login && location.hash.length > 1) {
  login.elements.token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  send(login, null);
}
