// The crawl page: live figures; charts and tables are updated while something changes.
"use strict";

(() => {
  const place = document.getElementById("watch");
  const api = place.dataset.api;
  const SERIES_S = 2;
  const MAX_SHARE = 0.1; // of the time is spent on updates

  const number = (value) => Math.round(value).toLocaleString("en");
  // Halves are rounded as the other pages and the commands do: 6.25 % is 6.2%.
  const rounded = (digits) => new Intl.NumberFormat("en", {
    style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven",
  });
  const [percents, tenths] = [rounded(0), rounded(1)];
  const percent = (value) => (value === null ? "–" : percents.format(value));
  const rate = (value) => (value === null ? "-" : tenths.format(value));
  const perSecond = (value) => (value === null ? "-" : String(Number(value.toPrecision(3))));
  const duration = (s) => {
    if (s < 120) return `${Math.round(s)} s`;
    if (s < 7200) return `${Math.round(s / 60)} min`;
    return `${(s / 3600).toFixed(1)} h`;
  };
  const size = (bytes) => {
    const units = ["Bytes", "kB", "MB", "GB", "TB"];
    const step = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
    return `${(bytes / 1000 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
  };
  const SHOWN = {
    pages: number, waiting: number, in_flight: number, hosts: number, recall: percent, harvest: rate,
    relevant: number, harvest_per_request: rate, harvest_per_s: perSecond, recent_harvest: rate,
    pages_per_s: (value) => value.toFixed(1), fetched_bytes: size, elapsed_s: duration,
    limit: (value) => value, eta_s: (value) => (value === null ? "" : `, reached in about ${duration(value)}`),
    model: (value) => value || "nothing yet",
    questions: (value) => `${number(value)} question${value === 1 ? "" : "s"}`,
  };

  const orderOf = (status) => (status.strategy === "sql" ? status.order_by : status.strategy);

  let isRunning = place.dataset.running === "yes";
  let pages = -1;

  function show(status) {
    for (const field of place.querySelectorAll("[data-live]")) {
      const name = field.dataset.live;
      if (name === "limit" && !status.limit) continue; // the limit of the next crawl: the page has it
      const text = name === "strategy" ? orderOf(status) : SHOWN[name](status[name]);
      if (field.textContent !== text) field.textContent = text;
    }
    document.getElementById("questions").hidden = !status.questions;
    const state = !status.running ? "resting" : status.paused ? "paused" : "running";
    const now = { resting: `no crawl runs: ${status.reason}`, paused: "paused", running: "crawling" }[state];
    const tag = document.getElementById("now");
    if (tag.textContent !== now) tag.textContent = now;
    tag.classList.toggle("good", state === "running");
    tag.classList.toggle("quiet", state !== "running");
    for (const form of place.querySelectorAll("form[data-when]")) {
      form.hidden = !form.dataset.when.split(" ").includes(state);
    }
    const changed = status.running !== isRunning;
    if (changed && !status.running && /the crawl runs$/.test(document.getElementById("said").textContent)) say("");
    isRunning = status.running;
    if (changed || status.pages !== pages) {
      pages = status.pages;
      update(changed);
    }
  }

  // -- charts

  const whole = (value) => (value === null ? "–" : number(value));
  function draw(series) {
    const byPages = series.harvest.map((point) => point.pages);
    const marks = (axis) => series.marks.map((mark) => ({ x: mark[axis], kind: mark.kind, text: mark.text }));
    const line = (name, of) => ({ name, points: series.harvest.map((point, row) => [byPages[row], of(point)]) });
    const share = { label: `share, over ${number(series.window_pages)} pages`, show: percent, max: 1 };
    const fetched = { label: "pages fetched", show: whole, unit: "pages" };
    charts.lines(document.getElementById("harvest"), {
      x: fetched, y: share, marks: marks("pages"),
      lines: [line("mean relevance", (point) => point.relevance), line("harvest rate", (point) => point.relevant)],
    });
    charts.lines(document.getElementById("shares"), {
      x: fetched, y: { ...share, max: undefined }, marks: [],
      lines: series.topics.map((name, column) => line(name, (point) => point.topics[column])),
    });
    charts.lines(document.getElementById("speed"), {
      x: { label: "crawling time", show: duration }, y: { label: "per second", show: charts.plain }, marks: marks("s"),
      lines: [
        { name: "pages", points: series.speed.map((point) => [point.s, point.pages_per_s]) },
        { name: "requests", points: series.speed.map((point) => [point.s, point.requests_per_s]) },
      ],
    });
  }

  // -- tables: the page is fetched again, and its parts replace the old ones

  async function renew(atOnce) {
    const response = await fetch(location.href, { credentials: "same-origin" });
    if (!response.ok) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const old of place.querySelectorAll("[data-part]")) {
      if (old.contains(document.activeElement) && document.activeElement !== document.body) continue;
      if (old.querySelector("form[aria-busy]")) continue; // its answer would be shown in a form that is gone
      if (!atOnce && old.matches(":hover") && old.querySelector("button")) continue; // a click must not lock another host
      const now = fresh.querySelector(`[data-part="${old.dataset.part}"]`);
      if (now) old.replaceWith(document.adoptNode(now));
    }
  }

  let isBusy = false;
  let again = false;
  let nextAt = 0;
  async function update(atOnce) {
    if (isBusy || (!atOnce && Date.now() < nextAt)) {
      again = again || atOnce;
      return;
    }
    isBusy = true;
    const began = Date.now();
    try {
      await renew(atOnce);
      draw(await call("GET", `${api}/series`));
    } catch (error) {
      say(error.message, true);
    } finally {
      isBusy = false;
      nextAt = Date.now() + Math.max(SERIES_S * 1000, (Date.now() - began) / MAX_SHARE);
    }
    if (again) {
      again = false;
      update(true);
    }
  }

  place.addEventListener("answered", () => {
    if (place.contains(document.activeElement)) document.activeElement.blur();
    update(true);
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) update(true);
    width = window.innerWidth;
  });

  // A browser keeps few connections to a server: a hidden page closes its own.
  let source = null;
  let isLost = false;
  function listen() {
    if (source) source.close();
    source = null;
    if (document.hidden) return;
    source = new EventSource(`${api}/events`);
    source.addEventListener("message", (event) => show(JSON.parse(event.data)));
    source.addEventListener("open", () => {
      if (isLost) say("");
      isLost = false;
    });
    source.addEventListener("error", () => {
      isLost = true;
      say("The portal does not answer: the figures are the last ones it sent.", true);
    });
  }
  listen();
  document.addEventListener("visibilitychange", listen);
  window.addEventListener("pagehide", () => source && source.close());
})();
