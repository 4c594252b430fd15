// The wizard shows the fields of the chosen input, and sends only those.
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
  const name = wish.elements.name;
  if (event.target.name === "query" && !name.value) name.value = event.target.value.replace(/[^\w -]/g, "").trim().slice(0, 80);
});
choose();
