// The page of clusters: the slider shows its value, and the ticked cards become subtopics.
"use strict";

const range = document.getElementById("k");
const shown = document.getElementById("k-shown");
range.addEventListener("input", () => { shown.textContent = range.value === "0" ? "chosen" : range.value; });

const splitting = document.getElementById("split");
if (splitting) {
  splitting.addEventListener("submit", async (event) => {
    event.preventDefault();
    const clusters = [];
    for (const card of splitting.querySelectorAll("[data-cluster]")) {
      const taken = card.querySelector("input[type=checkbox]");
      const named = card.querySelector("input:not([type=checkbox])");
      if (taken && taken.checked) clusters.push({ name: named.value, ...JSON.parse(card.dataset.cluster) });
    }
    const button = splitting.querySelector("button");
    button.disabled = true;
    const path = encodeURIComponent(splitting.dataset.name);
    try {
      const answer = await call("POST", `/api/c/${path}/split`, { topic: splitting.dataset.topic, clusters });
      sessionStorage.setItem("said", answer.said);
      location.assign(`/c/${path}/teach`);
    } catch (error) {
      say(error.message, true);
      button.disabled = false;
    }
  });
}
