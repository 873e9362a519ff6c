// Review: accept or reject proposed facts one by one, by keyboard, with undo.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { file, ofGraph } from "./api.js";
import { Bar, Empty, Failure, JobProgress, Link, Loading, Triple, announce, count, exploreOf, key, percent, plural, show, stopJob, useLoaded, whyOf } from "./parts.js";
import { change, useKept } from "./state.js";

const PAGE = 50;
const VERDICTS = { accept: { text: "Accept", kind: "good", keys: "a" }, reject: { text: "Reject", kind: "bad", keys: "r" }, skip: { text: "Skip", kind: "", keys: "s" } };
const DONE = { accept: "accepted", reject: "rejected", skip: "skipped" };
const AUDIT_VERDICTS = { accept: { ...VERDICTS.accept, text: "Correct" }, reject: { ...VERDICTS.reject, text: "Wrong" }, skip: VERDICTS.skip };
const AUDIT_DONE = { accept: "correct", reject: "wrong", skip: "skipped" };
const wordsOf = (source) => (source === "audit" ? { verdicts: AUDIT_VERDICTS, done: AUDIT_DONE } : { verdicts: VERDICTS, done: DONE });
const isActive = (job) => job.state === "waiting" || job.state === "running";

export function Review({ graph, route, jobs, start }) {
  const source = route.source === "audit" ? "audit" : "complete";
  const mine = jobs.filter((job) => job.kind === source);
  const active = mine.find(isActive);
  const done = mine.find((job) => job.state === "done");
  const failed = mine[0]?.state === "failed" ? mine[0] : null;
  const [error, setError] = useState(null);
  const run = (settings) => start(source, settings).then(() => setError(null), setError);
  return html`<div class="stack">
    <div class="row apart"><h1>Review</h1>
      <span class="segmented" role="group" aria-label="What to review">
        <button type="button" aria-pressed=${source === "complete" ? "true" : "false"} onClick=${() => change({ source: null, relation: null, at: null })}>New facts</button>
        <button type="button" aria-pressed=${source === "audit" ? "true" : "false"} onClick=${() => change({ source: "audit", relation: null, at: null })}>Doubtful facts</button></span></div>
    ${active && html`<div class="card"><${JobProgress} job=${active} onStop=${() => stopJob(active)} /></div>`}
    <${Failure} error=${error || (failed && !active ? { message: failed.error } : null)} />
    ${!done && !active && html`<div class="card"><${Start} graph=${graph} source=${source} run=${run} /></div>`}
    ${done && html`<${Reviewing} key=${`${source} ${done.id}`} graph=${graph} route=${route} job=${done} source=${source} run=${active ? null : run} />`}
  </div>`;
}

function Start({ graph, source, run, small }) {
  const [top, setTop] = useState("200");
  const [relation, setRelation] = useState("");
  const [minutes, setMinutes] = useState("");
  const form = html`<form class="row" style="align-items:end;justify-content:center" onSubmit=${(event) => {
    event.preventDefault();
    run({ count: Number(top), ...(relation && source === "complete" ? { relations: [relation] } : {}), ...(minutes && source === "audit" ? { minutes: Number(minutes) } : {}) });
  }}>
    <div class="field"><label for="start-count">How many</label><select id="start-count" class="select" value=${top} onChange=${(event) => setTop(event.target.value)}>${["50", "200", "1000", "5000"].map((value) => html`<option value=${value}>${count(value)}</option>`)}</select></div>
    ${source === "complete" && html`<div class="field"><label for="start-relation">Relation</label><select id="start-relation" class="select" style="max-width:240px" value=${relation} onChange=${(event) => setRelation(event.target.value)}>
      <option value="">all</option>${graph.relation_list.map((one) => html`<option value=${one.name}>${show(one)}</option>`)}</select></div>`}
    ${source === "audit" && html`<div class="field"><label for="start-minutes">Minutes</label><select id="start-minutes" class="select" value=${minutes} onChange=${(event) => setMinutes(event.target.value)}>
      <option value="">automatic</option>${["0.2", "1", "5", "20"].map((value) => html`<option value=${value}>${value}</option>`)}</select></div>`}
    <button class="button primary">${small ? "Search again" : source === "audit" ? "Find doubtful facts" : "Find missing facts"}</button></form>`;
  if (small) return form;
  return html`<${Empty} title=${source === "audit" ? "Which known facts look wrong?" : "What is missing?"}>
    <p>${source === "audit" ? "An audit hides the known facts in turn and lists those that the rest of the graph contradicts the most." : "The model ranks the most plausible facts that the graph does not have. You review them one by one; your file is not changed."}</p>${form}</${Empty}>`;
}

