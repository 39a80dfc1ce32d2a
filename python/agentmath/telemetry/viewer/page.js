// The page: numbers on top, then curves, evaluations, trajectories and the recipe.

function tile({ label, unit, before, after }) {
  const moved = typeof before === "number";
  const value = el(
    "div",
    "value",
    moved ? el("span", "from", format(before, unit) + " \u2192 ") : null,
    format(after, unit),
  );
  const node = el("div", "card tile" + (moved ? " wide" : ""), el("div", "label", label), value);
  if (moved && unit === "share") {
    const longer = el("i"),
      shorter = el("i");
    longer.style.width = `${Math.max(before, after) * 100}%`;
    shorter.style.width = `${Math.min(before, after) * 100}%`;
    node.append(el("div", "bar", longer, shorter));
  }
  return node;
}

function evaluations({ names, rows }) {
  const title = (name) => el("th", "", shown(name.replaceAll("_", " ")));
  const cell = (value) => el("td", "", typeof value === "number" ? compact(value) : shown(String(value ?? "-")));
  const table = el(
    "table",
    "",
    el("thead", "", el("tr", "", ...names.map(title))),
    el("tbody", "", ...rows.map((r) => el("tr", "", ...r.map(cell)))),
  );
  return el("section", "", el("div", "head", el("h2", "", "Evaluations")), el("div", "card scroll", table));
}

function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const state = data.finished ? el("span", "badge good", "finished") : el("span", "badge warn", "no summary yet");
  page.append(el("div", "top", el("h1", "", shown(data.name)), state), el("div", "tiles", ...data.tiles.map(tile)));
  for (const section of data.sections) page.append(new ChartSection(section).node);
  if (data.evaluations.rows.length) page.append(evaluations(data.evaluations));
  if (data.trajectories.length) page.append(new Reader(data.trajectories, data.notes).node);
  else for (const note of data.notes) page.append(el("p", "notes", note));
  if (data.recipe)
    page.append(
      el(
        "section",
        "",
        el("div", "head", el("h2", "", "Recipe")),
        el("details", "recipe", el("summary", "", "recipe.toml"), el("pre", "card", shown(data.recipe))),
      ),
    );
}

main();
