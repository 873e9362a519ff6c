// Explore: an entity's neighbourhood as an expandable drawing, and the same facts as a list.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { answersOf, ofGraph } from "./api.js";
import { Bar, Empty, Failure, Link, Loading, NameBox, announce, count, percent, plural, show, useLoaded } from "./parts.js";
import { change } from "./state.js";

const FACTS = 12, LEAST_ZOOM = 0.6;
const NODE_HEIGHT = 32, EDGE_HEIGHT = 16, EDGE_FONT = "12px system-ui, sans-serif";
// A small screen shows fewer facts to keep them readable; the list below has all of them.
const caps = () => (innerWidth < 720 ? { limit: 10, per_relation: 2, predicted: 3 } : { limit: 24, per_relation: 4, predicted: 5 });

let library = null;
function cytoscape() {
  library ||= new Promise((resolve, reject) => {
    if (window.cytoscape) return resolve(window.cytoscape);
    const script = document.createElement("script");
    script.src = "/static/vendor/cytoscape.min.js";
    script.onload = () => resolve(window.cytoscape);
    script.onerror = () => reject(new Error("The drawing could not be loaded."));
    document.head.append(script);
  });
  return library;
}

const parse = (text) => {
  try {
    const value = JSON.parse(text || "[]");
    return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
};
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Explore({ graph, route }) {
  const at = route.at || graph.examples[0]?.head?.name || graph.first_entity;
  const open = useMemo(() => [at, ...parse(route.open)].filter(Boolean), [at, route.open]);
  const [parts, setParts] = useState(new Map());
  const [error, setError] = useState(null);
  const [focus, setFocus] = useState(at);
  const [predicted, setPredicted] = useState(null);
  useEffect(() => setFocus(at), [at]);

  useEffect(() => {
    const stop = new AbortController();
    const missing = open.filter((name) => !parts.has(name));
    setError(null);
    Promise.all(missing.map((entity) => ofGraph(graph.id, "/neighbourhood", { query: { entity, limit: caps().limit, per_relation: caps().per_relation }, signal: stop.signal })))
      .then((found) => found.length && setParts((before) => new Map([...before, ...found.map((part, index) => [missing[index], part])])))
      .catch((problem) => problem.name !== "AbortError" && setError(problem));
    return () => stop.abort();
  }, [graph.id, open.join("\u0000")]);

  // Predicted edges of one relation of the entity in focus, also kept in the URL.
  useEffect(() => {
    setPredicted(null);
    if (!route.predict) return undefined;
    const stop = new AbortController();
    const [entity, relation, direction] = parse(route.predict);
    if (!entity || !relation) return undefined;
    const question = direction === "in" ? { tail: entity, relation } : { head: entity, relation };
    ofGraph(graph.id, "/predict", { body: { ...question, k: caps().predicted, known: false }, signal: stop.signal })
      .then((found) => setPredicted(answersOf(found))).catch((problem) => problem.name !== "AbortError" && setError(problem));
    return () => stop.abort();
  }, [graph.id, route.predict]);

  const expand = (name) => {
    if (open.includes(name)) {
      if (name !== at) change({ open: JSON.stringify(open.filter((one) => one !== name && one !== at)) });
      announce(`${name} collapsed`);
    } else {
      change({ open: JSON.stringify([...open.filter((one) => one !== at), name]) });
      announce(`${name} expanded`);
    }
  };
  useEffect(() => {
    const undo = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "z" && !/^(INPUT|TEXTAREA)$/.test(event.target.tagName)) {
        event.preventDefault();
        history.back();
      }
    };
    addEventListener("keydown", undo);
    return () => removeEventListener("keydown", undo);
  }, []);
  const shown = useMemo(() => merge(open.map((name) => parts.get(name)).filter(Boolean), predicted), [open, parts, predicted]);
  if (!at) return html`<${Empty} title="This graph has no entities"></${Empty}>`;
  const changed = route.open || route.predict;
  return html`<h1 class="unseen">Explore ${at}</h1>
  <div class="explore">
    <div class="canvas-box">
      <div class="canvas-tools">
        <${NameBox} graph=${graph.id} kind="entity" label="Entity" hideLabel=${true} value=${{ name: at, label: shown.labels.get(at) || at }} placeholder="Find an entity" onChoose=${(match) => match && change({ at: match.name, open: null, predict: null })} />
        <button type="button" class="button" disabled=${!changed} onClick=${() => history.back()}>Undo</button>
      </div>
      <${Canvas} shown=${shown} at=${at} focus=${focus} open=${open} onFocus=${setFocus} onExpand=${expand} />
      <div class="legend" aria-hidden="true"><span><i></i>known</span><span><i class="dashed"></i>predicted</span><span>click: expand or collapse</span><span>hover over a line: its relation</span></div>
    </div>
    <aside class="card side stack" aria-label="Facts">
      <${Failure} error=${error} choose=${(name) => change({ at: name, open: null, predict: null })} />
      <${Facts} graph=${graph} entity=${focus || at} at=${at} open=${open} predicted=${predicted} route=${route} onExpand=${expand} onFocus=${setFocus} />
    </aside>
  </div>`;
}

