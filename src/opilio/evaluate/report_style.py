"""How a report looks."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6875; --line: #dde3e9; --ground: #f5f7f9;
  --card: #fff; --good: #0b7a4b; --good-ground: #e4f5ec;
  --bad: #b3401c; --bad-ground: #fbeae4; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5eaf0; --soft: #9aa7b4; --line: #333d48; --ground: #14191f;
  --card: #1c232b;
  --good: #6fd3a5; --good-ground: #15352a; --bad: #f2a284; --bad-ground: #3d221a; --accent: #6fb7e6; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 1340px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; margin: 0 0 1rem; }
h3 { font-size: 1.05rem; margin: 1.2rem 0 .4rem; } h4 { margin: 1rem 0 .2rem; }
.question { font-size: 1.15rem; color: var(--soft); margin: 0 0 1rem; max-width: 60rem; }
.chips { display: flex; flex-wrap: wrap; gap: .4rem; margin: 0 0 1.5rem; padding: 0; }
.chips span { border: 1px solid var(--line); background: var(--card); border-radius: 99px; padding: .1rem .7rem;
  font-size: .85rem; }
section, main > details { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.4rem 1.5rem; margin: 0 0 1.4rem; }
figure { margin: 0 0 1.2rem; background: #fff; border-radius: 8px; padding: .6rem; text-align: center; }
figure img { max-width: 100%; height: auto; }
figcaption { color: #5b6875; font-size: .85rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
tbody th { font-weight: 600; text-align: left; }
td small { display: block; color: var(--soft); font-size: .75rem; } th i { color: var(--soft); font-weight: 400; }
.better { color: var(--good); background: var(--good-ground); }
.worse { color: var(--bad); background: var(--bad-ground); }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--accent); font-weight: 600; }
dt { font-weight: 600; margin-top: .4rem; } dd { margin: 0; color: var(--soft); }
pre { overflow-x: auto; background: var(--ground); padding: .8rem; border-radius: 8px; font-size: .8rem; }
.digest { font-family: ui-monospace, monospace; font-size: .7rem; white-space: normal; word-break: break-all; }
.note { color: var(--soft); font-size: .85rem; margin: .6rem 0 0; }
.missing { color: var(--soft); font-style: italic; }
@media print { body { background: #fff; } section { break-inside: avoid-page; border: none; padding: 0; } }
"""