function Reviewing({ graph, route, job, source, run }) {
  const [reviewer, keepReviewer] = useKept("reviewer", "");
  const [note, setNote] = useState("");
  const [toast, setToast] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [limit, setLimit] = useState(PAGE);
  const mode = route.mode === "list" ? "list" : "one";
  const state = ["open", "decided", "all"].includes(route.state) ? route.state : "open";
  const least = Number(route.min) || 0;
  const page = useLoaded(
    (signal) => ofGraph(graph.id, "/candidates", { query: { job: job.id, relation: route.relation, min_probability: least || null, state, limit }, signal }),
    [graph.id, job.id, route.relation, least, state, limit],
  );
  const [rows, setRows] = useState([]);
  const [progress, setProgress] = useState(null);
  const [exportable, setExportable] = useState(0);
  const { verdicts, done } = wordsOf(source);
  useEffect(() => {
    if (!page.value) return;
    setRows(page.value.rows);
    setProgress(page.value.progress);
    setExportable(page.value.exportable);
  }, [page.value]);
  const open = rows.filter((row) => state !== "open" || !row.decision);
  const index = mode === "one" ? Math.max(0, Math.min(open.length - 1, Number(route.at) || 0)) : Math.min(open.length - 1, Number(route.at) || 0);
  const current = open[index];
  const undoable = useRef([]);

  const decide = async (row, verdict) => {
    if (busy || !row) return;
    setBusy(true);
    setError(null);
    const body = {
      id: crypto.randomUUID?.() || `${Date.now()}-${Math.random()}`, head: row.head.name, relation: row.relation.name, tail: row.tail.name,
      verdict, source, probability: row.probability, reviewer, note: verdict === "undo" ? "" : note, replaces: row.decision?.id ?? null,
    };
    try {
      const answer = await send(graph.id, body);
      setRows((before) => before.map((one) => (key(one) === key(row) ? { ...one, decision: answer.current } : one)));
      setProgress(answer.progress[source] || progress);
      setExportable(answer.exportable[source]);
      if (verdict === "undo") {
        undoable.current = undoable.current.filter((one) => key(one) !== key(row));
        setToast({ text: "Decision undone." });
      } else {
        undoable.current = [...undoable.current.slice(-99), { ...row, decision: answer.current }];
        setToast({ text: `${done[verdict][0].toUpperCase()}${done[verdict].slice(1)}: ${show(row.head)} — ${show(row.relation)} → ${show(row.tail)}`, row: { ...row, decision: answer.current } });
        setNote("");
        if (state !== "open") change({ at: index + 1 }, { replace: true });
        if (state === "open" && open.length < 6 && page.value && page.value.total > limit) page.reload();
      }
      announce(verdict === "undo" ? "Decision undone" : done[verdict]);
    } catch (problem) {
      setError(problem);
      if (problem.status === 409) page.reload();
    }
    setBusy(false);
  };
  const undo = () => {
    const last = undoable.current[undoable.current.length - 1];
    if (last) decide(last, "undo");
  };
  const actions = useRef({});
  actions.current = { decide, undo, current, index, open };
  useEffect(() => {
    const press = (event) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.altKey) return;
      const { decide: act, undo: back, current: row, index: place, open: list } = actions.current;
      if ((event.ctrlKey || event.metaKey) && event.key === "z") {
        event.preventDefault();
        back();
      } else if (event.ctrlKey || event.metaKey) return;
      else if (event.key === "u") back();
      else if (event.key === "j" || event.key === "ArrowDown") { if (event.key === "j" || mode === "list") { event.preventDefault(); change({ at: Math.min(list.length - 1, place + 1) }, { replace: true }); } }
      else if (event.key === "k" || event.key === "ArrowUp") { if (event.key === "k" || mode === "list") { event.preventDefault(); change({ at: Math.max(0, place - 1) }, { replace: true }); } }
      else for (const [verdict, { keys }] of Object.entries(VERDICTS)) if (event.key === keys) act(row, verdict);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [mode]);
  useEffect(() => {
    if (!toast) return undefined;
    const timer = setTimeout(() => setToast(null), 8000);
    return () => clearTimeout(timer);
  }, [toast]);

  return html`<div class="review">
    <aside class="stack" aria-label="Filters and export">
      <div class="card stack tight">
        ${progress && html`<div class="progress"><div class="row apart small"><strong>${count(progress.decided)} of ${count(progress.total)} reviewed</strong><span class="muted">${count(progress.accepted)} ${done.accept}, ${count(progress.rejected)} ${done.reject}</span></div>
          <progress max=${progress.total || 1} value=${progress.decided} aria-label="Reviewed"></progress></div>`}
        <div class="field"><label for="review-relation">Relation</label><select id="review-relation" class="select" value=${route.relation || ""} onChange=${(event) => change({ relation: event.target.value, at: null }, { replace: true })}>
          <option value="">all</option>${(page.value?.relations || []).map((one) => html`<option key=${one.name} value=${one.name}>${show(one)} (${count(one.count)})</option>`)}</select></div>
        ${page.value?.calibrated && html`<div class="field"><label for="review-min">${source === "audit" ? "Plausibility" : "Probability"} at least ${percent(least)}</label><input id="review-min" type="range" min="0" max="0.95" step="0.05" value=${least} onChange=${(event) => change({ min: Number(event.target.value) || null, at: null }, { replace: true })} /></div>`}
        <div class="field"><span class="label">Show</span><span class="segmented" role="group" aria-label="Which candidates">${[["open", "open"], ["decided", "reviewed"], ["all", "all"]].map(([value, text]) => html`<button type="button" key=${value} aria-pressed=${state === value ? "true" : "false"} onClick=${() => change({ state: value === "open" ? null : value, at: null }, { replace: true })}>${text}</button>`)}</span></div>
        <div class="field"><span class="label">View</span><span class="segmented" role="group" aria-label="Layout">${[["one", "one by one"], ["list", "list"]].map(([value, text]) => html`<button type="button" key=${value} aria-pressed=${mode === value ? "true" : "false"} onClick=${() => change({ mode: value === "one" ? null : value, at: null }, { replace: true })}>${text}</button>`)}</span></div>
        <div class="field"><label for="reviewer">Your name</label><input id="reviewer" class="input" value=${reviewer} placeholder="saved with each decision" maxlength="200" onChange=${(event) => keepReviewer(event.target.value.trim())} /></div>
      </div>
      <${Export} graph=${graph} count=${exportable} source=${source} />
      <details class="card"><summary>Search again</summary><div style="margin-top:16px">${run ? html`<${Start} graph=${graph} source=${source} run=${run} small=${true} />` : html`<p class="muted small">A search is running.</p>`}</div></details>
    </aside>
    <div class="main-part stack">
      <${Failure} error=${error} />
      <${Failure} error=${page.error} retry=${page.reload} />
      ${page.loading && !page.value && html`<div class="card"><${Loading} text="Loading candidates" /></div>`}
      ${page.value && !open.length && !page.loading && html`<div class="card"><${Empty} title=${progress?.decided && state === "open" ? "All done here" : "Nothing to show"}><p>${progress?.decided && state === "open" ? "Every candidate that matches the filters is reviewed. Export the accepted ones, or search for more." : source === "audit" && !progress?.total ? "No known fact looks doubtful." : "No candidate fits these filters."}</p></${Empty}></div>`}
      ${mode === "one" && current && html`<${One} graph=${graph} row=${current} left=${state === "open" ? open.length + (page.value.total - rows.length) : open.length} note=${note} setNote=${setNote} decide=${decide} busy=${busy} undo=${undo} canUndo=${undoable.current.length > 0} source=${source} calibrated=${page.value?.calibrated} />`}
      ${mode === "list" && open.length > 0 && html`<div class="card"><ol>${open.map((row, place) => html`<${ListRow} key=${key(row)} graph=${graph} row=${row} isCurrent=${place === index} decide=${decide} busy=${busy} source=${source} calibrated=${page.value?.calibrated} />`)}</ol>
        ${page.value && page.value.total > rows.length && html`<div style="padding-top:16px"><button type="button" class="button small" onClick=${() => setLimit(limit + PAGE)}>Show more of ${count(page.value.total)}</button></div>`}</div>`}
      <p class="muted small no-print">Keys: <kbd>a</kbd> ${verdicts.accept.text.toLowerCase()}, <kbd>r</kbd> ${verdicts.reject.text.toLowerCase()}, <kbd>s</kbd> skip, <kbd>u</kbd> undo, <kbd>j</kbd> and <kbd>k</kbd> next and previous.</p>
    </div>
    ${toast && html`<div class="toast" role="status"><span class="wrap">${toast.text}</span>${toast.row && html`<button type="button" class="button small" onClick=${() => decide(toast.row, "undo")}>Undo</button>`}</div>`}
  </div>`;
}

