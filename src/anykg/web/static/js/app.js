// The frame: current graph, current view, running jobs.
import { html, render, useEffect, useErrorBoundary, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { JobWatch, api, ofGraph } from "./api.js";
import { Ask } from "./ask.js";
import { Explore } from "./explore.js";
import { Health } from "./health.js";
import { Failure, Link, Loading, count, useLoaded } from "./parts.js";
import { Review } from "./review.js";
import { go, useKept, useRoute } from "./state.js";
import { Upload } from "./upload.js";
import { Why } from "./why.js";

const SECTIONS = { ask: "Ask", explore: "Explore", health: "Health", review: "Review" };
const VIEWS = { ask: Ask, why: Why, explore: Explore, health: Health, review: Review };

function ThemeButton() {
  const [theme, keep] = useKept("theme", "auto");
  const next = { auto: "dark", dark: "light", light: "auto" }[theme] || "auto";
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event("themechange"));
  }, [theme]);
  const icon = { auto: "◐", dark: "☾", light: "☀" }[theme];
  return html`<button type="button" class="button quiet icon" onClick=${() => keep(next)} title=${`Theme: ${theme}`}
    aria-label=${`Theme: ${theme}. Change to ${next}`}>${icon}</button>`;
}

function JobMark({ jobs, graph }) {
  const active = jobs.find((job) => job.state === "running") || jobs.find((job) => job.state === "waiting");
  if (!active) return null;
  const share = active.total ? active.done / active.total : 0;
  const view = active.kind === "complete" || active.kind === "audit" ? "review" : "health";
  return html`<${Link} to=${{ g: active.graph || graph, view }} class="job-mark" aria-label=${`${active.kind} is running`}>
    <span class="ring" style=${{ "--share": `${100 * share}%` }}></span>${active.kind}</${Link}>`;
}

function GraphPicker({ graphs, graph, onUpload }) {
  return html`<select class="select" style="width:auto;max-width:42vw" aria-label="Graph" value=${graph}
    onChange=${(event) => {
      if (event.target.value === "\u0000open") {
        event.target.value = graph;
        onUpload();
      } else go({ g: event.target.value, view: "ask" });
    }}>
    ${graphs.map((one) => html`<option key=${one.id} value=${one.id}>${one.name} · ${count(one.facts)} facts</option>`)}
    <option value=${"\u0000open"}>Open a file …</option>
  </select>`;
}

function App() {
  const route = useRoute();
  const [jobs, setJobs] = useState([]);
  const watch = useMemo(() => new JobWatch(setJobs), []);
  const [uploading, setUploading] = useState(false);
  const main = useRef(null);
  const [crash, forget] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    watch.refresh();
    const refresh = () => document.visibilityState === "visible" && watch.refresh();
    document.addEventListener("visibilitychange", refresh);
    return () => document.removeEventListener("visibilitychange", refresh);
  }, []);
  const all = useLoaded((signal) => api("/graphs", { signal }), []);
  const graph = route.g || all.value?.graphs[0]?.id;
  const finished = jobs.filter((job) => job.state === "done").map((job) => job.id).join();
  const detail = useLoaded(async (signal) => graph && ofGraph(graph, "", { signal }), [graph, finished]);
  const view = VIEWS[route.view] ? route.view : "ask";
  useEffect(() => {
    document.title = `${SECTIONS[view] || "Why"} · ${detail.value?.name || "anykg"}`;
  }, [view, detail.value]);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true }); // screen readers start reading at the top of a new view
    forget?.();
  }, [view]);

  const start = async (kind, settings = {}) => {
    const job = await ofGraph(graph, `/${kind}`, { body: settings });
    await watch.refresh();
    return job;
  };
  const problem = all.error || detail.error;
  const known = detail.value && detail.value.id === graph ? detail.value : null;
  const mine = jobs.filter((job) => job.graph === graph);
  const body = () => {
    if (crash) return html`<${Failure} error=${{ message: `The page crashed: ${crash.message}` }} retry=${() => location.reload()} />`;
    if (problem) return html`<${Failure} error=${problem} retry=${() => {
      all.reload();
      detail.reload();
    }} choose=${(name) => go({ g: name, view })} />`;
    if (!known) return html`<${Loading} text="Loading the graph" />`;
    const View = VIEWS[view];
    return html`<${View} key=${graph} graph=${known} route=${route} jobs=${mine} start=${start} reload=${detail.reload} />`;
  };
  return html`
    <a class="skip-link" href="#main">Skip to content</a>
    <header class="topbar">
      <${Link} to=${{ g: graph, view: "ask" }} class="brand" aria-label="anykg, start page"><img src="/static/icon.svg" alt="" /><span>anykg</span></${Link}>
      ${all.value && html`<${GraphPicker} graphs=${all.value.graphs} graph=${graph} onUpload=${() => setUploading(true)} />`}
      <nav class="sections" aria-label="Sections">${Object.entries(SECTIONS).map(([name, title]) => html`<${Link} key=${name}
        to=${{ g: graph, view: name }} aria-current=${name === view || (name === "ask" && view === "why") ? "page" : undefined}>${title}</${Link}>`)}</nav>
      <span class="spacer"></span>
      <${JobMark} jobs=${jobs} graph=${graph} />
      <${ThemeButton} />
    </header>
    <main id="main" tabindex="-1" ref=${main} class=${view === "explore" ? "wide" : ""}>${body()}</main>
    <div id="announcer" class="unseen" aria-live="polite"></div>
    ${uploading && html`<${Upload} onClose=${() => setUploading(false)} onOpened=${(opened) => {
      setUploading(false);
      all.reload();
      go({ g: opened.id, view: "ask" });
    }} />`}
  `;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
