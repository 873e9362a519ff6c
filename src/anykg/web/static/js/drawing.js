// Reasons as a left-to-right drawing: the head on the left, the tail on the right, the connecting facts in between.
import { html, useMemo } from "../vendor/preact-htm.module.js";
import { show } from "./parts.js";

const HEIGHT = 36, GAP = 40, MARGIN = 24, LONGEST = 26, TOP = 64, LINE = 28;
let pen = null;

function width(text, font) {
  pen ||= document.createElement("canvas").getContext("2d");
  pen.font = font;
  return pen.measureText(text).width;
}
const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
const id = (fact) => JSON.stringify([fact.head.name, fact.relation.name, fact.tail.name]);

// The column of an entity: its distance from the head along the paths.
function columns(asked, paths, facts) {
  const depth = new Map([[asked.head.name, 0]]);
  let last = 2;
  for (const path of paths) {
    last = Math.max(last, path.nodes.length - 1);
    path.nodes.slice(1, -1).forEach((node, index) => depth.has(node.name) || depth.set(node.name, index + 1));
  }
  for (const fact of facts) {
    for (const [one, other] of [[fact.head, fact.tail], [fact.tail, fact.head]]) {
      if (depth.has(one.name) || one.name === asked.tail.name) continue;
      depth.set(one.name, other.name === asked.tail.name ? last - 1 : other.name === asked.head.name ? 1 : Math.ceil(last / 2));
    }
  }
  depth.set(asked.tail.name, last);
  return depth;
}

export function layout(asked, paths, facts) {
  const depth = columns(asked, paths, facts);
  const labels = new Map();
  for (const fact of [asked, ...facts]) for (const end of [fact.head, fact.tail]) labels.set(end.name, show(end));
  const stacks = [];
  for (const [name, column] of depth) if (labels.has(name)) (stacks[column] ||= []).push(name);
  const used = stacks.filter(Boolean);
  const place = new Map(used.flatMap((stack, column) => stack.map((name) => [name, column])));
  // The space between two columns fits the longest name of a relation between them.
  const gaps = used.map(() => 72);
  for (const fact of facts) {
    const from = Math.min(place.get(fact.head.name), place.get(fact.tail.name)), to = Math.max(place.get(fact.head.name), place.get(fact.tail.name));
    const wanted = width(short(show(fact.relation)), "13px system-ui") + 56;
    if (to - from === 1) gaps[from] = Math.max(gaps[from], wanted);
  }
  const rows = Math.max(...used.map((stack) => stack.length));
  const shift = used.length > 2 ? HEIGHT + GAP : 0;
  const nodes = new Map();
  let x = MARGIN;
  used.forEach((stack, column) => {
    const widths = stack.map((name) => width(short(labels.get(name)), "550 14px system-ui") + 28);
    const wide = Math.max(...widths);
    // Inner columns alternate between higher and lower, so that no arrow runs along a row of names.
    const inner = column > 0 && column < used.length - 1;
    const top = TOP + ((rows - stack.length) * (HEIGHT + GAP) + shift) / 2 + (inner ? ((column % 2 ? -1 : 1) * shift) / 2 : 0);
    stack.forEach((name, index) => nodes.set(name, { x: x + wide / 2, y: top + index * (HEIGHT + GAP) + HEIGHT / 2, width: widths[index], label: labels.get(name), column }));
    x += wide + gaps[column];
  });
  return { nodes, width: x - gaps[used.length - 1] + MARGIN, height: TOP + rows * (HEIGHT + GAP) + shift };
}

