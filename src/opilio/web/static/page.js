// Loads the similar pages into a page view; without scripts they are one link away.
"use strict";

const similar = document.getElementById("similar");
if (similar) {
  fetch(similar.dataset.from, { credentials: "same-origin" })
    .then((response) => (response.ok ? response.text() : Promise.reject(new Error(String(response.status)))))
    .then((text) => {
      const part = new DOMParser().parseFromString(text, "text/html");
      similar.replaceChildren(...part.body.childNodes);
    })
    .catch(() => { /* the link stays */ });
}
