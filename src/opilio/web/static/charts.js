// Charts in SVG, each with its legend, a line that describes what is under the pointer, and a table of the same figures.
//
//   charts.lines(figure, { x, y, lines, marks })    x, y: { label, show(value) }; y may have a max
//     lines: [{ name, points: [[x, y or null], ...] }], all with the same x values; at most four
//     marks: [{ x, kind, text }], drawn as upright lines
//   charts.bars(figure, { label, value, rows: [[name, number], ...] })
//
// A chart is drawn into a <figure>, after its caption, and redrawn each time.
"use strict";

const charts = (() => {
  const COLOURS = ["one", "two", "three", "four"];
  const HEIGHT = 230;
  const MARGIN = { top: 18, right: 26, bottom: 40, left: 52 };
  const MAX_BARS = 50;
  const plain = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en"));

  function part(figure, selector, make) {
    let found = figure.querySelector(selector);
    if (!found) {
      found = make();
      figure.appendChild(found);
    }
    return found;
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // The table is made when it is opened, and updated only while it is open.
  function table(figure, heads, rows) {
    const details = part(figure, "details", () => {
      const made = element("details");
      made.appendChild(element("summary", "", "The figures"));
      made.addEventListener("toggle", () => made.fill());
      return made;
    });
    details.fill = () => {
      const old = details.querySelector(".scroll");
      if (old) old.remove();
      if (!details.open) return;
      const scroll = element("div", "scroll tall");
      scroll.tabIndex = 0;
      const shown = scroll.appendChild(element("table"));
      const head = shown.appendChild(element("thead")).appendChild(element("tr"));
      heads.forEach((text, column) => {
        const cell = head.appendChild(element("th", column ? "num" : "", text));
        cell.scope = "col";
      });
      const body = shown.appendChild(element("tbody"));
      for (const row of rows()) {
        const line = body.appendChild(element("tr"));
        row.forEach((text, column) => line.appendChild(element("td", column ? "num" : "", text)));
      }
      details.appendChild(scroll);
    };
    details.fill();
  }

  // An SVG element within another, with attributes and a text.
  function draw(into, tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    into.appendChild(made);
    return made;
  }

  function canvas(figure, height) {
    const width = Math.max(280, figure.clientWidth);
    const svg = figure.querySelector("svg") || draw(figure, "svg", { class: "drawing", role: "img" });
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return { svg, width };
  }

  // A linear scale: from a range of values to a range of places.
  function scale(from, to, start, end) {
    const place = (value) => start + ((value - from) / (to - from || 1)) * (end - start);
    place.value = (at) => from + ((at - start) / (end - start)) * (to - from);
    place.ticks = (count) => ticks(from, to, count);
    return place;
  }

  // About `count` round values: multiples of 1, 2 or 5 times a power of ten.
  function ticks(from, to, count) {
    const rough = (to - from) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.75) || power * 10;
    const first = Math.ceil(from / step);
    return Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
  }

  function legend(figure, items) {
    const list = part(figure, "ul.legend", () => element("ul", "legend"));
    list.replaceChildren(...items.map(([name, className]) => {
      const item = element("li");
      item.appendChild(element("span", `key ${className}`));
      item.appendChild(document.createTextNode(name));
      return item;
    }));
  }

  function axes(svg, x, y, spec, width, height) {
    const down = height - MARGIN.bottom;
    const right = width - MARGIN.right;
    for (const value of y.ticks(4)) {
      draw(svg, "line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) });
      draw(svg, "text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, spec.y.show(value));
    }
    for (const value of x.ticks(Math.max(2, Math.floor(width / 110)))) {
      draw(svg, "text", { x: x(value), y: down + 16, "text-anchor": "middle" }, spec.x.show(value));
    }
    const axis = draw(svg, "g", { class: "axis" });
    draw(axis, "path", { d: `M${MARGIN.left},${MARGIN.top} V${down} H${right}` });
    draw(svg, "text", { x: right, y: height - 4, "text-anchor": "end" }, spec.x.label);
    draw(svg, "text", { x: 2, y: 10 }, spec.y.label);
  }

  // The `d` of a line; it is broken where there is no value.
  function path(points, x, y) {
    let isBroken = true;
    return points.map((point) => {
      if (point[1] === null) {
        isBroken = true;
        return "";
      }
      const step = `${isBroken ? "M" : "L"}${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`;
      isBroken = false;
      return step;
    }).join("");
  }

  function lines(figure, spec) {
    const { svg, width } = canvas(figure, HEIGHT);
    const shown = spec.lines.slice(0, COLOURS.length);
    const values = shown.flatMap((line) => line.points.filter((point) => point[1] !== null).map((point) => point[1]));
    const xs = shown.length ? shown[0].points.map((point) => point[0]) : [];
    const said = part(figure, "p.readout", () => element("p", "readout quiet"));
    said.textContent = "";
    if (!values.length) {
      svg.setAttribute("viewBox", `0 0 ${width} 40`);
      draw(svg, "text", { x: 2, y: 24 }, "Nothing to draw yet.");
      svg.setAttribute("aria-label", "Nothing to draw yet");
      return;
    }
    const low = values.reduce((one, other) => Math.min(one, other), 0);
    const high = values.reduce((one, other) => Math.max(one, other), -Infinity);
    const x = scale(Math.min(0, xs[0]), xs[xs.length - 1] || 1, MARGIN.left, width - MARGIN.right);
    const y = scale(low, spec.y.max || high * 1.05 || 1, HEIGHT - MARGIN.bottom, MARGIN.top);
    axes(svg, x, y, spec, width, HEIGHT);
    const marks = spec.marks || [];
    for (const mark of marks) {
      const kind = /^(run|model|phase)$/.test(mark.kind) ? mark.kind : "other";
      const upright = draw(svg, "g", { class: `mark mark-${kind}`, transform: `translate(${x(mark.x)},0)` });
      draw(upright, "line", { y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom });
      draw(upright, "title", {}, `${mark.kind}: ${mark.text}`);
    }
    shown.forEach((line, place) => draw(svg, "path", { class: `line ${COLOURS[place]}`, d: path(line.points, x, y) }));
    const kinds = ["run", "model", "phase"].filter((kind) => marks.some((mark) => mark.kind === kind));
    if (marks.some((mark) => !kinds.includes(mark.kind))) kinds.push("other");
    legend(figure, [
      ...shown.map((line, place) => [line.name, `key-${COLOURS[place]}`]),
      ...kinds.map((kind) => [kind === "other" ? "notice" : kind, `key-mark mark-${kind}`]),
    ]);
    const last = shown.map((line) => `${line.name} ${spec.y.show(line.points[line.points.length - 1][1])}`).join(", ");
    svg.setAttribute("aria-label", `${spec.y.label} by ${spec.x.label}; at the end: ${last}. The figures are in the table below.`);
    readOut(svg, said, spec, shown, xs, x, marks, width);
    table(figure, [spec.x.label, ...shown.map((line) => line.name)], () => xs.map((at, row) => [
      spec.x.show(at), ...shown.map((line) => spec.y.show(line.points[row][1])),
    ]));
  }

  // What is under the pointer, in words below the chart.
  function readOut(svg, said, spec, shown, xs, x, marks, width) {
    const hair = draw(svg, "line", { class: "hair", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, visibility: "hidden" });
    const area = draw(svg, "rect", {
      class: "catch", x: MARGIN.left, y: MARGIN.top, width: width - MARGIN.left - MARGIN.right,
      height: HEIGHT - MARGIN.top - MARGIN.bottom,
    });
    area.addEventListener("mousemove", (event) => {
      const box = svg.getBoundingClientRect();
      const at = x.value(((event.clientX - box.left) * width) / box.width);
      const row = xs.reduce((best, value, here) => (Math.abs(value - at) < Math.abs(xs[best] - at) ? here : best), 0);
      hair.setAttribute("x1", x(xs[row]));
      hair.setAttribute("x2", x(xs[row]));
      hair.setAttribute("visibility", "visible");
      const near = marks.filter((mark) => Math.abs(x(mark.x) - x(xs[row])) < 4).slice(-2);
      said.textContent = [
        `${spec.x.show(xs[row])} ${spec.x.unit || ""}`.trim(),
        ...shown.map((line) => `${line.name} ${spec.y.show(line.points[row][1])}`),
        ...near.map((mark) => mark.text),
      ].join(" · ");
    });
    area.addEventListener("mouseleave", () => {
      hair.setAttribute("visibility", "hidden");
      said.textContent = "";
    });
  }

  function bars(figure, spec) {
    const rows = spec.rows.slice(0, MAX_BARS);
    const { svg, width } = canvas(figure, 24 * rows.length + 30);
    const left = Math.min(width * 0.4, 12 + 7 * Math.max(...rows.map((row) => String(row[0]).length)));
    const fits = Math.max(4, Math.floor(left / 7));
    const values = rows.map((row) => row[1]);
    const x = scale(Math.min(0, ...values), Math.max(0, ...values) || 1, left, width - 70);
    rows.forEach(([name, value], row) => {
      const line = draw(svg, "g", { transform: `translate(0,${24 * row + 4})` });
      const whole = String(name);
      const label = draw(line, "text", { x: left - 6, y: 14, "text-anchor": "end" }, whole.length > fits ? `${whole.slice(0, fits - 1)}…` : whole);
      draw(label, "title", {}, whole);
      draw(line, "rect", {
        class: "fill-one", x: x(Math.min(0, value)), y: 2, width: Math.max(1, Math.abs(x(value) - x(0))), height: 16,
      });
      draw(line, "text", { x: x(Math.max(0, value)) + 5, y: 14 }, plain(value));
    });
    draw(svg, "text", { x: left, y: 24 * rows.length + 20 }, `${spec.value} by ${spec.label}`);
    svg.setAttribute("aria-label", `${spec.value} by ${spec.label}, ${rows.length} bars. The figures are in the table below.`);
    table(figure, [spec.label, spec.value], () => rows.map((row) => [row[0], plain(row[1])]));
  }

  return { lines, bars, plain };
})();
