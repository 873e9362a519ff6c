// Ask: three boxes; the empty one is predicted.
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { answersOf, ofGraph } from "./api.js";
import { Bar, Empty, Failure, JobProgress, Link, Loading, NameBox, Triple, announce, count, exploreOf, percent, plural, show, stopJob, useLoaded, whyOf } from "./parts.js";
import { change, go } from "./state.js";

const PARTS = ["head", "relation", "tail"];
const TITLES = { head: "Head", relation: "Relation", tail: "Tail" };
const DECIDED = { accept: "accepted", skip: "skipped", reject: "rejected" };
const HINTS = { head: "subject", relation: "relation", tail: "object" };

export function Ask({ graph, route, jobs, start }) {
  const asked = Object.fromEntries(PARTS.map((part) => [part, route[part] || null]));
  const given = PARTS.filter((part) => asked[part]);
  const [labels, setLabels] = useState({});
  const k = Number(route.k) || 10;
  const known = route.known !== "0";
  const ready = given.length >= 2;
  const answer = useLoaded(
    async (signal) => ready && answersOf(await ofGraph(graph.id, "/predict", { body: { ...asked, k, known }, signal })),
    [graph.id, asked.head, asked.relation, asked.tail, k, known, graph.calibrated, graph.model],
  );
  const value = ready ? answer.value : null;
  useEffect(() => {
    if (!value) return;
    setLabels((before) => ({ ...before, ...value.names }));
    announce(value.answers.length ? `${plural(value.answers.length, "answer")}, best first: ${show(value.answers[0][value.asked || "tail"])}` : "No answers");
  }, [value]);
  const named = (part) => asked[part] && { name: asked[part], label: labels[asked[part]] || asked[part] };
  const choose = (part) => (match) => {
    if (match) setLabels((before) => ({ ...before, [match.name]: match.label }));
    change({ [part]: match?.name, k: null });
  };
  return html`<div class="stack">
    <h1 class="unseen">Ask</h1>
    <section class="card stack tight" aria-label="Question">
      <form class="question" onSubmit=${(event) => {
        event.preventDefault();
        answer.reload();
      }}>
        ${PARTS.map((part) => html`<${NameBox} key=${part} graph=${graph.id} kind=${part === "relation" ? "relation" : "entity"}
          label=${TITLES[part]} value=${named(part)} onChoose=${choose(part)} placeholder=${given.length === 2 && !asked[part] ? "?" : HINTS[part]} />`)}
        <button class="button primary" disabled=${!ready}>Ask</button>
      </form>
      <p class="muted small">Leave one box empty to predict it, or fill in all three to see how plausible the fact is.</p>
    </section>
    ${!ready && html`<${Examples} graph=${graph} given=${given} />`}
    ${ready && html`<section class="card stack" aria-label="Answers">
      <${Failure} error=${answer.error} retry=${answer.error?.status >= 500 ? answer.reload : null}
        choose=${(name, error) => change({ [PARTS.find((part) => asked[part] === error.details.name) || "head"]: name })} />
      ${answer.loading && !value && !answer.error && html`<${Loading} text="Asking the model" />`}
      ${value && !answer.error && html`<${Answers} graph=${graph} value=${value} named=${named} k=${k} known=${known} jobs=${jobs} start=${start} stale=${answer.loading} />`}
    </section>`}
  </div>`;
}

function ExampleList({ graph, title, examples }) {
  if (!examples.length) return null;
  return html`<p>${title}</p><ul class="examples">${examples.map((one) => html`<li key=${JSON.stringify(one)}>
    <${Link} to=${{ g: graph.id, view: "ask", head: one.head?.name, relation: one.relation?.name, tail: one.tail?.name }} class="button"><${Triple} ...${one} /></${Link}></li>`)}</ul>`;
}

function Examples({ graph, given }) {
  const isWhole = (one) => one.head && one.relation && one.tail;
  const open = graph.examples.filter((one) => !isWhole(one)), known = graph.examples.filter(isWhole);
  return html`<${Empty} title=${given.length ? "Choose one more" : "What would you like to know?"}>
    ${!given.length && html`<${ExampleList} graph=${graph} title=${`Some questions about ${graph.name}:`} examples=${open} />
      <${ExampleList} graph=${graph} title="Known facts, each hidden and then predicted:" examples=${known} />`}
    <p class="small">${count(graph.facts)} facts, ${count(graph.entities)} entities, ${count(graph.relations)} relations. Model: <strong>${graph.model}</strong>.</p>
  </${Empty}>`;
}

