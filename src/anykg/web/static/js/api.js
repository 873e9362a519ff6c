// Requests to the server. Every failure becomes an ApiError with a readable message.
const ROOT = "/api/v1";

export class ApiError extends Error {
  constructor(message, status = 0, details = {}) {
    super(message);
    this.status = status;
    this.suggestions = details.suggestions || [];
    this.kind = details.kind || "";
    this.details = details;
  }
}

export async function api(path, { method, body, form, signal, query } = {}) {
  const address = new URL(ROOT + path, location.origin);
  for (const [name, value] of Object.entries(query || {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") address.searchParams.append(name, one);
    }
  }
  const options = { method: method || (body || form ? "POST" : "GET"), signal, headers: { accept: "application/json" } };
  if (body) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  } else if (form) options.body = form;
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached. Is `anykg serve` still running?");
  }
  const text = await response.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = null;
  }
  if (!response.ok) {
    const sentence = (value && value.error) || `The server answered ${response.status}.`;
    throw new ApiError(sentence, response.status, value || {});
  }
  return value;
}

// A file to save, with the name given by the server.
export async function file(address) {
  const response = await fetch(address).catch(() => {
    throw new ApiError("The server cannot be reached. Is `anykg serve` still running?");
  });
  if (!response.ok) {
    const value = await response.json().catch(() => ({}));
    throw new ApiError(value.error || `The server answered ${response.status}.`, response.status, value);
  }
  const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") || "")?.[1] || "facts";
  return { blob: await response.blob(), name };
}

export const ofGraph = (graph, path, options) => api(`/graphs/${encodeURIComponent(graph)}${path}`, options);

// Answers as the page shows them: the rows of the server's result joined with labels and decisions.
export function answersOf({ page, rows, summary, warnings }) {
  const named = (kind, name) => ({ name, label: page.labels[kind][name] ?? name });
  const answers = rows.map((row, index) => ({
    ...row, head: named("entities", row.head), relation: named("relations", row.relation), tail: named("entities", row.tail), decision: page.decisions[index],
  }));
  return { ...page, names: { ...page.labels.entities, ...page.labels.relations }, answers, none_of_these: summary.none_of_these, known_left_out: summary.known_left_out, warnings };
}

// A list of jobs, kept up to date by server-sent events while one of them is running.
export class JobWatch {
  constructor(changed) {
    this.changed = changed;
    this.jobs = [];
    this.source = null;
  }
  async refresh() {
    try {
      this.take((await api("/jobs")).jobs);
    } catch {
      // the next action will report the problem
    }
  }
  take(jobs) {
    this.jobs = jobs;
    this.changed(jobs);
    const active = jobs.some((job) => job.state === "waiting" || job.state === "running");
    if (active && !this.source) this.listen();
    if (!active && this.source) {
      this.source.close();
      this.source = null;
    }
  }
  listen() {
    this.source = new EventSource(`${ROOT}/jobs/events`);
    this.source.addEventListener("jobs", (event) => this.take(JSON.parse(event.data).jobs));
  }
}
