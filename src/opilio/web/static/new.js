// The wizard shows the fields of the chosen input, and sends only those. A bookmark file is previewed: its folders can be
// chosen, and its links checked.
"use strict";

const wish = document.getElementById("wish");

function choose() {
  const way = wish.elements.way.value;
  for (const part of wish.querySelectorAll("[data-way]")) {
    part.hidden = part.dataset.way !== way;
    for (const field of part.querySelectorAll("input, textarea")) field.disabled = part.hidden;
  }
}

wish.addEventListener("change", (event) => {
  if (event.target.name === "way") choose();
  if (event.target.id === "bookmarks") preview();
  const name = wish.elements.name;
  if (event.target.name === "query" && !name.value) name.value = event.target.value.replace(/[^\w -]/g, "").trim().slice(0, 80);
});

// -- bookmarks

const bookmarks = document.getElementById("bookmarks");
const folders = document.getElementById("folders");
const checked = document.getElementById("checked");

function element(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
}

function addFolder(folder) {
  const row = document.createElement("label");
  row.className = "folder";
  const box = document.createElement("input");
  box.type = "checkbox";
  box.name = "folders";
  box.dataset.kind = "member";
  box.value = folder.path;
  box.checked = !folder.by_browser;
  row.append(box, " ");
  element("strong", folder.path || "in no folder", row);
  const titles = folder.by_browser ? "filled by the browser itself" : folder.titles.join(", ");
  element("span", ` ${folder.bookmarks} · ${titles}`, row).className = "quiet";
  folders.append(row);
}

async function preview() {
  const place = document.getElementById("preview");
  place.hidden = true;
  folders.replaceChildren();
  checked.replaceChildren();
  if (!bookmarks.files.length) return;
  try {
    const answer = await call("POST", "/api/bookmarks", { bookmarks: await bookmarks.files[0].text() });
    document.getElementById("preview-said").textContent = answer.said + ". Choose what becomes a topic:";
    answer.folders.forEach(addFolder);
    place.hidden = false;
    say("");
  } catch (error) {
    say(error.message, true);
  }
}

function list(title, those) {
  if (!those.length) return;
  element("p", title, checked);
  const places = document.createElement("ul");
  for (const one of those) {
    const item = element("li", one.url, places);
    element("span", ` ${one.detail || one.outcome}`, item).className = "quiet";
  }
  checked.append(places);
}

function settings() {
  const lines = wish.elements.settings.value.split("\n").map((line) => line.trim());
  return lines.filter(Boolean);
}

document.getElementById("check").addEventListener("click", async (event) => {
  const button = event.target;
  button.disabled = true;
  checked.replaceChildren();
  element("p", "Looking at each bookmark ...", checked);
  try {
    const chosen = [...folders.querySelectorAll("input:checked")].map((box) => box.value);
    const answer = await call("POST", "/api/bookmarks/check", { bookmarks: await bookmarks.files[0].text(), folders: chosen, settings: settings() });
    checked.replaceChildren();
    const languages = Object.entries(answer.languages).map(([code, count]) => `${code} ${count}`).join(", ");
    element("p", answer.said + (answer.unchecked ? `, ${answer.unchecked} not checked for lack of time` : "") + (languages ? `. Languages: ${languages}.` : "."), checked);
    if (answer.checked && answer.dead.length === answer.checked) {
      element("p", "None answered. Is this machine connected? If it needs a proxy, name it under More settings: fetch.proxy=...", checked).className = "bad";
    }
    list("Dead; the crawl passes over them:", answer.dead);
    list("Could not be read now:", answer.trouble);
  } catch (error) {
    checked.replaceChildren();
    say(error.message, true);
  } finally {
    button.disabled = false;
  }
});

const given = document.querySelector(`input[name=way][value="${CSS.escape(location.hash.slice(1))}"]`);
if (given) given.checked = true;
choose();