function merge(parts, predicted) {
  const nodes = new Map(), edges = new Map(), labels = new Map();
  for (const part of parts) {
    for (const node of part.nodes) nodes.set(node.name, node);
    for (const edge of part.edges) {
      const back = edges.get(JSON.stringify([edge.tail, edge.relation.name, edge.head]));
      if (back && edge.head !== edge.tail) back.both = true; // one line with two arrows
      else edges.set(JSON.stringify([edge.head, edge.relation.name, edge.tail]), { ...edge });
    }
  }
  for (const one of predicted?.answers || []) {
    for (const end of [one.head, one.tail]) if (!nodes.has(end.name)) nodes.set(end.name, { ...end, facts: null });
    edges.set(JSON.stringify([one.head.name, one.relation.name, one.tail.name, "?"]), {
      head: one.head.name, relation: one.relation, tail: one.tail.name, predicted: true, probability: one.probability, score: one.score,
    });
  }
  for (const node of nodes.values()) labels.set(node.name, show(node));
  return { nodes, edges, labels };
}

function Canvas({ shown, at, focus, open, onFocus, onExpand }) {
  const box = useRef(null);
  const drawing = useRef(null);
  const actions = useRef({});
  const [failed, setFailed] = useState(null);
  const [ready, setReady] = useState(false);
  const placed = useRef("");
  actions.current = { onFocus, onExpand, focus };
  useEffect(() => {
    let gone = false;
    cytoscape().then((make) => {
      if (gone) return;
      const drawn = make({ container: box.current, minZoom: 0.2, maxZoom: 2.5, boxSelectionEnabled: false, style: style() });
      drawn.on("tap", "node", (event) => {
        actions.current.onFocus(event.target.id());
        actions.current.onExpand(event.target.id());
      });
      drawn.on("mouseover", "edge", (event) => event.target.addClass("told"));
      drawn.on("mouseout", "edge", (event) => event.target.removeClass("told"));
      drawn.on("tap", "edge", (event) => event.target.toggleClass("told"));
      drawn.on("dragfree", "node", () => hideCovered(drawn, actions.current.focus));
      drawing.current = drawn;
      if (navigator.webdriver) window.anykgDrawing = drawn;
      setReady(true);
    }, setFailed);
    const restyle = () => drawing.current?.style(style());
    addEventListener("themechange", restyle);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", restyle);
    return () => {
      gone = true;
      removeEventListener("themechange", restyle);
      dark.removeEventListener("change", restyle);
      drawing.current?.destroy();
    };
  }, []);
  useEffect(() => {
    const drawn = drawing.current;
    if (!drawn) return;
    const wanted = new Set([...shown.nodes.keys(), ...shown.edges.keys()]);
    drawn.elements().filter((one) => !wanted.has(one.id())).remove();
    const widths = [...shown.nodes.values()].map((node) => wide(short(show(node))));
    const places = arrange(shown, widths, box.current.clientWidth / Math.max(box.current.clientHeight, 1));
    const fresh = [];
    for (const [name, node] of shown.nodes) {
      if (!drawn.getElementById(name).length) fresh.push({ group: "nodes", data: { id: name, label: short(show(node)), width: wide(short(show(node))) }, position: { ...places.get(name) } });
    }
    for (const [id, edge] of shown.edges) {
      if (drawn.getElementById(id).length) continue;
      const share = edge.probability === null || edge.probability === undefined ? "" : ` ${percent(edge.probability)}`;
      fresh.push({ group: "edges", data: { id, source: edge.head, target: edge.tail, label: short(show(edge.relation)) + (edge.predicted ? share : ""), strength: edge.predicted ? edge.probability ?? 0.5 : 1 }, classes: [edge.predicted ? "predicted" : "", edge.both ? "both" : ""].join(" ") });
    }
    drawn.add(fresh);
    drawn.nodes().forEach((node) => {
      node.toggleClass("centre", node.id() === at);
      node.toggleClass("focus", node.id() === focus);
      node.toggleClass("open", open.includes(node.id()));
    });
    const crowded = shown.edges.size > 26; // then only the facts of the entity in focus are labelled
    drawn.edges().forEach((edge) => {
      edge.toggleClass("quiet", crowded && edge.data("source") !== focus && edge.data("target") !== focus && !edge.hasClass("predicted"));
    });
    const wantedNow = [...wanted].join("\u0000");
    if (wantedNow === placed.current) {
      hideCovered(drawn, focus);
      return;
    }
    placed.current = wantedNow;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const readable = () => {
      if (drawn.destroyed()) return;
      hideCovered(drawn, actions.current.focus);
      if (drawn.zoom() >= LEAST_ZOOM) return;
      drawn.zoom(LEAST_ZOOM);
      drawn.center(drawn.getElementById(at));
    };
    drawn.layout({ name: "preset", positions: (node) => places.get(node.id()), animate: !still, animationDuration: 350, fit: true, padding: 24, stop: readable }).run();
  }, [shown, ready, at, focus, open.join("\u0000")]);
  return html`<div class="canvas" ref=${box} role="img" aria-label=${`Drawing of ${plural(shown.nodes.size, "entity", "entities")} and ${plural(shown.edges.size, "fact")}; the list next to it has the same facts.`}>${failed && html`<${Failure} error=${failed} />`}${!ready && !failed && html`<${Loading} text="Drawing" />`}</div>`;
}

