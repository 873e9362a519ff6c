// Health: how far to trust the answers on this graph, the properties of its relations, and the benefit of fitting.
import { html, useMemo, useState } from "../vendor/preact-htm.module.js";
import { api, ofGraph } from "./api.js";
import { Bar, Empty, Failure, JobProgress, Loading, count, percent, plural, show, stopJob, useLoaded } from "./parts.js";

const isActive = (job) => job.state === "waiting" || job.state === "running";

export function Health({ graph, jobs, start, reload }) {
  const report = useLoaded(async (signal) => graph.check && api(`/jobs/${graph.check}/result`, { signal }), [graph.check]);
  return html`<div class="stack">
    <h1>How far to trust the answers on ${graph.name}</h1>
    <p class="muted">${count(graph.facts)} facts, ${count(graph.entities)} entities, ${count(graph.relations)} relations. Model: <strong>${graph.model}</strong>.</p>
    <${Check} graph=${graph} jobs=${jobs} start=${start} result=${report} />
    <${Fit} graph=${graph} jobs=${jobs} start=${start} reload=${reload} report=${graph.check && report.value} />
    <${Schema} graph=${graph} />
  </div>`;
}

// The newest job of a kind: its result, its progress, or its failure.
function useJob(kind, jobs) {
  const mine = jobs.filter((job) => job.kind === kind);
  const active = mine.find(isActive);
  const done = mine.find((job) => job.state === "done");
  const failed = mine[0] && mine[0].state === "failed" ? mine[0] : null;
  const result = useLoaded(async (signal) => done && api(`/jobs/${done.id}/result`, { signal }), [done?.id]);
  return { active, done, failed, result };
}

// Shows the report of the current model only, not checks of other models.
function Check({ graph, jobs, start, result }) {
  const mine = jobs.filter((job) => job.kind === "check");
  const active = mine.find(isActive);
  const failed = mine[0]?.state === "failed" ? mine[0] : null;
  const [error, setError] = useState(null);
  const run = () => start("check").then(() => setError(null), setError);
  return html`<section class="stack" aria-label="Check">
    ${active && html`<div class="card"><${JobProgress} job=${active} onStop=${() => stopJob(active)} /></div>`}
    <${Failure} error=${error || (failed && !active ? { message: failed.error } : null)} retry=${run} />
    ${!graph.check && !active && html`<div class="card"><${Empty} title="Not checked yet"><p>A check hides some of the known facts, predicts them with <strong>${graph.model}</strong>, and counts how often it is right. It also calibrates scores into probabilities.</p>
      <button type="button" class="button primary" onClick=${run}>Run the check</button></${Empty}></div>`}
    ${graph.check && !result.value && !result.error && html`<${Loading} text="Loading the check" />`}
    <${Failure} error=${result.error} retry=${result.reload} />
    ${graph.check && result.value && html`<${Report} report=${result.value} again=${active ? null : run} />`}
  </section>`;
}

function Report({ report, again }) {
  const { overall } = report.summary;
  const relations = report.rows.filter((row) => row.group === "relation");
  const strata = report.rows.filter((row) => row.group === "half-links");
  const [all, setAll] = useState(false);
  const shown = all ? relations : relations.slice(0, 12);
  const figure = (title, estimate, text) => html`<div class="figure"><p class="muted small">${title}</p><p class="big">${text(estimate.value)}</p>
    <p class="muted small">95% interval ${text(Math.max(0, estimate.low))} to ${text(Math.min(1, estimate.high))}</p></div>`;
  return html`
    <div class="figures">
      ${figure("right answer first", overall["hits@1"], percent)}
      ${figure("right answer among the first ten", overall["hits@10"], percent)}
      ${figure("mean reciprocal rank", overall.mrr, (value) => value.toFixed(2))}
      <div class="figure"><p class="muted small">hidden facts</p><p class="big">${count(report.summary.hidden_facts)}</p><p class="muted small">random guesses: ${percent(report.summary["random_hits@10"])} in the first ten</p></div>
    </div>
    <div class="card stack">
      <p>${report.summary.sentence}</p>
      <p class="muted small">True facts that are missing from the graph count as errors here, so the true figures are higher.</p>
      ${report.warnings.map((text) => html`<p class="note warn small">${text}</p>`)}
      ${report.summary.comparison && html`<p class="small">${report.summary.comparison}</p>`}
      ${again && html`<div><button type="button" class="button small" onClick=${again}>Check again</button></div>`}
    </div>
    <div class="card stack"><h2>By relation</h2><p class="muted small">How often the right answer comes first, with its 95% interval, and the number of hidden facts.</p>
      <div>${shown.map((row) => html`<${ChartRow} key=${row.name} row=${row} />`)}</div>
      ${relations.length > 12 && html`<div><button type="button" class="button small" onClick=${() => setAll(!all)}>${all ? "Fewer" : `${relations.length - 12} more relations`}</button></div>`}
    </div>
    ${strata.length > 1 && html`<div class="card stack"><h2>By what is known about the two ends</h2><div>${strata.map((row) => html`<${ChartRow} key=${row.name} row=${row} />`)}</div></div>`}
    <${Curve} report=${report} />`;
}

