// Runs before the first paint, so that the wrong theme never flashes.
(() => {
  const kept = localStorage.getItem("anykg-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