// Layout: a spiral around the first entity, then a force-directed layout (Fruchterman and Reingold), then overlapping
// names are moved apart. The layout is deterministic, so that undo and a link sent to a colleague show the same drawing.
function arrange(shown, widths, aspect) {
  const names = [...shown.nodes.keys()], index = new Map(names.map((name, at) => [name, at]));
  const points = names.map((_, at) => ({ x: 60 * Math.sqrt(at) * Math.cos(2.39996 * at), y: 60 * Math.sqrt(at) * Math.sin(2.39996 * at) }));
  const links = [...new Set([...shown.edges.values()].map((edge) => [index.get(edge.head), index.get(edge.tail)].sort((a, b) => a - b).join()))]
    .map((pair) => pair.split(",").map(Number)).filter(([one, other]) => one !== other);
  const length = 105, steps = 260;
  for (let step = 0; step < steps; step++) {
    const moves = points.map(() => ({ x: 0, y: 0 }));
    for (let i = 0; i < points.length; i++) {
      for (let j = i + 1; j < points.length; j++) {
        const x = points[i].x - points[j].x, y = points[i].y - points[j].y, square = Math.max(x * x + y * y, 1);
        const push = (length * length) / square;
        moves[i].x += x * push; moves[i].y += y * push;
        moves[j].x -= x * push; moves[j].y -= y * push;
      }
    }
    for (const [i, j] of links) {
      const x = points[i].x - points[j].x, y = points[i].y - points[j].y, pull = Math.hypot(x, y) / length;
      moves[i].x -= x * pull; moves[i].y -= y * pull;
      moves[j].x += x * pull; moves[j].y += y * pull;
    }
    const most = 60 * (1 - step / steps) + 0.5;
    points.forEach((point, at) => {
      const far = Math.hypot(moves[at].x, moves[at].y) || 1;
      point.x += (moves[at].x / far) * Math.min(far, most);
      point.y += (moves[at].y / far) * Math.min(far, most);
    });
  }
  const stretch = Math.max(0.8, Math.min(1.8, 1.15 * aspect));
  for (const point of points) point.x *= stretch;
  for (let turn = 0; turn < 80; turn++) {
    let moved = false;
    for (let i = 0; i < points.length; i++) {
      for (let j = i + 1; j < points.length; j++) {
        const x = points[j].x - points[i].x, y = points[j].y - points[i].y;
        const overX = (widths[i] + widths[j]) / 2 + 14 - Math.abs(x), overY = 46 - Math.abs(y);
        if (overX <= 0 || overY <= 0) continue;
        moved = true;
        if (overY < overX) {
          const by = ((y < 0 ? -1 : 1) * overY) / 2;
          points[i].y -= by; points[j].y += by;
        } else {
          const by = ((x < 0 ? -1 : 1) * overX) / 2;
          points[i].x -= by; points[j].x += by;
        }
      }
    }
    if (!moved) break;
  }
  return new Map(names.map((name, at) => [name, points[at]]));
}

