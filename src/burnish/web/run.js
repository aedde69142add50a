// One run, drawn from the API's answers. A view is a function from an answer to markup; what is shown is what the
// server last said. Words from outside become text nodes, never HTML.

const RUN_ID = decodeURIComponent(location.pathname.split("/").pop());
const KEY = new URLSearchParams(location.search).get("key") ?? "";
const API = `/burnish/v1/runs/${encodeURIComponent(RUN_ID)}`;

const OVER = new Set(["COMPLETED", "FAILED", "STOPPED"]);
const LOOK_MS = 1000;
const LONGEST_PAUSE_MS = 15000;
const LOG_BYTES = 65536;
const LOG_CHARACTERS = 400000; // older lines leave the page; the whole log is a command away

// -- markup -------------------------------------------------------------------

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== null && child !== ""));
  return node;
}

const $ = (id) => document.getElementById(id);
const show = (id, ...nodes) => $(id).replaceChildren(...nodes);

// -- figures, each with its unit ------------------------------------------------

const count = (number) => Math.round(number).toLocaleString("en");

function span(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes === 0) return `${whole} s`;
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${+(bytes / 1024 ** power).toFixed(1)} ${units[power]}`;
}

const moment = (text) => (text ? new Date(text).toLocaleString() : "");

function secondsLeft(run) {
  const { usage, step, max_steps } = run;
  if (OVER.has(run.status) || !step || max_steps === null || !usage.train_seconds) return null;
  return ((max_steps - step) * usage.train_seconds) / step;
}

// -- views ----------------------------------------------------------------------

function headView(run) {
  const bar = el("progress", { max: run.max_steps ?? 1, "aria-label": "Steps done" });
  if (run.max_steps !== null) bar.value = run.step;
  const why = [run.reason, run.hint].filter(Boolean).join("\n");
  return [
    el("h1", {}, run.name && run.name !== run.id ? run.name : run.id, el("span", { class: `status ${run.status}`, role: "status" }, run.status)),
    el("p", { class: "quiet" }, [run.name && run.name !== run.id ? run.id : "", run.model].filter(Boolean).join(" · ")),
    why ? el("p", { class: `why ${run.status}` }, why) : null,
    run.status === "PENDING" || (OVER.has(run.status) && !run.step) ? null : bar,
  ].filter(Boolean);
}

function numbersView(run) {
  const speed = run.usage.train_seconds ? run.usage.tokens / run.usage.train_seconds : null;
  const left = secondsLeft(run);
  const numbers = [
    ["of " + (run.max_steps === null ? "not yet known" : `${count(run.max_steps)} steps`), count(run.step)],
    ["loss, nats per token", run.loss === null ? null : run.loss.toFixed(4)],
    ["tokens/s", speed === null ? null : count(speed)],
    ["left", left === null ? null : span(left)],
    ["spent training", run.usage.train_seconds ? span(run.usage.train_seconds) : null],
    ["tokens trained over", run.usage.tokens ? count(run.usage.tokens) : null],
  ];
  return numbers.filter(([, figure]) => figure !== null).map(([unit, figure]) =>
    el("div", { class: "number" }, el("b", {}, figure), el("span", {}, unit)));
}

function checkpointsView(checkpoints) {
  const rows = checkpoints.map((each) => el("tr", {},
    el("td", { class: "figure" }, count(each.step)), el("td", { class: "figure" }, size(each.size_bytes)),
    el("td", {}, moment(each.created_at)), el("td", {}, el("code", {}, each.path))));
  const head = ["Step", "Size", "Saved", "Path on the volume"].map((name) => el("th", {}, name));
  return [el("h2", {}, "Checkpoints"),
    el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)))];
}

const PROOF_CHARACTERS = 4000;
const share = (part, whole) => (whole ? `${(100 * part / whole).toFixed(1)} %` : "0 %");
const sum = (counts) => Object.values(counts ?? {}).reduce((total, each) => total + each, 0);
const listed = (counts) => Object.entries(counts ?? {}).map(([what, number]) => `${count(number)} ${what}`).join(", ");

function checkView(report) {
  return [
    el("h2", {}, "What is trained"),
    el("dl", {}, checkFacts(report).filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    report.lint.length ? el("ul", { class: "warnings" }, report.lint.map((each) => el("li", {}, el("b", {}, each.text), ` ${each.reason} `, el("code", {}, each.key)))) : null,
    report.proof.length ? el("details", { open: "" }, el("summary", {}, "Mask proof: the first rows, token by token"), proofView(report.proof)) : null,
  ].filter(Boolean);
}

function checkFacts({ ledger, plan, renderer, comparison, complete }) {
  const secrets = listed(ledger.private.secrets), personal = listed(ledger.private.personal);
  const near = ledger.near_duplicates;
  const lost = (skipped, cut) => count(sum(skipped) + cut);
  return [
    ["Renderer", renderer],
    ["Rows", `${count(ledger.rows_used)} of ${count(ledger.rows_read)} used` +
      (sum(ledger.rows_skipped) ? ` (skipped: ${listed(ledger.rows_skipped)})` : "") + (complete ? "" : "; a part of the data was read")],
    ["Skipped", ledger.skipped.map((row) => `${row.source}: ${row.reason}`).join("\n")],
    ["Tokens", `${count(ledger.trained_tokens)} of ${count(ledger.tokens)} trained (${share(ledger.trained_tokens, ledger.tokens)}), ` +
      `${lost(ledger.tokens_skipped, ledger.tokens_cut)} lost to skipping and cutting, ${share(ledger.padding, ledger.slots)} padding`],
    ["Sources", Object.entries(ledger.sources).map(([name, each]) => `${name}: ${share(each.tokens, ledger.tokens)} of the tokens`).join("\n")],
    ["Repeated rows", `${count(ledger.duplicates.rows)} to the letter, ` + (near ? `${count(near.rows)} nearly` : "near ones not looked for")],
    ["Shared", ledger.shared.map((each) => `${count(each.exact + each.near)} of ${count(each.rows)} rows of ${each.split}`).join("\n")],
    ["Private", [secrets && `likely secrets: ${secrets}`, personal && `personal data: ${personal}`].filter(Boolean).join("\n")],
    ["Plan", plan && `${count(plan.steps)} steps (${count(plan.steps_per_epoch)} to an epoch), ${count(plan.tokens_per_step)} tokens a step on average`],
    ["Stream", comparison && `${comparison.verdict}: ${comparison.reason}`],
  ];
}

function proofView(rows) {
  return [
    el("p", { class: "quiet" }, el("span", { class: "trained" }, "trained"), " ", el("span", { class: "context" }, "context"), "; shades change from token to token, ⏎ ends a line, • covers what looks private"),
    ...rows.map((row, place) => el("figure", {},
      el("figcaption", {}, `${row.source}${sampleOf(rows, place)}: ${count(row.trained.length + row.tokens_left_out)} tokens` + (row.tokens_left_out ? "" : `, ${count(row.trained.filter(Boolean).length)} trained`)),
      el("pre", { class: "proof" }, tokensView(row)))),
  ];
}

function sampleOf(rows, place) {
  const before = rows.slice(0, place).filter((each) => each.source === rows[place].source).length;
  return before ? `, sample ${before + 1}` : "";
}

function tokensView(row) {
  const whole = [...row.pieces.map((piece) => piece.text).join("")]; // by letters, as the ends count them
  const tokens = [];
  let start = 0;
  for (const [place, end] of row.token_ends.entries()) {
    if (start > PROOF_CHARACTERS) break;
    const kind = `${row.trained[place] ? "trained" : "context"}${place % 2 ? " odd" : ""}`;
    if (end > start) tokens.push(el("span", { class: kind }, visible(whole.slice(start, end).join(""))));
    start = end;
  }
  return start < whole.length || row.tokens_left_out ? [...tokens, " …"] : tokens;
}

const visible = (text) => text.replace(/\n/g, "⏎\n").replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g,
  (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);

function aboutView(run) {
  const facts = [
    ["Run", run.id], ["Model", run.model], ["Volume", run.volume], ["Output", run.output_path],
    ["Created", moment(run.created_at)], ["Started", moment(run.started_at)], ["Ended", moment(run.finished_at)],
    ["Attempt", run.attempt > 1 ? String(run.attempt) : ""], ["Data", dataText(run.data)], ["Notes", run.notes.join("\n")],
  ].filter(([, value]) => value);
  return [
    el("h2", {}, "About"),
    el("dl", {}, facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("details", { open: "" }, el("summary", {}, "Config"), el("pre", {}, run.config)),
  ];
}

function dataText(data) {
  if (data.conversations_read === undefined) return "";
  const dropped = Object.entries(data.conversations_dropped ?? {}).map(([reason, number]) => `${count(number)} ${reason}`);
  return `${count(data.conversations_used)} of ${count(data.conversations_read)} conversations` +
    (dropped.length ? ` (left out: ${dropped.join(", ")})` : "") + `, ${count(data.tokens)} tokens in ${count(data.rows)} rows`;
}

function curveView(steps, losses, validated) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = (title) => ({ title: { text: title }, gridcolor: colour("--line"), zeroline: false, automargin: true });
  const trace = {
    x: steps, y: losses, type: "scatter", mode: steps.length < 60 ? "lines+markers" : "lines",
    name: "trained", line: { color: colour("--curve"), width: 2 }, hovertemplate: "step %{x}<br>loss %{y:.4f}<extra></extra>",
  };
  const held = validated.map((loss, place) => [steps[place], loss]).filter(([, loss]) => loss !== null);
  const heldOut = {
    x: held.map(([step]) => step), y: held.map(([, loss]) => loss), type: "scatter", mode: "lines+markers", name: "held out",
    line: { color: colour("--good"), width: 2, dash: "dot" }, hovertemplate: "step %{x}<br>held out %{y:.4f}<extra></extra>",
  };
  const layout = {
    margin: { l: 56, r: 12, t: 8, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("--quiet"), family: "system-ui, sans-serif", size: 12 }, showlegend: held.length > 0,
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" },
    xaxis: { ...axis("step"), tickformat: "d", ...(steps.length < 10 ? { dtick: 1 } : {}) }, yaxis: axis("loss (nats per token)"),
  };
  return [held.length ? [trace, heldOut] : [trace], layout, { displayModeBar: false, responsive: true }];
}

// -- asking ---------------------------------------------------------------------

class Refused extends Error {}

async function ask(path, query = {}) {
  const response = await fetch(`${API}${path}?${new URLSearchParams({ ...query, key: KEY })}`);
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  if (response.status < 500) throw new Refused([body.message ?? `status ${response.status}`, body.hint ?? ""].join(" "));
  throw new Error(`status ${response.status}`);
}

const seen = { attempt: 0, steps: [], losses: [], validated: [], logOffset: -LOG_BYTES, about: "", checkpoints: "", check: "", checkedAt: "" };

async function look() {
  const run = await ask("");
  const log = await ask("/logs", { offset: seen.logOffset, limit: LOG_BYTES });
  seen.logOffset = log.next_offset;
  await readCurve(run);
  drawRun(run);
  appendLog(log.text);
  await readCheckpoints();
  await readCheck(run);
  return OVER.has(run.status) && log.over;
}

async function readCurve(run) {
  if (run.attempt !== seen.attempt) Object.assign(seen, { attempt: run.attempt, steps: [], losses: [], validated: [] }); // it may redo steps
  // The last step again: what was validated after it comes later than its loss.
  for (const series of [seen.steps, seen.losses, seen.validated]) series.pop();
  const metrics = await ask("/metrics", { after_step: seen.steps.at(-1) ?? -1 });
  const series = (name) => metrics.series[name] ?? metrics.steps.map(() => null);
  seen.steps.push(...metrics.steps);
  seen.losses.push(...series("loss/mean"));
  seen.validated.push(...series("val/loss"));
  if (metrics.steps.length) drawCurve();
}

async function readCheck(run) {
  const state = [run.status, run.max_steps].join(); // the report stays; whether the run agrees with it changes with these
  if (state === seen.checkedAt) return;
  const { report } = await ask("/check");
  seen.checkedAt = state;
  const text = JSON.stringify(report);
  if (!report?.ledger || text === seen.check) return;
  seen.check = text;
  $("check").hidden = false;
  show("check", ...checkView(report));
}

async function readCheckpoints() {
  const { checkpoints } = await ask("/checkpoints");
  const text = JSON.stringify(checkpoints);
  if (text === seen.checkpoints) return;
  seen.checkpoints = text;
  $("checkpoints").hidden = checkpoints.length === 0;
  show("checkpoints", ...checkpointsView(checkpoints));
}

// -- drawing --------------------------------------------------------------------

function drawRun(run) {
  const loss = run.loss === null ? "" : `${run.loss.toFixed(3)} · `;
  document.title = `${loss}${run.status} · ${run.name || run.id}`;
  show("head", ...headView(run));
  show("numbers", ...numbersView(run));
  const about = JSON.stringify([run.finished_at, run.started_at, run.attempt, run.data]);
  if (about === seen.about) return; // redrawn only when it changed, so that a selection in it stays
  seen.about = about;
  show("about", ...aboutView(run));
}

function drawCurve() {
  const box = $("curve");
  if (!box.classList.contains("drawn")) box.replaceChildren();
  box.classList.add("drawn");
  Plotly.react(box, ...curveView(seen.steps, seen.losses, seen.validated));
}

function appendLog(text) {
  if (!text) return;
  const box = $("log");
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  box.append(text);
  while (box.textContent.length > LOG_CHARACTERS && box.childNodes.length > 1) box.firstChild.remove();
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function tell(sentence) {
  $("trouble").textContent = sentence;
  $("trouble").hidden = !sentence;
}

async function watch() {
  let pause = LOOK_MS;
  for (;;) {
    try {
      const over = await look();
      tell("");
      if (over) return;
      pause = LOOK_MS;
    } catch (error) {
      if (error instanceof Refused) return tell(error.message);
      pause = Math.min(LONGEST_PAUSE_MS, pause * 2);
      tell(`The server does not answer; asking again every ${Math.round(pause / 1000)} s. The run goes on without it.`);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => seen.steps.length && drawCurve());
watch();
