// Training: the selected part of a page, and keys for the list of archetypes.
"use strict";

const take = document.getElementById("take");
const text = document.getElementById("text");

// The selected text, extended to whole words.
function wholeWords(selection) {
  const range = selection.rangeCount ? selection.getRangeAt(0) : null;
  if (!range || range.collapsed || !text.contains(range.commonAncestorContainer)) return "";
  const whole = text.textContent;
  let start = range.startContainer === text.firstChild ? range.startOffset : 0;
  let end = range.endContainer === text.firstChild ? range.endOffset : whole.length;
  while (start > 0 && /\S/.test(whole[start - 1])) start -= 1;
  while (end < whole.length && /\S/.test(whole[end])) end += 1;
  return whole.slice(start, end).trim();
}

if (take && text) {
  const kept = document.getElementById("trim-text");
  take.hidden = false;
  take.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the selection
  take.addEventListener("click", () => {
    const words = wholeWords(window.getSelection());
    if (!words) { say("Select words of the page's text first.", true); return; }
    kept.value = words;
    say(`${words.split(/\s+/).length} words are taken.`);
    kept.focus();
  });
}

const list = document.getElementById("archetypes");
if (list) {
  const items = () => [...list.children];
  let place = -1;
  const go = (step) => {
    const all = items();
    place = Math.max(0, Math.min(all.length - 1, place + step));
    all[place].focus();
  };
  list.addEventListener("focusin", (event) => { place = items().indexOf(event.target.closest("li")); });
  list.addEventListener("answered", (event) => {
    const item = event.target.closest("li");
    item.classList.add("done");
    item.querySelector(".row").replaceChildren(event.detail.said);
    place = items().indexOf(item);
    go(1);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    const verbs = { c: "confirm", r: "reject", t: "trim" };
    if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (verbs[event.key] && place >= 0) {
      const what = items()[place].querySelector(`[data-does=${verbs[event.key]}]`);
      if (what && what.tagName === "FORM") what.requestSubmit();
      else if (what) what.click();
    }
  });
}
