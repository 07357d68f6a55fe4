// Uses the page as a person does, and writes what it saw into the page.
document.addEventListener("DOMContentLoaded", () => {
  const texts = (nodes) => [...nodes].map((node) => node.textContent.trim());
  const column = (table, place) => texts([...table.tBodies[0].rows].map((row) => row.cells[place]));
  const shown = (table) =>
    [...table.tBodies[0].rows].filter((row) => getComputedStyle(row).display !== "none").length;

  const sorting = document.getElementById("sorting");
  const sorts = [...sorting.tHead.rows[0].cells].map((head, place) => {
    const button = head.querySelector("button");
    button.focus();
    const focused = document.activeElement === button;
    const seen = [];
    for (let click = 0; click < 3; click++) {
      button.click();
      seen.push([head.getAttribute("aria-sort"), column(sorting, place)]);
    }
    return { name: head.textContent.trim(), focused, seen };
  });

  const long = document.querySelector('#layers table[aria-label="Error by layer"]');
  const box = long.parentElement;
  const field = box.previousElementSibling.querySelector("input");
  const status = box.previousElementSibling.querySelector("[role=status]");
  const toggle = box.nextElementSibling;
  const counts = [[shown(long), status.textContent, toggle.textContent]];
  const type = (text) => {
    field.value = text;
    field.dispatchEvent(new Event("input"));
    counts.push([shown(long), status.textContent, toggle.hidden ? "" : toggle.textContent]);
  };
  toggle.click();
  counts.push([shown(long), status.textContent, toggle.textContent]);
  type("LAYER.7");
  type("no such layer");
  type("");
  toggle.click();
  long.tHead.rows[0].cells[3].querySelector("button").click();
  long.tHead.rows[0].cells[3].querySelector("button").click();
  const worst = long.tBodies[0].rows[0].cells[0].textContent;
  counts.push([shown(long), status.textContent, toggle.textContent]);

  const root = document.documentElement;
  const style = getComputedStyle(document.body);
  const seen = {
    width: root.scrollWidth,
    window: innerWidth,
    paper: style.backgroundColor,
    ink: style.color,
    heat: getComputedStyle(document.querySelector("#heat svg path[style*=heat0]")).fill,
    sections: texts(document.querySelectorAll("main section > h2")),
    levels: [...document.querySelectorAll("h1, h2, h3")].map((head) => Number(head.tagName[1])),
    unnamed: document.querySelectorAll("svg:not([aria-label]), table:not([aria-label])").length,
    sorts,
    counts,
    worst,
  };
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = JSON.stringify(seen);
  document.body.append(pre);
});
