"use strict";
// Examples, those that went wrong first: what they say, what is right and what
// was predicted; texts with both marked.
views.examples = function (root, data) {
  const NAMES = {gold: "right", predicted: "predicted", both: "both"};
  root.classList.add("examples");
  const used = new Set(data.flatMap(one => one.parts.map(part => part[1])));
  const legend = Object.keys(NAMES).filter(mark => used.has(mark));
  if (legend.length) {
    root.append(make("p", {class: "legend"}, "Marked: ", ...legend.flatMap(
      mark => [make("mark", {class: mark}, NAMES[mark]), " "])));
  }
  for (const one of data) {
    const facts = one.facts.map(([name, text]) => make("div", {},
      make("span", {class: "name"}, `${name}: `),
      make("bdi", {}, text)));
    const parts = one.parts.map(([text, mark, note]) => {
      if (!mark) return text;
      const marked = make("mark", {class: mark}, make("bdi", {}, text));
      if (note) marked.append(make("sub", {}, note));
      return marked;
    });
    const verdict = one.is_right ? "right" : "wrong";
    root.append(make("article", {class: verdict},
      make("strong", {}, one.is_right ? "✓ right" : "✗ wrong"),
      ...facts,
      ...(parts.length ? [make("p", {dir: "auto"}, ...parts)] : [])));
  }
};
