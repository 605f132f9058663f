"use strict";
/**
 * One thing picked on the page: an operation (`op`), a Python line (`line`) or a `scope`.
 *
 * The key of an operation is its program and its instruction: programs use the same names.
 * Tables and charts register a listener and show the picked thing in their own way; whoever lets
 * the user choose calls `pick`. Names are only compared and shown as text, never read as markup.
 */
window.explane = (() => {
  const listeners = [];
  let picked = { kind: "", key: "" };

  /** Picks a thing, or nothing when it was picked already. */
  function pick(kind, key) {
    const same = picked.kind === kind && picked.key === key;
    picked = same || !key ? { kind: "", key: "" } : { kind, key };
    for (const listener of listeners) listener(picked);
  }

  const facts = new Map();

  /** Notes the line and the scope of an operation, to mark them when it is picked. */
  function learn(op, line, scope) {
    if (op && !facts.has(op)) facts.set(op, { line: line ?? "", scope: scope ?? "" });
  }

  /** What to mark as a kind of thing: the picked one, or the line or scope of the picked operation. */
  function wanted(kind) {
    if (picked.kind === kind) return picked.key;
    return picked.kind === "op" ? facts.get(picked.key)?.[kind] ?? "" : "";
  }

  /** Whether a scope is another one, or lies inside it. */
  const inside = (scope, outer) => `${scope}/`.startsWith(`${outer}/`);

  /** Calls `listener({kind, key})` now and whenever the choice changes. */
  function onPick(listener) {
    listeners.push(listener);
    listener(picked);
  }

  /** The data of the page. */
  const data = JSON.parse(document.getElementById("explane-data").textContent);

  /** A list of terms and texts as elements; empty texts are left out. */
  function describe(pairs) {
    const list = document.createElement("dl");
    for (const [term, text] of pairs) {
      if (text === "" || text === null || text === undefined) continue;
      list.append(
        Object.assign(document.createElement("dt"), { textContent: term }),
        Object.assign(document.createElement("dd"), { textContent: String(text) }),
      );
    }
    return list;
  }

  const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);

  /** Shows a tooltip near the pointer; null hides it. */
  function showTip(event, pairs) {
    tip.hidden = pairs === null;
    if (pairs === null) return;
    tip.replaceChildren(describe(pairs));
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 16;
    const top = below + tip.offsetHeight > window.innerHeight
      ? event.clientY - tip.offsetHeight - 10
      : below;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.max(top, 4)}px`;
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      showTip(event, null);
      pick("", "");
    }
  });

  return { pick, onPick, picked: () => picked, wanted, learn, inside, data, describe, showTip };
})();
