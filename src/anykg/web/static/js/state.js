// The state of a view is kept in the URL, so that it can be shared and the back button works.
import { useEffect, useState } from "../vendor/preact-htm.module.js";

const listeners = new Set();

export function read() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

export function address(params) {
  const kept = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") kept.set(name, value);
  }
  return `/?${kept}`;
}

// Change the URL. `replace` is for changes that should not be added to the browser history.
export function go(params, { replace = false } = {}) {
  const next = address(params);
  if (next === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", next);
  for (const listener of listeners) listener();
}

// Change a few parameters and keep the others.
export function change(params, options) {
  go({ ...read(), ...params }, options);
}

export function useRoute() {
  const [route, set] = useState(read());
  useEffect(() => {
    const update = () => set(read());
    listeners.add(update);
    addEventListener("popstate", update);
    return () => {
      listeners.delete(update);
      removeEventListener("popstate", update);
    };
  }, []);
  return route;
}

// A value kept in the browser's local storage.
export function useKept(name, initial) {
  const [value, set] = useState(() => localStorage.getItem(`anykg-${name}`) ?? initial);
  return [
    value,
    (next) => {
      localStorage.setItem(`anykg-${name}`, next);
      set(next);
    },
  ];
}
