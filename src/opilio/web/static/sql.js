// The SQL console: keys, names to insert into the statement, earlier statements, the position of an error, and the chart.
"use strict";

(() => {
  const form = document.getElementById("ask");
  const editor = document.getElementById("statement");
  const mayChange = document.getElementById("may-change");
  const KEPT = 30;
  const MAX_LINES = 4;
  const store = `statements ${form.getAttribute("action")}`;

  // -- running

  const earlier = () => {
    try {
      return JSON.parse(localStorage.getItem(store)) || [];
    } catch {
      return [];
    }
  };

  function remember(statement) {
    const kept = [statement, ...earlier().filter((one) => one !== statement)].slice(0, KEPT);
    try {
      localStorage.setItem(store, JSON.stringify(kept));
    } catch {
      // the browser stores nothing: the history is only a convenience
    }
  }

  form.addEventListener("submit", async (event) => {
    const statement = editor.value.trim();
    if (statement) remember(statement);
    if (!mayChange || !mayChange.checked) return; // a plain form request, whose address can be bookmarked
    event.preventDefault();
    try {
      say((await call("POST", form.dataset.change, { sql: statement })).said);
      showEarlier();
    } catch (error) {
      say(error.message, true);
      point(error.message);
    }
  });

  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });

  // -- names and earlier statements

  document.querySelector(".console aside").addEventListener("click", (event) => {
    const button = event.target.closest("button.name");
    if (!button) return;
    editor.setRangeText(button.dataset.name, editor.selectionStart, editor.selectionEnd, "end");
    editor.focus();
  });

  function showEarlier() {
    const list = document.getElementById("earlier");
    const kept = earlier();
    document.getElementById("history").hidden = !kept.length;
    list.replaceChildren(...kept.map((statement) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "name";
      button.textContent = statement.replace(/\s+/g, " ").slice(0, 60);
      button.title = statement;
      button.addEventListener("click", () => {
        editor.value = statement;
        editor.focus();
      });
      item.appendChild(button);
      return item;
    }));
  }

  document.getElementById("forget").addEventListener("click", () => {
    localStorage.removeItem(store);
    showEarlier();
  });

  // -- errors: the name in the message is found in the statement and selected

  function point(message) {
    const named = message.match(/near "([^"]+)"/) || message.match(/"([^"]+)"/) || message.match(/name (\S+) does not exist/);
    if (!named) return "";
    const at = editor.value.toLowerCase().indexOf(named[1].toLowerCase());
    if (at < 0) return "";
    editor.focus();
    editor.setSelectionRange(at, at + named[1].length);
    const before = editor.value.slice(0, at).split("\n");
    return `line ${before.length}, column ${before[before.length - 1].length + 1}`;
  }

  const where = document.getElementById("where");
  if (where) {
    const found = point(editor.dataset.error);
    if (found) where.textContent = ` (${found})`;
  }

  // -- the chart: lines over a time or a number that grows, else bars by the first column

  const columnsOf = (kinds, kind) => kinds.map((one, column) => (one === kind ? column : -1)).filter((column) => column >= 0);
  const number = charts.plain;

  function grows(rows, column) {
    return rows.length > 2 && rows.every((row, at) => row[column] !== null && (!at || row[column] >= rows[at - 1][column]));
  }

  function drawLines(figure, answer, time, value) {
    const { columns, kinds, rows } = answer;
    const isTime = kinds[time] === "time";
    const moment = (text) => Date.parse(/\d:\d\d(\.\d+)?$/.test(text) && !/[+-]\d\d:\d\d$/.test(text) ? `${text.replace(" ", "T")}Z` : text.replace(" ", "T"));
    const at = (row) => (isTime ? moment(String(row[time])) : row[time]);
    const words = columnsOf(kinds, "text");
    const byKey = new Map();
    for (const row of rows) {
      const key = words.map((column) => row[column]).join(" → ");
      if (!byKey.has(key)) byKey.set(key, []);
      byKey.get(key).push(row);
    }
    const sum = (group) => group.values.reduce((total, row) => total + (row[value] || 0), 0);
    const groups = [...byKey].map(([key, values]) => ({ key, values })).sort((a, b) => sum(b) - sum(a));
    const xs = [...new Set(rows.map(at))].sort((a, b) => a - b);
    const show = isTime ? (ms) => new Date(ms).toISOString().slice(xs[xs.length - 1] - xs[0] > 864e5 ? 0 : 11, 19).replace("T", " ") : number;
    const first = xs[0];
    charts.lines(figure, {
      x: { label: `${columns[time]}${isTime ? " (UTC)" : ""}`, show: (x) => show(isTime ? x + first : x) },
      y: { label: columns[value], show: number },
      lines: groups.slice(0, MAX_LINES).map((group) => {
        const found = new Map(group.values.map((row) => [at(row), row[value]]));
        const points = xs.map((x) => [isTime ? x - first : x, found.has(x) ? found.get(x) : words.length ? 0 : null]);
        return { name: group.key || columns[value], points };
      }),
    });
  }

  function draw(answer, value) {
    const figure = document.getElementById("drawn");
    for (const old of figure.querySelectorAll("svg, ul.legend, p.readout, details")) old.remove();
    const { columns, kinds, rows } = answer;
    const time = columnsOf(kinds, "time").concat(columnsOf(kinds, "number").slice(0, 1))
      .find((column) => column !== value && grows(rows, column));
    const words = columnsOf(kinds, "text");
    if (time !== undefined && (kinds[time] === "time" || !words.length)) {
      drawLines(figure, answer, time, value);
      return;
    }
    const named = words.length ? words : [columns.findIndex((_, column) => column !== value)].filter((column) => column >= 0);
    charts.bars(figure, {
      label: named.map((column) => columns[column]).slice(0, 2).join(", ") || "row",
      value: columns[value],
      rows: rows.map((row, at) => [named.slice(0, 2).map((column) => row[column] ?? "–").join(", ") || String(at + 1), row[value] || 0]),
    });
  }

  const given = document.getElementById("answer");
  if (given) {
    const answer = JSON.parse(given.textContent);
    const choice = document.getElementById("drawn-value");
    const numbers = columnsOf(answer.kinds, "number").reverse();
    const time = columnsOf(answer.kinds, "time");
    const values = numbers.length > 1 && !time.length && !columnsOf(answer.kinds, "text").length ? numbers.slice(0, -1) : numbers;
    if (values.length && answer.rows.length > 1) {
      choice.replaceChildren(...values.reverse().map((column) => new Option(answer.columns[column], column)));
      choice.addEventListener("change", () => draw(answer, Number(choice.value)));
      document.getElementById("drawn").hidden = false;
      draw(answer, Number(choice.value));
    }
  }
  showEarlier();
})();