function Answers({ graph, value, named, k, known, jobs, start, stale }) {
  const { answers, asked } = value;
  const best = Math.max(...answers.map((one) => one.score), 0.0001);
  const least = Math.min(...answers.map((one) => one.score), 0);
  const bar = (one) => value.calibrated
    ? html`<${Bar} value=${one.probability} kind=${one.known ? "known" : ""} />`
    : html`<${Bar} share=${(one.score - least) / (best - least || 1)} kind=${one.known ? "known" : ""} text=${one.score.toFixed(2)} />`;
  const shown = (one) => one[asked];
  return html`
    <div class="row apart">
      <h2 class="wrap"><${Triple} head=${named("head")} relation=${named("relation")} tail=${named("tail")} /></h2>
      ${asked && html`<label class="check small"><input type="checkbox" checked=${known} onChange=${(event) => change({ known: event.target.checked ? null : "0" }, { replace: true })} />Show known facts</label>`}
    </div>
    <${Calibration} graph=${graph} value=${value} jobs=${jobs} start=${start} />
    ${!answers.length && html`<p class="muted">There are no possible answers.</p>`}
    ${!asked && answers.map((one) => html`<${Verdict} graph=${graph} one=${one} calibrated=${value.calibrated} />`)}
    ${asked && answers.length > 0 && html`<ol class="answers" aria-busy=${stale ? "true" : "false"}>
      ${answers.map((one) => html`<li class="answer" key=${shown(one).name}>
        <span class="rank">${one.rank}</span>
        <span class="name">${asked === "relation" ? html`<strong>${show(shown(one))}</strong>` : html`<${Link} to=${exploreOf(graph.id, shown(one))} title=${`Explore ${show(shown(one))}`}>${show(shown(one))}</${Link}>`}
          ${one.known && html`<span class="tag good">known</span>`}
          ${one.decision && html`<span class=${`tag ${one.decision === "accept" ? "good" : "warn"}`}>${DECIDED[one.decision]}</span>`}</span>
        ${bar(one)}
        <span class="actions"><${Link} to=${whyOf(graph.id, one)} class="button small" aria-label=${`Why ${show(shown(one))}?`}>Why?</${Link}></span>
      </li>`)}
      ${value.none_of_these !== null && value.none_of_these !== undefined && html`<li class="answer">
        <span class="rank" aria-hidden="true">–</span><span class="name muted">none of these: no other entity of this graph</span><${Bar} value=${value.none_of_these} kind="none" /><span class="actions"></span></li>`}
    </ol>`}
    <div class="row apart">
      <p class="muted small">${value.known_left_out > 0 && `${plural(value.known_left_out, "known answer is", "known answers are")} not shown. `}${value.rejected > 0 && `${plural(value.rejected, "rejected answer is", "rejected answers are")} left out. `}${value.trust?.sentence || ""}</p>
      ${asked && answers.length >= k && k < 100 && html`<button type="button" class="button small" onClick=${() => change({ k: k + 20 }, { replace: true })}>More answers</button>`}
    </div>
    ${value.warnings.map((text) => html`<p class="note warn small">${text}</p>`)}`;
}

function Verdict({ graph, one, calibrated }) {
  return html`<div class="stack tight">
    <div class="row">${one.known ? html`<span class="tag good">in the graph; hidden for this prediction</span>` : html`<span class="tag">not in the graph</span>`}
      ${one.decision && html`<span class="tag accent">${DECIDED[one.decision]}</span>`}</div>
    ${calibrated && one.probability !== null && one.probability !== undefined && html`<${Bar} value=${one.probability} />`}
    <p>${one.known ? "With this fact hidden, the" : "The"} model ranks <strong>${show(one.tail)}</strong> ${place(one.tail_rank)} of ${count(graph.entities)} entities as tail, and <strong>${show(one.head)}</strong> ${place(one.head_rank)} as head.</p>
    <div class="row"><${Link} to=${whyOf(graph.id, one)} class="button small">Why?</${Link}
      ><${Link} to=${exploreOf(graph.id, one.head)} class="button small">Explore ${show(one.head)}</${Link}></div>
  </div>`;
}

const place = (rank) => `number ${Math.round(rank).toLocaleString("en")}`;

function Calibration({ graph, value, jobs, start }) {
  const [error, setError] = useState(null);
  if (value.calibrated) return null;
  const running = jobs.find((job) => job.kind === "check" && (job.state === "running" || job.state === "waiting"));
  if (running) return html`<div class="note"><div class="grow"><${JobProgress} job=${running} onStop=${() => stopJob(running)} /><p class="small muted">Answers will then have probabilities.</p></div></div>`;
  return html`<div class="note"><p class="small">These are scores, not probabilities: they only rank the answers. A check hides some known facts, predicts them, and learns how often answers with such scores are right.</p>
    <button type="button" class="button small" onClick=${() => start("check").catch(setError)}>Run the check</button></div>
    <${Failure} error=${error} />`;
}
