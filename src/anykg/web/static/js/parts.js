// Components shared by several views.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { api, ofGraph } from "./api.js";
import { address, go, read } from "./state.js";

const PAGE = 30;

export const percent = (value) => {
  if (value === null || value === undefined) return "";
  if (value > 0 && value < 0.01) return "<1%";
  if (value < 1 && value > 0.99) return ">99%";
  return `${Math.round(100 * value)}%`;
};
export const count = (value) => Number(value).toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
export const show = (named) => (named ? (typeof named === "string" ? named : named.label || named.name) : "");
export const key = (fact) => JSON.stringify([fact.head.name, fact.relation.name, fact.tail.name]);

// A link inside the page: works with the keyboard, in a new tab, and without a reload.
export function Link({ to, children, ...rest }) {
  const follow = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(to);
    scrollTo(0, 0);
  };
  return html`<a href=${address(to)} onClick=${follow} ...${rest}>${children}</a>`;
}

export const exploreOf = (graph, entity) => ({ g: graph, view: "explore", at: entity.name ?? entity });
export const whyOf = (graph, fact) => ({
  g: graph, view: "why", head: fact.head.name, relation: fact.relation.name, tail: fact.tail.name,
});

export function Triple({ head, relation, tail }) {
  const part = (named, kind) => (named ? html`<span class=${kind}>${show(named)}</span>` : html`<span class="open">?</span>`);
  return html`<span class="triple">${part(head, "entity")} <span class="relation" aria-hidden="true">—</span> ${part(relation, "relation")} <span class="relation" aria-hidden="true">→</span> ${part(tail, "entity")}</span>`;
}

export function Bar({ value, share, kind = "", text }) {
  const width = Math.max(0, Math.min(1, share ?? value ?? 0));
  return html`<div class="bar">
    <div class="track" aria-hidden="true"><div class=${`fill ${kind}`} style=${{ width: `${100 * width}%` }}></div></div>
    <span class="value">${text ?? percent(value)}</span>
  </div>`;
}

export function Loading({ text = "Loading" }) {
  return html`<div class="loading" role="status"><span class="unseen">${text}</span><i></i><i></i><i></i></div>`;
}

export function Failure({ error, retry, choose }) {
  if (!error) return null;
  return html`<div class="note error" role="alert">
    <p>${error.message}</p>
    ${choose && error.suggestions?.length > 0 && html`<div class="chips">${error.suggestions.map((name) =>
      html`<button type="button" class="chip" key=${name} onClick=${() => choose(name, error)}>${name}</button>`)}</div>`}
    ${retry && html`<button type="button" class="button small" onClick=${retry}>Try again</button>`}
  </div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty">${title && html`<h2>${title}</h2>`}${children}</div>`;
}

// Load something, and reload it whenever `inputs` change; outdated replies are dropped.
export function useLoaded(load, inputs) {
  const [state, set] = useState({ loading: true });
  const [again, repeat] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    set((before) => ({ ...before, loading: true, error: null }));
    load(stop.signal).then(
      (value) => set({ value, loading: false }),
      (error) => error.name !== "AbortError" && set({ error, loading: false }),
    );
    return () => stop.abort();
  }, [...inputs, again]);
  return { ...state, reload: () => repeat((n) => n + 1) };
}

// Announce text to screen readers.
export function announce(text) {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}

let lastId = 0;
export function useName(prefix) {
  return useMemo(() => `${prefix}-${++lastId}`, []);
}