// Hides the label of a fact if it would cover an entity or another label; predicted facts and those of the entity in
// focus take precedence. The line itself stays visible, and hovering over it shows the label.
function hideCovered(drawn, focus) {
  const taken = drawn.nodes().map((node) => ({ ...node.position(), width: node.data("width"), height: NODE_HEIGHT, angle: 0 }));
  const weight = (edge) => (edge.hasClass("predicted") ? 2 : 0) + (edge.data("source") === focus || edge.data("target") === focus ? 1 : 0);
  for (const edge of drawn.edges().toArray().sort((one, other) => weight(other) - weight(one))) {
    const from = edge.source().position(), to = edge.target().position();
    const box = { ...edge.midpoint(), width: measured(edge.data("label"), EDGE_FONT) + 4, height: EDGE_HEIGHT, angle: Math.atan2(to.y - from.y, to.x - from.x) };
    const covers = taken.some((other) => overlap(box, other));
    edge.toggleClass("covered", covers);
    if (!covers && !edge.hasClass("quiet")) taken.push(box);
  }
}

// Whether two rectangles { x, y, width, height, angle } overlap, by the separating axis theorem.
function overlap(one, other) {
  for (const angle of [one.angle, one.angle + Math.PI / 2, other.angle, other.angle + Math.PI / 2]) {
    const reach = (box) => (box.width * Math.abs(Math.cos(box.angle - angle)) + box.height * Math.abs(Math.sin(box.angle - angle))) / 2;
    if (Math.abs((one.x - other.x) * Math.cos(angle) + (one.y - other.y) * Math.sin(angle)) >= reach(one) + reach(other)) return false;
  }
  return true;
}

let pen = null;
function measured(text, font) {
  pen ||= document.createElement("canvas").getContext("2d");
  pen.font = font;
  return Math.ceil(pen.measureText(text).width);
}
const wide = (text) => measured(text, "600 13px system-ui, sans-serif") + 20;
const short = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);

function style() {
  const [text, muted, surface, line, accent, soft] = ["--text", "--muted", "--surface", "--line-strong", "--accent", "--accent-soft"].map(colour);
  return [
    { selector: "node", style: { label: "data(label)", color: text, "font-size": 13, "font-family": "system-ui, sans-serif", "text-valign": "center", "text-halign": "center", shape: "round-rectangle", width: "data(width)", height: NODE_HEIGHT, "background-color": surface, "border-width": 1.5, "border-color": line } },
    { selector: "node.open", style: { "background-color": soft, "border-color": accent } },
    { selector: "node.centre", style: { "border-width": 3, "font-weight": 700 } },
    { selector: "node.focus", style: { "border-color": accent, "border-width": 3 } },
    { selector: "edge", style: { label: "data(label)", color: muted, "font-size": 12, "font-family": "system-ui, sans-serif", "text-rotation": "autorotate", "text-background-color": surface, "text-background-opacity": 0.9, "text-background-padding": "2px", width: 1.5, "line-color": line, "target-arrow-color": line, "target-arrow-shape": "triangle", "arrow-scale": 0.9, "curve-style": "bezier" } },
    { selector: "edge.both", style: { "source-arrow-shape": "triangle", "source-arrow-color": line } },
    { selector: "edge.covered", style: { label: "" } },
    { selector: "edge.quiet", style: { label: "", "line-opacity": 0.55 } },
    { selector: "edge.predicted", style: { "line-style": "dashed", "line-dash-pattern": [7, 5], width: 2.5, color: accent, "line-color": accent, "target-arrow-color": accent, "line-opacity": "mapData(strength, 0, 1, 0.35, 1)" } },
    { selector: "edge.told", style: { label: "data(label)", color: text, "text-background-opacity": 1, "line-opacity": 1, "z-index-compare": "manual", "z-index": 10 } },
  ];
}

