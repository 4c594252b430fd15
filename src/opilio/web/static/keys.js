// Keys for reviews and questions: data-key of a button names the keys that press it. The first such button counts.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (document.querySelector("form[aria-busy]")) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
  const button = [...document.querySelectorAll("button[data-key]")]
    .find((one) => one.dataset.key.split(" ").includes(event.key));
  if (button && !button.disabled) {
    event.preventDefault();
    button.click();
  }
});
