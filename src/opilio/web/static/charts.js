// Charts with D3, each with its legend, a line that describes what is under the pointer, and a table of the same figures.
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

  function canvas(figure, height) {
    const width = Math.max(280, figure.clientWidth);
    let svg = d3.select(figure).select("svg");
    if (svg.empty()) svg = d3.select(figure).append("svg").attr("class", "drawing").attr("role", "img");
    svg.selectAll("*").remove();
    svg.attr("viewBox", `0 0 ${width} ${height}`);
    return { svg, width };
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
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${down})`)
      .call(d3.svg.axis().scale(x).orient("bottom").ticks(Math.max(2, Math.floor(width / 110))).tickFormat(spec.x.show));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left},0)`)
      .call(d3.svg.axis().scale(y).orient("left").ticks(4).tickFormat(spec.y.show));
    svg.append("text").attr("x", width - MARGIN.right).attr("y", height - 4).attr("text-anchor", "end").text(spec.x.label);
    svg.append("text").attr("x", 2).attr("y", 10).text(spec.y.label);
    svg.selectAll("line.grid").data(y.ticks(4)).enter().append("line").attr("class", "grid")
      .attr("x1", MARGIN.left).attr("x2", width - MARGIN.right).attr("y1", y).attr("y2", y);
  }

  function lines(figure, spec) {
    const { svg, width } = canvas(figure, HEIGHT);
    const shown = spec.lines.slice(0, COLOURS.length);
    const values = shown.flatMap((line) => line.points.filter((point) => point[1] !== null).map((point) => point[1]));
    const xs = shown.length ? shown[0].points.map((point) => point[0]) : [];
    const said = part(figure, "p.readout", () => element("p", "readout quiet"));
    said.textContent = "";
    if (!values.length) {
      svg.attr("viewBox", `0 0 ${width} 40`);
      svg.append("text").attr("x", 2).attr("y", 24).text("Nothing to draw yet.");
      svg.attr("aria-label", "Nothing to draw yet");
      return;
    }
    const x = d3.scale.linear().domain([Math.min(0, xs[0]), xs[xs.length - 1] || 1]).range([MARGIN.left, width - MARGIN.right]);
    const y = d3.scale.linear().domain([Math.min(0, d3.min(values)), spec.y.max || d3.max(values) * 1.05 || 1])
      .range([HEIGHT - MARGIN.bottom, MARGIN.top]);
    axes(svg, x, y, spec, width, HEIGHT);
    const marks = spec.marks || [];
    const upright = svg.selectAll("g.mark").data(marks).enter().append("g")
      .attr("class", (mark) => `mark mark-${/^(run|model|phase)$/.test(mark.kind) ? mark.kind : "other"}`)
      .attr("transform", (mark) => `translate(${x(mark.x)},0)`);
    upright.append("line").attr("y1", MARGIN.top).attr("y2", HEIGHT - MARGIN.bottom);
    upright.append("title").text((mark) => `${mark.kind}: ${mark.text}`);
    const draw = d3.svg.line().defined((point) => point[1] !== null).x((point) => x(point[0])).y((point) => y(point[1]));
    shown.forEach((line, place) => {
      svg.append("path").attr("class", `line ${COLOURS[place]}`).attr("d", draw(line.points));
    });
    const kinds = ["run", "model", "phase"].filter((kind) => marks.some((mark) => mark.kind === kind));
    if (marks.some((mark) => !kinds.includes(mark.kind))) kinds.push("other");
    legend(figure, [
      ...shown.map((line, place) => [line.name, `key-${COLOURS[place]}`]),
      ...kinds.map((kind) => [kind === "other" ? "notice" : kind, `key-mark mark-${kind}`]),
    ]);
    const last = shown.map((line) => `${line.name} ${spec.y.show(line.points[line.points.length - 1][1])}`).join(", ");
    svg.attr("aria-label", `${spec.y.label} by ${spec.x.label}; at the end: ${last}. The figures are in the table below.`);
    readOut(svg, said, spec, shown, xs, x, marks, width);
    table(figure, [spec.x.label, ...shown.map((line) => line.name)], () => xs.map((at, row) => [
      spec.x.show(at), ...shown.map((line) => spec.y.show(line.points[row][1])),
    ]));
  }

  // What is under the pointer, in words below the chart.
  function readOut(svg, said, spec, shown, xs, x, marks, width) {
    const hair = svg.append("line").attr("class", "hair").attr("y1", MARGIN.top).attr("y2", HEIGHT - MARGIN.bottom)
      .style("display", "none");
    svg.append("rect").attr("class", "catch").attr("x", MARGIN.left).attr("y", MARGIN.top)
      .attr("width", width - MARGIN.left - MARGIN.right).attr("height", HEIGHT - MARGIN.top - MARGIN.bottom)
      .on("mousemove", function move() {
        const at = x.invert(d3.mouse(this)[0]);
        let row = Math.min(xs.length - 1, d3.bisectLeft(xs, at));
        if (row > 0 && at - xs[row - 1] < xs[row] - at) row -= 1;
        hair.attr("x1", x(xs[row])).attr("x2", x(xs[row])).style("display", null);
        const near = marks.filter((mark) => Math.abs(x(mark.x) - x(xs[row])) < 4).slice(-2);
        said.textContent = [
          `${spec.x.show(xs[row])} ${spec.x.unit || ""}`.trim(),
          ...shown.map((line) => `${line.name} ${spec.y.show(line.points[row][1])}`),
          ...near.map((mark) => mark.text),
        ].join(" · ");
      })
      .on("mouseleave", () => {
        hair.style("display", "none");
        said.textContent = "";
      });
  }

  function bars(figure, spec) {
    const rows = spec.rows.slice(0, MAX_BARS);
    const { svg, width } = canvas(figure, 24 * rows.length + 30);
    const left = Math.min(width * 0.4, 12 + 7 * d3.max(rows, (row) => String(row[0]).length));
    const fits = Math.max(4, Math.floor(left / 7));
    const extent = d3.extent(rows, (row) => row[1]);
    const x = d3.scale.linear().domain([Math.min(0, extent[0]), Math.max(0, extent[1]) || 1]).range([left, width - 70]);
    const line = svg.selectAll("g.bar").data(rows).enter().append("g").attr("transform", (_, row) => `translate(0,${24 * row + 4})`);
    line.append("text").attr("x", left - 6).attr("y", 14).attr("text-anchor", "end")
      .text((row) => (String(row[0]).length > fits ? `${String(row[0]).slice(0, fits - 1)}…` : row[0]))
      .append("title").text((row) => row[0]);
    line.append("rect").attr("class", "fill-one").attr("x", (row) => x(Math.min(0, row[1]))).attr("y", 2)
      .attr("width", (row) => Math.max(1, Math.abs(x(row[1]) - x(0)))).attr("height", 16);
    line.append("text").attr("x", (row) => x(Math.max(0, row[1])) + 5).attr("y", 14).text((row) => plain(row[1]));
    svg.append("text").attr("x", left).attr("y", 24 * rows.length + 20).text(`${spec.value} by ${spec.label}`);
    svg.attr("aria-label", `${spec.value} by ${spec.label}, ${rows.length} bars. The figures are in the table below.`);
    table(figure, [spec.label, spec.value], () => rows.map((row) => [row[0], plain(row[1])]));
  }

  return { lines, bars, plain };
})();
