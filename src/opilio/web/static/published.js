// Searching a published portal: all words must be in the title, the address or the topic; titles count most.
"use strict";

const MAX_SHOWN = 50;
const index = window.opilioIndex;
const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const rows = index.pages.map(([title, url, topic, file]) => ({
  title, url, file, topic: index.topics[topic] || ["", ""], inTitle: fold(title), inUrl: fold(url),
  inTopic: fold((index.topics[topic] || [""])[0]),
}));

function scoreOf(row, words) {
  let score = 0;
  for (const word of words) {
    const found = (row.inTitle.includes(word) ? 4 : 0) + (row.inTopic.includes(word) ? 2 : 0) + (row.inUrl.includes(word) ? 1 : 0);
    if (!found) return 0;
    score += found;
  }
  return score;
}

function link(text, to, name) {
  const made = document.createElement("a");
  made.textContent = text;
  made.href = to;
  made.className = name;
  return made;
}

function shown(row) {
  const item = document.createElement("li");
  const address = document.createElement("div");
  address.className = "address";
  address.textContent = row.url;
  item.append(link(row.title || row.url, "pages/" + row.file, "title"), address);
  if (row.topic[0]) item.append(link(row.topic[0], "topics/" + row.topic[1], "quiet"));
  return item;
}

function search(text) {
  const words = fold(text).split(/\s+/).filter(Boolean);
  const scored = words.length ? rows.map((row) => [scoreOf(row, words), row]).filter(([score]) => score) : [];
  scored.sort((one, other) => other[0] - one[0]);
  const most = scored.length > MAX_SHOWN ? `, the best ${MAX_SHOWN} shown` : "";
  document.getElementById("count").textContent = words.length ? `${scored.length} pages${most}` : `${rows.length} pages can be searched`;
  document.getElementById("found").replaceChildren(...scored.slice(0, MAX_SHOWN).map(([, row]) => shown(row)));
}

const field = document.getElementById("words");
field.addEventListener("input", () => search(field.value));
field.focus();
search(field.value);
