// Reasons as a left-to-right drawing: the head on the left, the tail on the right, what connects them in between.
import { html, useMemo } from "../vendor/preact-htm.module.js";
import { show } from "./parts.js";

const HEIGHT = 36, GAP = 44, MARGIN = 24, LONGEST = 24, COLUMN_GAP = 132;
let pen = null;

function width(text, font) {
  pen ||= document.createElement("canvas").getContext("2d");
  pen.font = font;
  return pen.measureText(text).width;
}
const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
const id = (fact) => JSON.stringify([fact.head.name, fact.relation.name, fact.tail.name]);

// Which column an entity stands in: its distance from the head along the paths.
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
  const rows = Math.max(...stacks.filter(Boolean).map((stack) => stack.length));
  const nodes = new Map();
  let x = MARGIN;
  for (const stack of stacks) {
    if (!stack) continue;
    const widths = stack.map((name) => width(short(labels.get(name)), "550 14px system-ui") + 28);
    const wide = Math.max(...widths);
    const top = ((rows - stack.length) * (HEIGHT + GAP)) / 2;
    stack.forEach((name, index) => nodes.set(name, {
      x: x + wide / 2, y: 56 + top + index * (HEIGHT + GAP) + HEIGHT / 2, width: widths[index], label: labels.get(name),
    }));
    x += wide + COLUMN_GAP;
  }
  return { nodes, width: x - COLUMN_GAP + MARGIN, height: 56 + rows * (HEIGHT + GAP) + 8 };
}

// Edges between the same two entities are bent apart.
function routes(facts, asked, nodes) {
  const seen = new Map();
  return facts.map((fact) => {
    const from = nodes.get(fact.head.name), to = nodes.get(fact.tail.name);
    const pair = [fact.head.name, fact.tail.name].sort().join("\u0000");
    const turn = seen.get(pair) || 0;
    seen.set(pair, turn + 1);
    const isAsked = fact === asked;
    const same = Math.abs(from.x - to.x) < 1;
    const forward = from.x <= to.x;
    const start = { x: same ? from.x : from.x + ((forward ? 1 : -1) * from.width) / 2, y: same ? from.y + (from.y < to.y ? HEIGHT / 2 : -HEIGHT / 2) : from.y };
    const end = { x: same ? to.x : to.x + ((forward ? -1 : 1) * (to.width / 2 + 2)), y: same ? to.y + (from.y < to.y ? -HEIGHT / 2 - 2 : HEIGHT / 2 + 2) : to.y };
    const bend = (turn ? (turn % 2 ? 1 : -1) * 26 * Math.ceil(turn / 2) : 0);
    if (isAsked) {
      const top = 22;
      const a = { x: from.x, y: from.y - HEIGHT / 2 }, b = { x: to.x, y: to.y - HEIGHT / 2 - 2 };
      return { fact, isAsked, path: `M${a.x},${a.y} C${a.x},${top - 14} ${a.x + 40},${top} ${a.x + 80},${top} L${b.x - 80},${top} C${b.x - 40},${top} ${b.x},${top - 14} ${b.x},${b.y}`, at: { x: (a.x + b.x) / 2, y: top } };
    }
    const reach = same ? 0 : (end.x - start.x) / 2;
    const c1 = { x: start.x + (same ? 60 + bend : reach), y: start.y + bend }, c2 = { x: end.x - (same ? -60 - bend : reach), y: end.y + bend };
    return {
      fact, path: `M${start.x},${start.y} C${c1.x},${c1.y} ${c2.x},${c2.y} ${end.x},${end.y}`,
      at: { x: (start.x + 3 * c1.x + 3 * c2.x + end.x) / 8, y: (start.y + 3 * c1.y + 3 * c2.y + end.y) / 8 },
    };
  });
}

export function Drawing({ asked, paths, facts, lit, onNode, label }) {
  const placed = useMemo(() => layout(asked, paths, facts), [asked, paths, facts]);
  const edges = routes([...facts.filter((fact) => id(fact) !== id(asked)), asked], asked, placed.nodes);
  const dim = (fact) => lit && !lit.has(id(fact));
  const litNodes = lit && new Set([asked.head.name, asked.tail.name, ...facts.filter((fact) => lit.has(id(fact))).flatMap((fact) => [fact.head.name, fact.tail.name])]);
  return html`<div class="drawing" tabindex="0" role="group" aria-label=${label}>
    <svg width=${placed.width} height=${placed.height} viewBox=${`0 0 ${placed.width} ${placed.height}`} role="img" aria-label=${label}>
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