// Parallel edges are bent apart; edges that cross a column are routed around its names.
function routes(facts, asked, placed) {
  const seen = new Map();
  const middle = placed.height / 2;
  return facts.map((fact) => {
    const from = placed.nodes.get(fact.head.name), to = placed.nodes.get(fact.tail.name);
    const pair = [fact.head.name, fact.tail.name].sort().join("\u0000");
    const turn = seen.get(pair) || 0;
    seen.set(pair, turn + 1);
    if (fact === asked) {
      const a = { x: from.x, y: from.y - HEIGHT / 2 }, b = { x: to.x, y: to.y - HEIGHT / 2 - 2 };
      return { fact, isAsked: true, path: `M${a.x},${a.y} C${a.x},${LINE} ${a.x + 16},${LINE} ${a.x + 64},${LINE} L${b.x - 64},${LINE} C${b.x - 16},${LINE} ${b.x},${LINE} ${b.x},${b.y}`, at: { x: (a.x + b.x) / 2, y: LINE } };
    }
    const side = turn % 2 ? 1 : -1;
    if (from.column === to.column) {
      const down = from.y < to.y, out = 46 + 26 * turn;
      const start = { x: from.x, y: from.y + (down ? HEIGHT / 2 : -HEIGHT / 2) }, end = { x: to.x, y: to.y + (down ? -HEIGHT / 2 - 2 : HEIGHT / 2 + 2) };
      const near = Math.abs(from.y - to.y) < 1.5 * (HEIGHT + GAP) && !turn;
      const reach = near ? 0 : out;
      return { fact, path: `M${start.x},${start.y} C${start.x + reach},${start.y} ${end.x + reach},${end.y} ${end.x},${end.y}`, at: { x: (start.x + end.x) / 2 + 0.75 * reach, y: (start.y + end.y) / 2 } };
    }
    const forward = from.x < to.x;
    const start = { x: from.x + ((forward ? 1 : -1) * from.width) / 2, y: from.y }, end = { x: to.x + (forward ? -1 : 1) * (to.width / 2 + 2), y: to.y };
    const span = Math.abs(from.column - to.column);
    const low = (from.y + to.y) / 2 >= middle;
    const bend = span > 1 ? (low ? 1 : -1) * (30 + 34 * (span - 1) + 24 * turn) : turn ? side * 26 * Math.ceil(turn / 2) : 0;
    const reach = (end.x - start.x) / 2;
    const c1 = { x: start.x + reach, y: start.y + bend }, c2 = { x: end.x - reach, y: end.y + bend };
    return { fact, path: `M${start.x},${start.y} C${c1.x},${c1.y} ${c2.x},${c2.y} ${end.x},${end.y}`, at: on(start, c1, c2, end, 0.5) };
  });
}

function on(a, b, c, d, t) {
  const part = (x, y, z, w) => (1 - t) ** 3 * x + 3 * (1 - t) ** 2 * t * y + 3 * (1 - t) * t ** 2 * z + t ** 3 * w;
  return { x: part(a.x, b.x, c.x, d.x), y: part(a.y, b.y, c.y, d.y) };
}

// Overlapping labels are moved apart vertically.
function apart(edges) {
  const taken = [];
  for (const edge of [...edges].sort((a, b) => a.at.y - b.at.y)) {
    const half = width(short(show(edge.fact.relation)), "13px system-ui") / 2 + 4;
    let y = edge.at.y;
    for (const other of taken) if (Math.abs(other.x - edge.at.x) < other.half + half && Math.abs(other.y - y) < 17) y = other.y + 17;
    taken.push({ x: edge.at.x, y, half });
    edge.at = { x: edge.at.x, y };
  }
  return edges;
}

export function Drawing({ asked, paths, facts, lit, onNode, label }) {
  const placed = useMemo(() => layout(asked, paths, facts), [asked, paths, facts]);
  const edges = apart(routes([...facts.filter((fact) => id(fact) !== id(asked)), asked], asked, placed));
  const dim = (fact) => lit && !lit.has(id(fact));
  const litNodes = lit && new Set([asked.head.name, asked.tail.name, ...facts.filter((fact) => lit.has(id(fact))).flatMap((fact) => [fact.head.name, fact.tail.name])]);
  return html`<div class="drawing" tabindex="0" role="group" aria-label=${label}>
    <svg style=${{ maxWidth: `${placed.width}px`, minWidth: `${Math.min(placed.width, 720)}px` }} viewBox=${`0 0 ${placed.width} ${placed.height}`} role="img" aria-label=${label}>
      <defs>${["", "strong", "asked"].map((kind) => html`<marker class=${kind} id=${`arrow-${kind}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0,0 8,4 0,8z" /></marker>`)}</defs>
      ${edges.map(({ fact, path, isAsked }) => {
        const kind = isAsked ? "asked" : fact.strong ? "strong" : "";
        return html`<g class=${`edge ${kind} ${!isAsked && dim(fact) ? "dim" : ""}`} key=${`e${id(fact)}`}>
          <path d=${path} marker-end=${`url(#arrow-${kind})`}><title>${show(fact.head)} ${show(fact.relation)} ${show(fact.tail)}</title></path></g>`;
      })}
      ${[...placed.nodes].map(([name, node]) => {
        const end = name === asked.head.name || name === asked.tail.name;
        return html`<g class=${`node ${end ? "end" : ""} ${litNodes && !litNodes.has(name) ? "dim" : ""}`} key=${`n${name}`} onClick=${() => onNode?.(name)}>
          <rect x=${node.x - node.width / 2} y=${node.y - HEIGHT / 2} width=${node.width} height=${HEIGHT} rx="8" />
          <text x=${node.x} y=${node.y + 5} text-anchor="middle">${short(node.label)}</text><title>${node.label}</title></g>`;
      })}
      ${edges.map(({ fact, at, isAsked }) => html`<g class=${`edge ${isAsked ? "asked" : ""} ${!isAsked && dim(fact) ? "dim" : ""}`} key=${`l${id(fact)}`}>
        <text x=${at.x} y=${at.y + 4} text-anchor="middle">${short(show(fact.relation))}</text></g>`)}
    </svg>
  </div>`;
}

export const factId = id;