// Retries if the connection breaks; the id of a decision keeps it from being counted twice.
async function send(graph, body) {
  for (let turn = 0; ; turn++) {
    try {
      return await ofGraph(graph, "/decisions", { body });
    } catch (error) {
      if (turn >= 2 || (error.status && error.status < 502)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 400 * (turn + 1)));
    }
  }
}

function Measure({ row, calibrated }) {
  if (calibrated && row.probability !== null && row.probability !== undefined) return html`<${Bar} value=${row.probability} />`;
  return html`<span class="muted small number">score ${row.score === null || row.score === undefined ? "–" : row.score.toFixed(2)}</span>`;
}

function Mark({ row, source }) {
  if (!row.decision) return null;
  const kind = { accept: "good", reject: "bad" }[row.decision.verdict] || "";
  return html`<span class=${`tag ${kind}`}>${wordsOf(source).done[row.decision.verdict]}${row.decision.reviewer ? ` by ${row.decision.reviewer}` : ""}</span>`;
}

function One({ graph, row, left, note, setNote, decide, busy, undo, canUndo, source, calibrated }) {
  return html`<article class="card stack candidate" aria-label="Candidate">
    <div class="row apart"><span class="muted small">${plural(left, "candidate")} left</span><${Mark} row=${row} source=${source} /></div>
    <h2 class="wrap"><${Triple} ...${row} /></h2>
    <${Measure} row=${row} calibrated=${calibrated} />
    ${row.reason && html`<p>${row.reason}</p>`}
    <div class="decide">${Object.entries(wordsOf(source).verdicts).map(([verdict, { text, kind, keys }]) => html`<button type="button" key=${verdict} class=${`button ${kind}`} disabled=${busy} onClick=${() => decide(row, verdict)}>${text} <kbd aria-hidden="true">${keys}</kbd></button>`)}</div>
    <div class="row"><button type="button" class="button small" disabled=${busy || !canUndo} onClick=${undo}>Undo</button>
      <${Link} to=${whyOf(graph.id, row)} class="button small">Why?</${Link}></div>
    <div class="field"><label for="review-note">Note</label><input id="review-note" class="input" value=${note} maxlength="2000" placeholder="optional, saved with the decision" onInput=${(event) => setNote(event.target.value)} /></div>
    <div class="context"><${Context} graph=${graph} entity=${row.head} /><${Context} graph=${graph} entity=${row.tail} /></div>
  </article>`;
}

