"use strict";
/** Tables: sorted by a click on a heading, filtered by words, rows of the picked thing marked. */
(() => {
  const collator = new Intl.Collator("en", { numeric: true });

  /** The value that a cell is sorted by: its number, its text, or null when it is missing. */
  function key(cell, numeric) {
    const value = cell.querySelector("[data-claim]");
    const raw = value.dataset.raw ?? value.textContent;
    if (raw === "" || value.classList.contains("missing")) return null;
    return numeric ? Number(raw) : raw;
  }

  /** Sorts a table's body by a column; missing values come last either way. */
  function sort(table, column, descending) {
    const numeric = table.tHead.rows[0].cells[column].classList.contains("number");
    const rows = [...table.tBodies[0].rows].map((row) => [key(row.cells[column], numeric), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = numeric ? a - b : collator.compare(a, b);
      return descending ? -order : order;
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const cell of table.tHead.rows[0].cells) {
      const mine = cell.cellIndex === column;
      cell.setAttribute("aria-sort", mine ? (descending ? "descending" : "ascending") : "none");
    }
  }

  /** Hides rows that lack one of the words; says how many are left. */
  function filter(box, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of box.querySelectorAll("tbody tr")) {
      const content = row.dataset.search;
      const fits = words.every((word) => content.includes(word));
      row.classList.toggle("hidden", !fits);
      shown += fits;
    }
    box.querySelector(".empty").style.display = shown ? "none" : "block";
    box.querySelector(".status").textContent = words.length ? `${shown} rows match` : "";
  }

  for (const box of document.querySelectorAll(".tablebox")) {
    const table = box.querySelector("table");
    for (const row of table.tBodies[0].rows) {
      const raws = [...row.querySelectorAll("[data-raw]")].map((cell) => cell.dataset.raw);
      row.dataset.search = [row.textContent, ...raws].join(" ").toLowerCase();
    }
    table.tHead.addEventListener("click", (event) => {
      const heading = event.target.closest("th");
      if (!heading) return;
      const numeric = heading.classList.contains("number");
      const now = heading.getAttribute("aria-sort");
      const descending = now === "none" || !now ? numeric : now === "ascending";
      sort(table, heading.cellIndex, descending);
    });
    box.querySelector("input")?.addEventListener("input", (event) => filter(box, event.target.value));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.pick");
    if (button) window.explane.pick(button.dataset.pick, button.dataset.key);
  });

  const marked = [...document.querySelectorAll("tr[data-op], tr[data-line], tr[data-scope]")];
  for (const { dataset } of marked) window.explane.learn(dataset.op, dataset.line, dataset.scope);

  /** Whether a row is about the picked thing, or is the line of the picked operation. */
  function fits({ op, line, scope }, kind, picked) {
    if (!picked) return false;
    if (kind === "scope") return scope !== undefined && window.explane.inside(scope, picked);
    if (kind === "op" && !op) return line !== undefined && line === window.explane.wanted("line");
    return (kind === "op" ? op : line) === picked;
  }

  window.explane.onPick(({ kind, key: picked }) => {
    for (const row of marked) row.classList.toggle("picked", fits(row.dataset, kind, picked));
    for (const button of document.querySelectorAll("button.pick")) {
      const mine = button.dataset.pick === kind && button.dataset.key === picked;
      button.setAttribute("aria-pressed", String(mine));
    }
  });
})();
