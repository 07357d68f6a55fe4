// Sorts, filters and shortens the page's tables. Without it the page shows every row.
"use strict";
document.documentElement.classList.add("js");

(() => {
  const UNITS = {
    ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600,
    KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9,
  };
  const NUMBER = /([<>]?)\s*(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|-?inf|-?infinity)\s*([A-Za-zµ]*)/gi;
  const SPARED = 5; // so many more rows are not worth hiding
  const VERDICTS = ["error", "fail", "failed", "refused", "warning", "warn", "not-converted",
    "pass", "converted"];
  const collator = new Intl.Collator("en", { numeric: true });

  // All numbers of a cell, each with its bound (<0.01% is less than 0.01%); none for "-" and NaN.
  function numbers(text) {
    const keys = [];
    for (const [, bound, digits, unit] of text.matchAll(NUMBER)) {
      const plain = digits.replaceAll(",", "").toLowerCase();
      const value = plain.includes("inf") ? (plain[0] === "-" ? -Infinity : Infinity) : Number(plain);
      keys.push(value * (UNITS[unit] ?? 1), bound === "<" ? -1 : bound === ">" ? 1 : 0);
    }
    return keys;
  }

  function compareNumbers(a, b) {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    }
    return a.length - b.length;
  }

  function compareTexts(a, b) {
    const [x, y] = [VERDICTS.indexOf(a), VERDICTS.indexOf(b)];
    return x >= 0 && y >= 0 ? x - y : collator.compare(a, b);
  }

  function compareIn(column, numeric, sign) {
    const compare = numeric ? compareNumbers : compareTexts;
    const known = new Map();
    const key = (row) => {
      if (!known.has(row)) {
        const text = row.cells[column].textContent.trim();
        known.set(row, numeric ? numbers(text) : text === "-" ? "" : text);
      }
      return known.get(row);
    };
    return (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (!x.length || !y.length) return !x.length - !y.length; // nothing to compare: last, always
      return sign * compare(x, y);
    };
  }

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function enhance(table) {
    const body = table.tBodies[0];
    const given = [...body.rows];
    const most = Number(table.dataset.open);
    const long = given.length > most + SPARED;
    let rows = given;
    let all = false;
    let wanted = "";
    const status = element("span", { className: "status" });
    status.setAttribute("role", "status");
    const toggle = element("button", { type: "button", className: "more" });

    function show() {
      let matches = 0;
      for (const row of rows) {
        const fits = !wanted || row.textContent.toLowerCase().includes(wanted);
        matches += fits;
        row.hidden = !fits;
        row.classList.toggle("beyond", fits && !all && matches > most);
      }
      toggle.textContent = all ? `Show the first ${most} rows` : `Show all ${matches} rows`;
      toggle.hidden = matches <= most;
      toggle.setAttribute("aria-expanded", String(all));
      status.textContent = wanted ? `${matches} of ${given.length} rows` : `${given.length} rows`;
    }

    function sort(column, order) {
      const numeric = table.tHead.rows[0].cells[column].classList.contains("n");
      const sign = order === "descending" ? -1 : 1;
      rows = order === "none" ? given : [...given].sort(compareIn(column, numeric, sign));
      body.append(...rows);
      for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
        head.setAttribute("aria-sort", place === column ? order : "none");
      }
      show();
    }

    if (given.length > 1) {
      for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
        const button = element("button", { type: "button", className: "sort" }, ...head.childNodes);
        head.setAttribute("aria-sort", "none");
        const next = { none: "ascending", ascending: "descending", descending: "none" };
        button.addEventListener("click", () => sort(column, next[head.getAttribute("aria-sort")]));
        head.append(button);
      }
    }
    if (!long) return;
    const box = table.parentElement;
    const field = element("input", { type: "search", placeholder: "Filter rows" });
    field.setAttribute("aria-label", `Filter rows of ${table.getAttribute("aria-label")}`);
    field.addEventListener("input", () => {
      wanted = field.value.trim().toLowerCase();
      show();
    });
    toggle.addEventListener("click", () => {
      all = !all;
      show();
    });
    box.before(element("div", { className: "tools" }, field, status));
    box.after(toggle);
    show();
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const table of document.querySelectorAll("table[data-open]")) enhance(table);
  });
})();
