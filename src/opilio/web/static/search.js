// The search page: results and facets are reloaded in place when a slider moves, and the address changes with them.
"use strict";

const ask = document.getElementById("ask");
const sliders = [...document.querySelectorAll(".weights input[type=range]")];
let latest = 0;
let timer = 0;

function address() {
  const parameters = new URLSearchParams();
  for (const [key, value] of new FormData(ask)) if (value !== "") parameters.append(key, value);
  return ask.action + "?" + parameters;
}

async function refresh() {
  const mine = ++latest;
  const results = document.getElementById("results");
  results.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(address(), { credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (mine !== latest) return; // a later request is under way
    for (const id of ["results", "facets"]) {
      const fresh = page.getElementById(id);
      if (fresh) document.getElementById(id).replaceWith(document.adoptNode(fresh));
    }
    history.replaceState(null, "", address());
  } catch (error) {
    say("The results could not be fetched: " + error.message, true);
  } finally {
    document.getElementById("results").removeAttribute("aria-busy");
  }
}

for (const slider of sliders) {
  slider.addEventListener("input", () => {
    document.querySelector(`output[for=${slider.id}]`).value = slider.value;
    clearTimeout(timer);
    timer = setTimeout(refresh, 120);
  });
}