function ChartRow({ row }) {
  const low = Math.max(0, row["hits@1_low"] ?? 0), high = Math.min(1, row["hits@1_high"] ?? 0);
  return html`<div class="chart-row"><span class="what">${row.name}</span>
    <span class="plot" aria-hidden="true"><span class="value" style=${{ width: `${100 * row["hits@1"]}%` }}></span>
      ${row.facts > 1 && html`<span class="range" style=${{ left: `${100 * low}%`, width: `${100 * Math.max(0, high - low)}%` }}></span>`}</span>
    <span class="num"><strong>${percent(row["hits@1"])}</strong> <span class="muted small">of ${count(row.facts)}</span></span></div>`;
}

function Curve({ report }) {
  const curve = report.summary.calibration;
  if (!curve || !curve.scores || curve.scores.length < 2) return null;
  const low = curve.scores[0], high = curve.scores[curve.scores.length - 1];
  const x = (value) => 36 + (264 * (value - low)) / (high - low || 1), y = (value) => 212 - 196 * value;
  const line = curve.scores.map((score, index) => `${index ? "L" : "M"}${x(score).toFixed(1)},${y(curve.probabilities[index]).toFixed(1)}`).join("");
  return html`<div class="card stack"><h2>From scores to probabilities</h2>
    <div class="row" style="align-items:flex-start;gap:24px"><figure class="curve-box grow" style="min-width:240px"><svg viewBox="0 0 320 240" role="img" aria-label=${`Probability rises from ${percent(curve.probabilities[0])} at a score of ${low.toFixed(1)} to ${percent(curve.probabilities.at(-1))} at ${high.toFixed(1)}`}>
      <path class="axis" d="M36,16V212H304" /><path class="curve" d=${line} />
      <text x="30" y="20" text-anchor="end">1</text><text x="30" y="216" text-anchor="end">0</text><text x="170" y="234" text-anchor="middle">score</text><text x="36" y="228">${low.toFixed(1)}</text><text x="300" y="228" text-anchor="end">${high.toFixed(1)}</text></svg></figure>
      <p class="grow muted small" style="min-width:200px">How often answers with a given score were right if a fact was hidden, learned from ${count(curve.answers)} answers.${curve.error !== null && curve.error !== undefined ? ` On held-out answers, probabilities are off by ${(100 * curve.error).toFixed(1)} points on average.` : ""}</p></div></div>`;
}

// The benefit of fitting: the current model next to the fitted one, once that is measured.
function Fit({ graph, jobs, start, reload, report }) {
  const { active, done, failed, result } = useJob("fit", jobs);
  const [minutes, setMinutes] = useState("2");
  const [error, setError] = useState(null);
  const run = () => start("fit", { minutes: Number(minutes) }).then(() => setError(null), setError);
  const measure = () => start("check", { fit: Number(minutes) }).then(() => setError(null), setError);
  const checking = jobs.some((job) => job.kind === "check" && isActive(job));
  const fitted = done && result.value;
  return html`<section class="card stack" aria-label="Fit"><h2>How much fitting would help</h2>
    <p>The shipped model has never seen this graph. Fitting learns from its facts: it hides some of them, predicts them with rules, embeddings and the shipped model, and weights each component by how well it recovers them.</p>
    ${fitted ? html`<${Brought} fitted=${fitted} />` : html`<${Expected} report=${report} measure=${checking ? null : measure} />`}
    ${graph.models.length > 1 && html`<${ModelChoice} graph=${graph} reload=${reload} />`}
    ${active ? html`<${JobProgress} job=${active} onStop=${() => stopJob(active)} />` : html`<form class="row" style="align-items:end" onSubmit=${(event) => {
      event.preventDefault();
      run();
    }}><div class="field"><label for="fit-minutes">Minutes</label><select id="fit-minutes" class="select" value=${minutes} onChange=${(event) => setMinutes(event.target.value)}>${["0.5", "1", "2", "5", "10"].map((value) => html`<option value=${value}>${value}</option>`)}</select></div>
      <button class=${`button ${done ? "" : "primary"}`}>${done ? "Fit again" : "Fit"}</button></form>`}
    <${Failure} error=${error || (failed && !active ? { message: failed.error } : null)} retry=${run} />
  </section>`;
}

