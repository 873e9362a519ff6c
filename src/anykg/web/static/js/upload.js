// Open a graph file: describe it first, and load it when the user confirms.
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { api } from "./api.js";
import { Failure, Loading, count } from "./parts.js";

export function Upload({ onClose, onOpened }) {
  const dialog = useRef(null);
  const [file, setFile] = useState(null);
  const [reading, setReading] = useState({ columns: "", separator: "", header: "", skip_malformed: "" });
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    dialog.current.showModal();
  }, []);

  const describe = async (chosen, options) => {
    if (!chosen) return;
    setBusy(true);
    setError(null);
    setFound(null);
    const form = new FormData();
    form.append("file", chosen);
    for (const [name, value] of Object.entries(options)) if (value) form.append(name, value);
    try {
      setFound(await api("/uploads", { form }));
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const open = async () => {
    setBusy(true);
    try {
      onOpened(await api(`/uploads/${found.id}/open`, { method: "POST" }));
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const set = (name) => (event) => {
    const next = { ...reading, [name]: event.target.value };
    setReading(next);
    describe(file, next);
  };
  return html`<dialog ref=${dialog} aria-labelledby="upload-title" onClose=${onClose}>
    <div class="content">
      <div class="row apart"><h2 id="upload-title">Open a graph file</h2>
        <button type="button" class="button quiet icon" aria-label="Close" onClick=${() => dialog.current.close()}>×</button></div>
      <p class="muted">A file of triples: delimited text, JSON lines, N-Triples, Turtle or Parquet; also .gz and .zst. It stays on this computer.</p>
      <div class="field"><label for="upload-file">File</label>
        <input id="upload-file" class="input" style="padding:8px" type="file" onChange=${(event) => {
          setFile(event.target.files[0]);
          describe(event.target.files[0], reading);
        }} /></div>
      ${busy && html`<${Loading} text="Reading the file" />`}
      <${Failure} error=${error} />
      ${(found || error) && file && html`<details open=${Boolean(error)}><summary>Reading options</summary>
        <div class="row" style="margin-top:8px;align-items:end">
          <div class="field grow"><label for="upload-columns">Columns</label><input id="upload-columns" class="input" placeholder="hrt" value=${reading.columns} onChange=${set("columns")} /></div>
          <div class="field grow"><label for="upload-separator">Separator</label><select id="upload-separator" class="select" value=${reading.separator} onChange=${set("separator")}>
            <option value="">detect</option>${["tab", "comma", "semicolon", "pipe", "space"].map((name) => html`<option value=${name}>${name}</option>`)}</select></div>
          <div class="field grow"><label for="upload-header">First line</label><select id="upload-header" class="select" value=${reading.header} onChange=${set("header")}>
            <option value="">detect</option><option value="true">column names</option><option value="false">a fact</option></select></div>
          <div class="field grow"><label for="upload-malformed">Malformed lines</label><select id="upload-malformed" class="select" value=${reading.skip_malformed} onChange=${set("skip_malformed")}>
            <option value="">refuse the file</option><option value="true">skip and count</option></select></div>
        </div></details>`}
      ${found && html`<div class="stack tight">
        <p><strong>${count(found.facts)} facts</strong>, ${count(found.entities)} entities, ${count(found.relations)} relations.</p>
        <p class="muted small wrap">${found.sentence}</p>
        <div class="table-box" tabindex="0" role="region" aria-label="First facts of the file"><table><thead><tr><th>head</th><th>relation</th><th>tail</th></tr></thead>
          <tbody>${found.first.map((fact) => html`<tr>${fact.map((part) => html`<td class="wrap">${part}</td>`)}</tr>`)}</tbody></table></div>
        <div class="row"><button type="button" class="button primary" onClick=${open} disabled=${busy}>Use this graph</button>
          <button type="button" class="button" onClick=${() => dialog.current.close()}>Cancel</button></div>
      </div>`}
    </div>
  </dialog>`;
}
