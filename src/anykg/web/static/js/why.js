// Why: the facts and paths behind an answer, its lead over the runner-up, and the effect of removing them.
import { html, useMemo } from "../vendor/preact-htm.module.js";
import { ofGraph } from "./api.js";
import { Drawing, factId } from "./drawing.js";
import { Bar, Empty, Failure, Link, Loading, Triple, exploreOf, percent, plural, show, useLoaded } from "./parts.js";
import { change } from "./state.js";

export function Why({ graph, route }) {
  const { head, relation, tail } = route;
  const whole = head && relation && tail;
  const found = useLoaded(
    async (signal) => {
      if (!whole) return null;
      const { page, warnings } = await ofGraph(graph.id, "/explain", { body: { head, relation, tail }, signal });
      return { ...page, warnings };
    },
    [graph.id, head, relation, tail, graph.model],
  );
  if (!whole) return html`<${Empty} title="Nothing to explain yet"><p>Ask a question first, then choose “Why?” next to an answer.</p>
    <${Link} to=${{ g: graph.id, view: "ask" }} class="button">Ask</${Link}></${Empty}>`;
  return html`<div class="stack">
    <div class="row"><${Link} to=${{ g: graph.id, view: "ask", head, relation }} class="button small">← Other answers</${Link}>
      <${Link} to=${exploreOf(graph.id, head)} class="button small">Explore ${show(found.value?.head) || head}</${Link}></div>
    <h1 class="wrap">Why <${Triple} head=${found.value?.head || head} relation=${found.value?.relation || relation} tail=${found.value?.tail || tail} />?</h1>
    <${Failure} error=${found.error} retry=${found.error?.status >= 500 ? found.reload : null}
      choose=${(name, error) => change({ [["head", "relation", "tail"].find((part) => route[part] === error.details.name) || "head"]: name })} />
    ${found.loading && !found.error && html`<div class="card"><p class="muted small">Removing facts one at a time and scoring again. This takes a few seconds.</p><${Loading} text="Looking for reasons" /></div>`}
    ${!found.loading && found.value && html`<${Reasons} graph=${graph} why=${found.value} route=${route} />`}
  </div>`;
}

function Reasons({ graph, why, route }) {
  const facts = useMemo(() => {
    const all = new Map();
    const told = [...why.facts, ...why.paths.slice(0, 4).flatMap((path) => path.facts)];
    for (const fact of told.length ? told : why.rules.slice(0, 3).flatMap((rule) => rule.facts)) if (!all.has(factId(fact))) all.set(factId(fact), fact);
    const strongest = why.facts[0] ? [why.facts[0]] : why.paths[0]?.facts || [];
    const strong = new Set(strongest.map(factId));
    return [...all.values()].map((fact) => ({ ...fact, strong: strong.has(factId(fact)) }));
  }, [why]);
  const entities = useMemo(() => {
    const names = new Map();
    for (const fact of facts) for (const end of [fact.head, fact.tail]) if (end.name !== why.head.name && end.name !== why.tail.name) names.set(end.name, end);
    return [...names.values()];
  }, [facts]);
  const shapes = [...new Set(why.paths.map((path) => path.shape))];
  const keep = (path) => (!route.via || path.nodes.some((node) => node.name === route.via)) && (!route.shape || path.shape === route.shape);
  const touches = (fact) => !route.via || fact.head.name === route.via || fact.tail.name === route.via;
  const paths = why.paths.filter(keep);
  const single = why.facts.filter((fact) => touches(fact) && !route.shape);
  const rules = why.rules.filter((rule) => !route.shape && (!route.via || rule.facts.some(touches)));
  const filtered = route.via || route.shape;
  const lit = filtered ? new Set([...paths.flatMap((path) => path.facts), ...single, ...facts.filter((fact) => route.via && touches(fact))].map(factId)) : null;
  const asked = { head: why.head, relation: why.relation, tail: why.tail };
  const toggle = (name, value) => change({ [name]: route[name] === value ? null : value }, { replace: true });
  return html`
    <section class="card stack" aria-label="Summary">
      <div class="row">${why.known && html`<span class="tag good">in the graph; hidden for this explanation</span>`}
        <span class="tag">rank ${why.rank} of ${why.candidates.toLocaleString("en")}</span>${why.probability !== null && why.probability !== undefined && html`<span class="tag accent">${percent(why.probability)} likely</span>`}</div>
      ${why.sentences.map((text) => html`<p>${text}</p>`)}
      ${!why.reliable && html`<p class="note warn small">Removing these facts has no more effect than removing random facts nearby, so do not rely on this explanation.</p>`}
    </section>
    ${facts.length > 0 ? html`<section class="stack tight" aria-label="Drawing">
      ${(entities.length > 1 || shapes.length > 1) && html`<div class="row small why-filters">
        ${entities.length > 1 && html`<label class="row">Only paths through <${Pick} value=${route.via} any="any entity" options=${entities.map((entity) => [entity.name, show(entity)])} onPick=${(value) => change({ via: value }, { replace: true })} /></label>`}
        ${shapes.length > 1 && html`<label class="row">Only paths of shape <${Pick} value=${route.shape} any="any shape" options=${shapes.map((shape) => [shape, shape])} onPick=${(value) => change({ shape: value }, { replace: true })} /></label>`}
        ${filtered && html`<button type="button" class="button small" onClick=${() => change({ via: null, shape: null }, { replace: true })}>Show all</button>`}
      </div>`}
      <${Drawing} asked=${asked} paths=${why.paths} facts=${facts} lit=${lit} onNode=${(name) => entities.some((entity) => entity.name === name) && toggle("via", name)}
        label=${`Drawing of ${plural(facts.length, "fact")} that support the answer; the lists below have the same content in words.`} />
    </section>` : html`<p class="note">No fact of the graph stands out as the reason.</p>`}
    <div class="why-grid">
      <${Contrast} why=${why} single=${single} filtered=${filtered} />
      ${paths.length > 0 && html`<section class="card stack tight"><h2>Paths</h2><p class="muted small">The decrease of the score as the paths are removed one after the other.</p>
        <ol>${paths.map((path, index) => html`<li class="reason" key=${index}><${Walk} path=${path} /><span class="number">${signed(-path.effect)}</span></li>`)}</ol></section>`}
      ${rules.length > 0 && html`<section class="card stack tight"><h2>Rules that imply it</h2><p class="muted small">How often these rules hold in this graph.</p>
        <ul>${rules.map((rule, index) => html`<li class="reason" key=${index}><div class="stack tight"><span class="wrap">${rule.text}</span>
          <span class="small muted">${rule.facts.map((fact) => html`<span><${Triple} ...${fact} />. </span>`)}</span></div>
          ${rule.body ? html`<span class="number nowrap" title=${`holds for ${rule.support} of ${rule.body} such pairs`}>${percent(rule.support / rule.body)} of ${rule.body.toLocaleString("en")}</span>` : html`<span></span>`}</li>`)}</ul></section>`}
      <${Without} why=${why} />
    </div>
    ${why.warnings.map((text) => html`<p class="note warn small">${text}</p>`)}`;
}

