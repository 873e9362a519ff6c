// Runs before the page is painted, so that a chosen theme never flashes.
(() => {
  const kept = localStorage.getItem("anykg-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
