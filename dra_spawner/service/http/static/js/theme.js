/* Light or dark, as on JupyterHub's pages: a choice there holds here, and the other way round.
   No module, so that it runs before the page is painted. */
"use strict";
(() => {
  const KEY = "jupyterhub-bs-theme";
  const root = document.documentElement;
  const isDark = window.matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is forbidden
    }
  }

  function show() {
    const chosen = stored();
    root.dataset.bsTheme = chosen === "light" || chosen === "dark" ? chosen : isDark.matches ? "dark" : "light";
  }

  show();
  isDark.addEventListener("change", show);
  window.addEventListener("storage", show);
  document.addEventListener("DOMContentLoaded", () => {
    // On a phone the links scroll sideways.
    const links = document.querySelector(".pages nav");
    const current = links.querySelector("[aria-current]");
    const showCurrent = () => {
      if (current) links.scrollLeft = current.offsetLeft - (links.clientWidth - current.offsetWidth) / 2;
    };
    showCurrent();
    window.addEventListener("resize", showCurrent);
    const toggle = document.getElementById("dark-theme-toggle");
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      const theme = root.dataset.bsTheme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // The choice then lasts as long as the page.
      }
      root.dataset.bsTheme = theme;
    });
  });
})();
