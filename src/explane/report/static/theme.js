"use strict";
/** Light or dark: as the system says, until the reader chooses; paper is always light. */
(() => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  let chosen = "";

  function apply(theme) {
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    for (const listener of listeners) listener(theme);
  }

  const wanted = () => chosen || (system.matches ? "dark" : "light");

  window.explane.onTheme = (listener) => listeners.push(listener);
  system.addEventListener("change", () => apply(wanted()));
  window.addEventListener("beforeprint", () => apply("light"));
  window.addEventListener("afterprint", () => apply(wanted()));
  document.getElementById("theme").addEventListener("click", () => {
    chosen = wanted() === "dark" ? "light" : "dark";
    apply(chosen);
  });
  root.dataset.theme = wanted();
})();