function Context({ graph, entity }) {
  const found = useLoaded((signal) => ofGraph(graph.id, "/entity", { query: { name: entity.name, cap: 4 }, signal }), [graph.id, entity.name]);
  const groups = useMemo(() => (found.value?.groups || []).slice(0, 6), [found.value]);
  return html`<div class="stack tight"><h3 class="wrap"><${Link} to=${exploreOf(graph.id, entity)}>${show(entity)}</${Link}></h3>
    ${!found.value && !found.error && html`<${Loading} text="Loading facts" />`}
    <ul class="small stack tight">${groups.map((group) => html`<li class="wrap" key=${`${group.relation.name} ${group.direction}`}><span class="muted">${group.direction === "in" ? "← " : ""}${show(group.relation)}:</span> ${group.entities.map(show).join(", ")}${group.more > 0 ? ` and ${count(group.more)} more` : ""}</li>`)}</ul></div>`;
}

function ListRow({ graph, row, isCurrent, decide, busy, source, calibrated }) {
  const box = useRef(null);
  useEffect(() => {
    if (isCurrent) box.current?.scrollIntoView({ block: "nearest" });
  }, [isCurrent]);
  return html`<li class="list-row" ref=${box} aria-current=${isCurrent ? "true" : undefined}>
    <span class="stack tight"><span><${Triple} ...${row} /> <${Link} to=${whyOf(graph.id, row)} class="small">why</${Link}> <${Mark} row=${row} source=${source} /></span>${row.reason && html`<span class="small muted">${row.reason}</span>`}</span>
    <${Measure} row=${row} calibrated=${calibrated} />
    <span class="decide">${row.decision ? html`<button type="button" class="button small" disabled=${busy} onClick=${() => decide(row, "undo")}>Undo</button>` : Object.entries(wordsOf(source).verdicts).map(([verdict, { text, kind }]) => html`<button type="button" key=${verdict} class=${`button small ${kind}`} disabled=${busy} onClick=${() => decide(row, verdict)} aria-label=${`${text} ${show(row.head)} ${show(row.relation)} ${show(row.tail)}`}>${text}</button>`)}</span></li>`;
}

