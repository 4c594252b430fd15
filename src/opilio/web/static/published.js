// Searching a published portal. The index is a folder of small scripts, which are loaded when a search needs them:
// scripts load from a disk too. Each calls opilioPart; site_index.py writes them, and says what is in them.
"use strict";

const SHOWN = 10, LEAD_CHARS = 60, SNIPPET_CHARS = 240, MIN_PREFIX_CHARS = 3;
const parts = new Map();

window.opilioPart = (name, value) => parts.get(name).resolve(value);

function load(name) {
  if (!parts.has(name)) {
    const part = {};
    part.value = new Promise((resolve, reject) => Object.assign(part, { resolve, reject }));
    parts.set(name, part);
    const script = document.createElement("script");
    script.src = `search/${name}.js`;
    script.onerror = () => part.reject(new Error(`search/${name}.js cannot be loaded`));
    document.head.append(script);
  }
  return parts.get(name).value;
}

// -- words, as site_index.words_of has them

const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

function wordsOf(text, unspaced) {
  const run = new RegExp(`[${unspaced}]+|(?:(?![${unspaced}])[\\p{L}\\p{N}])+`, "gu");
  return [...fold(text).matchAll(run)].flatMap(([word]) => {
    if (word.length < 2 || !new RegExp(`[${unspaced}]`).test(word)) return [word];
    return [...word.slice(1)].map((_, at) => word.slice(at, at + 2));
  });
}

// English endings, and what stands in their place in the plain form of a word.
const ENDINGS = [
  [/ies$/, "y"], [/(s|x|z|ch|sh|o)es$/, "$1"], [/s$/, ""], [/ied$/, "y"],
  [/ed$/, ""], [/ed$/, "e"], [/(.)\1ed$/, "$1"], [/ing$/, ""], [/ing$/, "e"], [/(.)\1ing$/, "$1"],
];

// What the plain form of a word may be. Words that share one count as the same: squeaks, squeaking, squeaked.
function plainForms(word) {
  const forms = ENDINGS.map(([ending, instead]) => word.replace(ending, instead));
  return new Set([word, ...forms.filter((form) => form.length >= MIN_PREFIX_CHARS && /[aeiouy]/.test(form))]);
}

// -- finding

// The numbers of the parts of the vocabulary that may have a word, or longer ones that begin with it.
function partsWith(word, first, isPrefix) {
  let at = 0;
  while (at + 1 < first.length && first[at + 1] <= word) at++;
  const found = [at];
  while (isPrefix && at + 1 < first.length && first[at + 1].startsWith(word)) found.push(++at);
  return found;
}

// The scores of the pages that have a word, and the words of the vocabulary that count as it.
async function pagesWith(word, index) {
  const forms = plainForms(word), scores = new Map(), matched = [];
  const isPrefix = word.length >= MIN_PREFIX_CHARS;
  // Other forms of a word begin as a plain one does: stories with stor(y), making with mak(e).
  const starts = new Set([...forms].map((form) => form.length > MIN_PREFIX_CHARS ? form.replace(/[ey]$/, "") : form));
  const numbers = new Set([...starts].flatMap((start) => partsWith(start, index.first, isPrefix)));
  const loaded = await Promise.all([...numbers].map((number) => load(`words/${number}`)));
  for (const [term, ...postings] of loaded.flat()) {
    if (![...starts].some((start) => term.startsWith(start))) continue;
    const isForm = term === word || (isPrefix && [...plainForms(term)].some((form) => forms.has(form)));
    if (!isForm && !(isPrefix && term.startsWith(word))) continue;
    matched.push(term);
    const share = isForm ? 1 : (word.length / term.length) ** 2;  // the longer a word is, the less it is the same one
    for (let at = 0; at < postings.length; at += 2) {
      scores.set(postings[at], (scores.get(postings[at]) || 0) + share * postings[at + 1]);
    }
  }
  return { scores, matched };
}

// Pages by score, best first: those that have all words, or if there are none, those that have some.
async function find(text) {
  const index = await load("index");
  const words = [...new Set(wordsOf(text, index.unspaced))];
  const found = await Promise.all(words.map((word) => pagesWith(word, index)));
  const total = new Map(), hits = new Map();
  for (const { scores } of found) {
    for (const [page, score] of scores) {
      total.set(page, (total.get(page) || 0) + score);
      hits.set(page, (hits.get(page) || 0) + 1);
    }
  }
  const most = Math.max(0, ...hits.values());
  const pages = [...total].filter(([page]) => hits.get(page) === most);
  pages.sort((one, other) => other[1] - one[1] || one[0] - other[0]);
  return {
    words, index, pages: pages.map(([page]) => page), isAll: most === words.length,
    matched: new Set(found.flatMap(({ matched }) => matched)),
  };
}