// Before a fit: the current model and baselines; if that was measured, the model and a fitted one on other facts.
function Expected({ report, measure }) {
  if (!report) return html`<p class="muted small">Run the check first to see how good the current answers are.</p>`;
  const rows = (group) => report.rows.filter((row) => row.group === group);
  const bars = [...rows("floor").map((row) => [row.name, row.mrr]), ["now", report.summary.overall.mrr.value], ...[...rows("not fitted"), ...rows("fitted")].map((row) => [row.name, row.mrr])];
  return html`<div class="stack tight"><p class="muted small">Mean reciprocal rank of hidden facts; 1 is perfect.</p>
    <div class="versus">${bars.map(([name, value]) => html`<span>${name}</span><${Bar} value=${value} text=${value.toFixed(2)} />`)}
      ${!rows("fitted").length && html`<span class="muted">fitted</span><span class="row"><span class="muted small">not measured yet</span>
        ${measure && html`<button type="button" class="button small" onClick=${measure}>Measure it</button>`}</span>`}</div></div>`;
}

function Brought({ fitted }) {
  const rows = fitted.rows;
  const names = { "zero-shot": "network alone", mixed: "fitted: all combined" };
  const named = (part) => names[part] || (part.endsWith("+rules") ? "as shipped" : part);
  const bars = rows.filter((row) => typeof row.mrr === "number").map((row) => [named(row.component), row.mrr]);
  const columns = rows.length ? Object.keys(rows[0]).filter((name) => rows.some((row) => row[name] !== null)) : [];
  return html`<div class="stack">
    <p class="note good">${fitted.summary.sentence}</p>
    <div class="versus">${bars.map(([text, value]) => html`<span>${text}</span><${Bar} value=${value} text=${value.toFixed(2)} />`)}</div>
    ${columns.length > 0 && html`<details><summary>Components</summary><div class="table-box" tabindex="0" role="region" aria-label="Components"><table><caption class="unseen">Components</caption><thead><tr>${columns.map((name) => html`<th class=${typeof rows[0][name] === "number" ? "right" : ""}>${name.replaceAll("_", " ")}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${columns.map((name) => html`<td class=${typeof row[name] === "number" ? "right" : "wrap"}>${cell(row[name])}</td>`)}</tr>`)}</tbody></table></div></details>`}</div>`;
}

const cell = (value) => (typeof value === "number" && !Number.isInteger(value) ? value.toFixed(3) : value === true ? "yes" : value === false || value === null || value === undefined ? "" : String(value));

function ModelChoice({ graph, reload }) {
  const [error, setError] = useState(null);
  const use = (model) => ofGraph(graph.id, "/model", { method: "PUT", body: { model } }).then(reload, setError);
  return html`<div class="row"><span class="muted small">Answer with</span><span class="segmented">${graph.models.map((model) => html`<button type="button" key=${model.id} aria-pressed=${model.name === graph.model ? "true" : "false"} onClick=${() => use(model.id)}>${model.name}</button>`)}</span><${Failure} error=${error} /></div>`;
}

const PROPERTIES = { functional: "one tail per head", "inverse functional": "one head per tail", symmetric: "both ways", "one-way": "one way only", irreflexive: "never to itself", inverse: "inverse of", duplicate: "same as" };

function Schema({ graph }) {
  const found = useLoaded((signal) => ofGraph(graph.id, "/schema", { signal }), [graph.id]);
  const [all, setAll] = useState(false);
  const rows = useMemo(() => {
    const statements = new Map();
    for (const one of found.value?.rows || []) statements.set(one.relation, [...(statements.get(one.relation) || []), one]);
    return (found.value?.summary.relations || []).map((row) => ({ ...row, statements: statements.get(row.relation) || [] }));
  }, [found.value]);
  const shown = all ? rows : rows.slice(0, 12);
  const kinds = (list) => list.slice(0, 2).map((kind) => `${kind.kind} ${percent(kind.share)}`).join(", ");
  return html`<section class="card stack" aria-label="Schema"><h2>Properties of the relations</h2>
    ${found.loading && !found.value && html`<${Loading} text="Reading the schema" />`}
    <${Failure} error=${found.error} retry=${found.reload} />
    ${rows.length > 0 && html`<div class="table-box" tabindex="0" role="region" aria-label="Relations"><table><thead><tr><th>relation</th><th class="right">facts</th><th>properties</th><th>heads</th><th>tails</th></tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row.relation}><td class="wrap"><strong>${row.relation}</strong></td><td class="right">${count(row.facts)}</td>
        <td><span class="chips">${row.statements.map((one) => html`<span class="tag" title=${`${count(one.support)} of ${count(one.cases)} cases`}>${PROPERTIES[one.holds] || one.holds}${one.other ? ` ${one.other}` : ""} ${percent(one.cases ? one.support / one.cases : 0)}</span>`)}</span></td>
        <td class="wrap small muted">${kinds(row.head_kinds)}</td><td class="wrap small muted">${kinds(row.tail_kinds)}</td></tr>`)}</tbody></table></div>`}
    ${rows.length > 12 && html`<div><button type="button" class="button small" onClick=${() => setAll(!all)}>${all ? "Fewer" : plural(rows.length - 12, "more relation")}</button></div>`}
  </section>`;
}