// Accepted facts of all searches, not only of the current one; for an audit, the known facts that were found wrong.
function Export({ graph, count: total, source }) {
  const [format, setFormat] = useState("tsv");
  const wrong = source === "audit";
  const address = `/api/v1/graphs/${encodeURIComponent(graph.id)}/export?format=${format}${wrong ? "&verdict=reject" : ""}`;
  const [error, setError] = useState(null);
  useEffect(() => setError(null), [format, source]);
  // Fetched first, because a browser would not show why a download failed.
  const download = async (event) => {
    event.preventDefault();
    try {
      const { blob, name } = await file(address);
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      setError(null);
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<div class="card stack tight"><h2>Export</h2><p class="muted small">${wrong ? "Known facts that were found wrong." : "All accepted facts."} Decisions are saved in <code class="wrap">${graph.decisions_file}</code>.</p>
    <div class="field"><label for="export-format">Format</label><select id="export-format" class="select" value=${format} onChange=${(event) => setFormat(event.target.value)}>
      <option value="tsv">TSV</option><option value="nquads">N-Quads with provenance</option><option value="quickstatements">QuickStatements</option><option value="kgx">KGX edges</option><option value="jsonl">All decisions (JSON lines)</option></select></div>
    ${total || format === "jsonl" ? html`<a class="button" href=${address} download onClick=${download}>Download${format === "jsonl" ? "" : ` (${count(total)})`}</a>` : html`<p class="muted small">Nothing ${wrong ? "found wrong" : "accepted"} yet.</p>`}
    <${Failure} error=${error} /></div>`;
}