function Pick({ value, any, options, onPick }) {
  return html`<select class="select" value=${value || ""} onChange=${(event) => onPick(event.target.value || null)}>
    <option value="">${any}</option>${options.map(([name, text]) => html`<option key=${name} value=${name}>${text}</option>`)}</select>`;
}

const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : "±"}${Math.abs(value).toFixed(2)}`;

function Walk({ path }) {
  return html`<span class="wrap">${path.nodes.map((node, index) => {
    const fact = path.facts[index - 1];
    return html`${fact && html` <span class="muted">${fact.tail.name === node.name ? html`—${show(fact.relation)}→` : html`←${show(fact.relation)}—`}</span> `}<span>${show(node)}</span>`;
  })}</span>`;
}

// Contrast with the next best answer: facts near both were removed one at a time, and both answers scored again.
function Contrast({ why, single, filtered }) {
  const other = why.contrast;
  if (!other) return null;
  const isStated = (one) => one.probability !== null && one.probability !== undefined;
  const stated = isStated(why) && isStated(other);
  const low = Math.min(why.score, other.score, 0), high = Math.max(why.score, other.score, low + 0.01);
  const bar = (one) => (stated ? html`<${Bar} value=${one.probability} />` : html`<${Bar} share=${(one.score - low) / (high - low)} text=${one.score.toFixed(2)} />`);
  const ahead = other.lead >= 0;
  return html`<section class="card stack tight"><h2 class="wrap">${ahead ? html`Why not ${show(other)}?` : html`The model prefers ${show(other)}`}</h2>
    <div class="versus"><span class="wrap">${show(why.tail)}</span>${bar(why)}<span class="wrap muted">${show(other)}</span>${bar(other)}</div>
    ${single.length > 0 && html`<p class="muted small">${ahead ? `It scores ${other.lead.toFixed(2)} higher` : `It scores ${(-other.lead).toFixed(2)} lower`}. ${ahead ? "Without one of these facts the lead is:" : "Without one of these facts it is behind by:"}</p>
      <ul>${single.map((fact) => html`<li class="reason" key=${factId(fact)}><${Triple} ...${fact} /><span class="number nowrap">${ahead ? signed(fact.lead) : (-fact.lead).toFixed(2)} <span class="unseen">instead of ${ahead ? signed(other.lead) : (-other.lead).toFixed(2)}</span></span></li>`)}</ul>`}
    ${!why.facts.length && html`<p class="muted small">Removing any of ${plural(other.tested, "single fact")} near them makes no difference.</p>`}
    ${why.facts.length > 0 && !single.length && filtered && html`<p class="muted small">No single fact matches the filter.</p>`}
    ${why.facts.length > 0 && other.tested < other.nearby && html`<p class="muted small">${other.tested.toLocaleString("en")} of ${plural(other.nearby, "fact")} near them were tested.</p>`}
  </section>`;
}

function Without({ why }) {
  const { without } = why;
  if (!without) return null;
  const scores = [why.score, without.score, without.random_score ?? why.score];
  const low = Math.min(...scores, 0), high = Math.max(...scores, low + 0.01);
  const bar = (score, rank) => html`<${Bar} share=${(score - low) / (high - low)} text=${`#${Math.round(rank)}`} />`;
  return html`<section class="card stack tight"><h2>Without these facts</h2>
    <div class="versus"><span>with all facts</span>${bar(why.score, why.rank)}
      <span>without the ${plural(without.count, "fact")} of these ${why.paths.length ? "paths" : "rules"}</span>${bar(without.score, without.rank)}
      ${without.random_score !== null && without.random_score !== undefined && html`<span class="muted">without the same number of random facts nearby</span>${bar(without.random_score, without.random_rank)}`}</div>
    <p class="muted small">Bars show scores; the number is the rank of the answer.</p></section>`;
}