function Facts({ graph, entity, at, open, predicted, route, onExpand, onFocus }) {
  const found = useLoaded((signal) => ofGraph(graph.id, "/entity", { query: { name: entity, cap: FACTS }, signal }), [graph.id, entity]);
  const value = found.value;
  if (found.error) return html`<${Failure} error=${found.error} choose=${(name) => change({ at: name, open: null, predict: null })} />`;
  if (!value) return html`<${Loading} text="Loading facts" />`;
  return html`<div class="stack tight">
      <h2 class="wrap">${show(value)}</h2>
      ${value.label !== value.name && html`<p class="muted small wrap">${value.name}</p>`}
      <p class="muted small">${plural(value.facts, "fact")}</p>
      <div class="row">
        ${entity !== at && html`<button type="button" class="button small" onClick=${() => onExpand(entity)}>${open.includes(entity) ? "Collapse" : "Expand"}</button>
          <button type="button" class="button small" onClick=${() => change({ at: entity, open: null, predict: null })}>Start from here</button>`}
        <${Link} to=${{ g: graph.id, view: "ask", head: entity }} class="button small">Ask</${Link}>
      </div>
    </div>
    ${value.groups.map((group) => html`<${Group} key=${`${entity} ${group.relation.name} ${group.direction}`} graph=${graph} entity=${entity} group=${group} predicted=${predicted} route=${route} onFocus=${onFocus} />`)}`;
}

function Group({ graph, entity, group, predicted, route, onFocus }) {
  const [more, setMore] = useState([]);
  const [error, setError] = useState(null);
  const entities = [...group.entities, ...more];
  const load = async () => {
    try {
      const page = await ofGraph(graph.id, "/facts", { query: { entity, relation: group.relation.name, direction: group.direction, offset: entities.length, limit: 50 } });
      setMore([...more, ...page.entities]);
    } catch (problem) {
      setError(problem);
    }
  };
  const mine = JSON.stringify([entity, group.relation.name, group.direction]);
  const on = JSON.stringify(parse(route.predict)) === mine;
  const other = group.direction === "out" ? "tail" : "head";
  const left = group.total - entities.length;
  return html`<div class="facts-group">
    <h3>${group.direction === "in" && html`<span class="muted" title="incoming">←</span>`}<span class="grow">${show(group.relation)}</span>
      <button type="button" class="button quiet small" aria-pressed=${on ? "true" : "false"} title="Draw the most plausible facts that are not in the graph" onClick=${() => change({ predict: on ? null : mine })}>${on ? "Hide predictions" : "Predict"}</button></h3>
    <ul>${entities.map((one) => html`<li key=${one.name}><button type="button" class="linklike" onClick=${() => onFocus(one.name)}>${show(one)}</button></li>`)}
      ${left > 0 && html`<li><button type="button" class="button small" onClick=${load}>${count(left)} more</button></li>`}</ul>
    <${Failure} error=${error} />
    ${on && !predicted && html`<${Loading} text="Predicting" />`}
    ${on && predicted && html`<ol class="stack tight">${predicted.answers.map((one) => html`<li class="row" key=${one[other].name}><button type="button" class="linklike grow" onClick=${() => onFocus(one[other].name)}>${show(one[other])}</button>
      <${Link} to=${{ g: graph.id, view: "why", head: one.head.name, relation: one.relation.name, tail: one.tail.name }} class="small">why</${Link}>
      ${predicted.calibrated ? html`<${Bar} value=${one.probability} />` : html`<span class="number small">${one.score.toFixed(2)}</span>`}</li>`)}</ol>`}
  </div>`;
}