// -- showing

// The places of words of a text that match: [start, end, ...].
function matchesIn(text, found) {
  const { unspaced } = found.index;
  const run = new RegExp(`[${unspaced}]+|(?:(?![${unspaced}])[\\p{L}\\p{N}\\p{M}])+`, "gu");
  const places = [];
  for (const match of text.matchAll(run)) {
    if (wordsOf(match[0], unspaced).some((word) => found.matched.has(word))) {
      places.push([match.index, match.index + match[0].length]);
    }
  }
  return places;
}

// The window of a text with the most matches: pieces of text, each with whether it matches.
function snippet(text, found) {
  const places = matchesIn(text, found);
  let best = 0, most = 0;
  places.forEach(([start], at) => {
    let count = 0;
    while (at + count < places.length && places[at + count][1] <= start + SNIPPET_CHARS - LEAD_CHARS) count++;
    if (count > most) [best, most] = [start, count];
  });
  const begin = best > LEAD_CHARS ? text.indexOf(" ", best - LEAD_CHARS) + 1 || best : 0;
  let end = Math.min(text.length, begin + SNIPPET_CHARS);
  if (end < text.length && text.lastIndexOf(" ", end) > begin) end = text.lastIndexOf(" ", end);
  return [...(begin ? [["… ", false]] : []), ...pieces(text, begin, end, places), ...(end < text.length ? [[" …", false]] : [])];
}

function pieces(text, begin, end, places) {
  const made = [];
  let at = begin;
  for (const [start, stop] of places) {
    if (start < at || stop > end) continue;
    made.push([text.slice(at, start), false], [text.slice(start, stop), true]);
    at = stop;
  }
  return [...made, [text.slice(at, end), false]];
}

function element(tag, name, ...content) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...content);
  return made;
}

function link(to, name, ...content) {
  const made = element("a", name, ...content);
  made.href = to;
  return made;
}

const marked = (some) => some.map(([text, isMatch]) => (isMatch ? element("mark", "", text) : text));

function thumbnail(page) {
  if (!page.picture) return [];
  const made = element("img", "thumbnail");
  return [Object.assign(made, { src: page.picture, alt: "", loading: "lazy" })];
}

function shown(page, found) {
  const title = page.title || page.url;
  const item = element("li", "", ...thumbnail(page), link(`pages/${page.file}`, "title", ...marked(pieces(title, 0, title.length, matchesIn(title, found)))));
  item.append(element("div", "address", page.url));
  if (page.text) item.append(element("p", "snippet", ...marked(snippet(page.text, found))));
  if (page.topic) item.append(element("div", "quiet", page.topic_file ? link(`topics/${page.topic_file}`, "", page.topic) : page.topic));
  return item;
}

let asked = 0;

async function search(text) {
  const mine = ++asked;
  const found = await find(text);
  if (mine !== asked) return;  // the reader has typed on
  const count = found.pages.length, all = found.index.pages;
  const pages = `${count.toLocaleString("en")} ${count === 1 ? "page" : "pages"}`;
  document.getElementById("count").textContent = !found.words.length
    ? `${all.toLocaleString("en")} pages can be searched: their titles, texts, addresses and topics.`
    : !count ? "No page has any of these words." : found.isAll ? `${pages}.` : `No page has all of these words; ${pages} ${count === 1 ? "has" : "have"} some.`;
  const list = document.getElementById("found"), more = document.getElementById("more");
  list.replaceChildren();
  more.replaceChildren();
  await showMore(found, 0, mine);
}

async function showMore(found, from, mine) {
  const loaded = await Promise.all(found.pages.slice(from, from + SHOWN).map((page) => load(`pages/${page}`)));
  if (mine !== asked) return;
  document.getElementById("found").append(...loaded.map((page) => shown(page, found)));
  const left = found.pages.length - from - SHOWN;
  const button = element("button", "", `Show ${Math.min(SHOWN, left)} more`);
  button.type = "button";
  button.addEventListener("click", () => showMore(found, from + SHOWN, mine));
  document.getElementById("more").replaceChildren(...(left > 0 ? [button] : []));
}

function fail(error) {
  document.getElementById("count").textContent = error.message;
}

const field = document.getElementById("words");
field.value = new URLSearchParams(location.search).get("q") || "";
field.addEventListener("input", () => search(field.value).catch(fail));
field.focus();
search(field.value).catch(fail);