// A text box that completes names (the ARIA combobox pattern with a list of options).
export function NameBox({ graph, kind, label, value, onChoose, placeholder, hideLabel, autofocus }) {
  const id = useName("box");
  const [text, setText] = useState(show(value));
  const [found, setFound] = useState(null);
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const typed = useRef(false);
  const stop = useRef(null);
  const timer = useRef(0);
  const list = useRef(null);
  const input = useRef(null);

  useEffect(() => {
    setText(show(value));
    typed.current = false;
  }, [show(value), value?.name]);
  useEffect(() => () => {
    clearTimeout(timer.current);
    stop.current?.abort();
  }, []);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [active]);

  const search = async (query, offset = 0) => {
    stop.current?.abort();
    stop.current = new AbortController();
    try {
      const page = await ofGraph(graph, "/search", {
        query: { q: query, kind, offset, limit: PAGE }, signal: stop.current.signal,
      });
      setFound((before) => (offset ? { ...page, matches: [...before.matches, ...page.matches] } : page));
      if (!offset) setActive(query && page.matches.length ? 0 : -1);
    } catch (error) {
      if (error.name !== "AbortError") setFound({ matches: [], total: 0, error: error.message });
    }
  };
  const show_options = (query) => {
    setOpen(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => search(query), query ? 120 : 0);
  };
  const choose = (match) => {
    typed.current = false;
    setText(show(match));
    setOpen(false);
    onChoose(match && { name: match.name, label: match.label });
  };
  const leave = () => {
    clearTimeout(timer.current);
    setOpen(false);
    if (!typed.current) return;
    typed.current = false;
    const exact = text.trim();
    if (!exact) onChoose(null);
    else {
      const same = found?.matches.find((match) => show(match) === exact || match.name === exact);
      onChoose(same ? { name: same.name, label: same.label } : { name: exact, label: exact });
    }
  };
  const press = (event) => {
    const matches = found?.matches || [];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) return show_options(typed.current ? text.trim() : "");
      const step = event.key === "ArrowDown" ? 1 : -1;
      setActive((at) => Math.max(0, Math.min(matches.length - 1, at + step)));
    } else if (event.key === "Enter") {
      if (open && active >= 0 && matches[active]) {
        event.preventDefault();
        choose(matches[active]);
      } else leave();
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      event.stopPropagation();
      setOpen(false);
    }
  };
  const scrolled = (event) => {
    const box = event.target;
    const more = found && found.matches.length < found.total;
    if (more && box.scrollTop + box.clientHeight > box.scrollHeight - 40) search(typed.current ? text.trim() : "", found.matches.length);
  };

  return html`<div class="field">
    <label for=${id} class=${hideLabel ? "unseen" : ""}>${label}</label>
    <div class="combo">
      <input ref=${input} id=${id} class="input" type="text" role="combobox" autocomplete="off" spellcheck="false"
        aria-expanded=${open ? "true" : "false"} aria-controls=${`${id}-list`} aria-autocomplete="list"
        aria-activedescendant=${open && active >= 0 ? `${id}-${active}` : undefined}
        placeholder=${placeholder} value=${text} autofocus=${autofocus}
        onInput=${(event) => {
          typed.current = true;
          setText(event.target.value);
          show_options(event.target.value.trim());
        }}
        onClick=${() => !open && show_options(typed.current ? text.trim() : "")}
        onKeyDown=${press} onBlur=${leave} />
      ${text && html`<button type="button" class="clear" aria-label=${`Clear ${label}`} onMouseDown=${(event) => event.preventDefault()}
        onClick=${() => {
          choose(null);
          input.current.focus();
        }}>×</button>`}
      ${open && html`<div class="options" ref=${list} id=${`${id}-list`} role="listbox" aria-label=${label} onScroll=${scrolled}
          onMouseDown=${(event) => event.preventDefault()}>
        ${found?.similar && found.matches.length > 0 && html`<p class="hint" role="presentation">Nothing contains this text. Similar names:</p>`}
        ${(found?.matches || []).map((match, index) => html`<div key=${match.name} role="option" id=${`${id}-${index}`}
            aria-selected=${index === active ? "true" : "false"} onClick=${() => choose(match)}>
          <span class="text">${show(match)}${match.label !== match.name && html`<small>${match.name}</small>`}</span>
          <span class="count"><span aria-hidden="true">${count(match.facts)}</span><span class="unseen">${plural(match.facts, "fact")}</span></span>
        </div>`)}
        ${found && !found.matches.length && html`<p class="hint" role="presentation">${found.error || "No matching name."}</p>`}
      </div>`}
    </div>
  </div>`;
}

export function JobProgress({ job, onStop }) {
  const what = { check: "Checking", complete: "Looking for missing facts", audit: "Auditing known facts", fit: "Fitting" }[job.kind];
  const share = job.total ? job.done / job.total : undefined;
  const state = job.state === "waiting" ? "waiting for the running job" : job.note || (job.total ? `${count(job.done)} of ${count(job.total)}` : "starting");
  const left = useTimeLeft(job);
  return html`<div class="progress">
    <div class="row apart"><span><strong>${what}</strong> <span class="muted small">${state}${left}</span></span>
      ${onStop && html`<button type="button" class="button small" onClick=${onStop}>Stop</button>`}</div>
    <progress max="1" value=${share} aria-label=${`${what}: ${state}`}></progress>
  </div>`;
}

function useTimeLeft(job) {
  if (job.state !== "running" || !job.total || !job.done || !job.started) return "";
  const share = job.done / job.total;
  const spent = Date.now() / 1000 - job.started;
  if (spent < 3 || share < 0.05) return "";
  const seconds = (spent * (1 - share)) / share;
  return seconds > 90 ? `, about ${Math.round(seconds / 60)} min left` : `, about ${Math.max(1, Math.round(seconds))} s left`;
}

export const stopJob = (job) => api(`/jobs/${job.id}/stop`, { method: "POST" });
export const keep = (params) => ({ g: read().g, ...params });
