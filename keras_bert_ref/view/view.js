"use strict";
// What a BERT does with one text: attention, neurons, masked words,
// embeddings, outputs; of one model, or of two side by side.
views.bert = function (root, data) {
  const SPECIAL = new Set(["[CLS]", "[SEP]"]);
  const HIDDEN = 256;  // the colour of what is not shown
  const FILTERS = ["all", "A to A", "A to B", "B to A", "B to B"];
  const models = data.models.map(unpackModel);
  const state = {
    layer: 0, head: 0, filter: "all", hidesSpecial: false, shape: "matrix",
    query: 0, key: 0, word: 1,
  };
  const drawers = [];  // each redraws one part from the state

  root.classList.add("bert");
  addHeads();
  addNeurons();
  addMaskedWords();
  addEmbeddings();
  addOutputs();
  redraw();

  function redraw() { drawers.forEach(draw => draw()); }
  function set(changes) { Object.assign(state, changes); redraw(); }

  function unpackModel(packed) {
    const [layers, heads, tokens] = packed.attention.shape;
    return {
      ...packed, layers, heads, size: tokens,
      headSize: packed.queries.shape[3],
      attention: unpackArray(packed.attention),
      queries: unpackArray(packed.queries),
      keys: unpackArray(packed.keys),
      embeddings: Object.fromEntries(Object.entries(packed.embeddings).map(
        ([name, array]) => [name, unpackArray(array)])),
    };
  }

  // Attention of a head, or the mean of a layer's heads where head is -1.
  function weight(model, layer, head, i, j) {
    const {heads, size, attention} = model;
    const at = h => attention[((layer * heads + h) * size + i) * size + j];
    if (head >= 0) return at(head);
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += at(h);
    return sum / heads;
  }

  function isShown(model, i, j) {
    if (state.hidesSpecial &&
        (SPECIAL.has(model.tokens[i]) || SPECIAL.has(model.tokens[j]))) {
      return false;
    }
    if (state.filter === "all") return true;
    const side = k => "AB"[model.segments[k]];
    return state.filter === `${side(i)} to ${side(j)}`;
  }

  // A part of the page: a heading, controls, and a column for each model.
  function addPart(title, note, controls, fill) {
    const columns = make("div", {class: "columns"});
    root.append(make("section", {},
      make("h2", {}, title), make("p", {class: "note"}, note),
      ...(controls.length
        ? [make("div", {class: "controls"}, ...controls)] : []),
      columns));
    for (const model of models) {
      const column = make("div", {class: "column"});
      if (models.length > 1) {
        column.append(make("h3", {dir: "auto"}, model.name));
      }
      columns.append(column);
      fill(column, model);
    }
  }

  function addChoice(label, name, options, texts = options) {
    const select = make("select", {
      "aria-label": label, "data-name": name,
      onchange: () => {
        const value = options[select.selectedIndex];
        set({[name]: value});
      },
    }, ...texts.map(text => make("option", {}, String(text))));
    drawers.push(() => { select.selectedIndex = options.indexOf(state[name]); });
    return make("label", {}, `${label} `, select);
  }

  function addSwitch(label, name) {
    const box = make("input", {
      type: "checkbox", "data-name": name,
      onchange: () => set({[name]: box.checked}),
    });
    drawers.push(() => { box.checked = state[name]; });
    return make("label", {}, box, ` ${label}`);
  }

  function numbers(count, first = 0) {
    return Array.from({length: count}, (_, i) => i + first);
  }

  function largest(name) { return Math.max(...models.map(m => m[name])); }

  // Tokens as buttons, one of which is pressed.
  function addTokens(column, model, name, isOffered = () => true) {
    const row = make("div", {class: "tokens"});
    const buttons = model.tokens.map((token, i) => {
      const button = make("button", {
        class: `token segment-${model.segments[i]}`, dir: "auto",
        onclick: () => set({[name]: i}),
      }, token);
      button.disabled = !isOffered(i);
      row.append(button);
      return button;
    });
    drawers.push(() => buttons.forEach((button, i) =>
      button.setAttribute("aria-pressed", String(i === state[name]))));
    column.append(row);
  }

  // 256 colours for values from 0 to 1, and HIDDEN, as the pixels of a canvas
  // have them.
  function palette() {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const [from, to] = isDark
      ? [[33, 36, 41], [138, 180, 248]] : [[244, 246, 248], [11, 60, 160]];
    const bytes = new Uint8ClampedArray(4 * 257);
    for (let n = 0; n < 256; n++) {
      const mixed = from.map((a, k) => a + (to[k] - a) * n / 255);
      bytes.set([...mixed, 255], 4 * n);
    }
    bytes.set([128, 128, 128, 40], 4 * HIDDEN);
    return new Uint32Array(bytes.buffer);
  }

  // Paints numbers of colours into a canvas, one pixel each.
  function paint(canvas, width, height, colourAt) {
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = palette();
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        pixels[y * width + x] = colours[colourAt(x, y)];
      }
    }
    context.putImageData(image, 0, 0);
  }

  // The colour of a weight; its root, so that small ones can be seen.
  function colour(weight) { return Math.round(255 * Math.sqrt(weight)); }

  // Which pairs of tokens the filters leave, [query * size + key].
  function shownPairs(model) {
    return model.tokens.flatMap((_, i) =>
      model.tokens.map((_, j) => isShown(model, i, j)));
  }

  function moveKey(event, moves) {
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  }
  function clamp(value, count) {
    return Math.min(count - 1, Math.max(0, value));
  }

  function addHeads() {
    const layers = numbers(largest("layers"));
    const heads = numbers(largest("heads") + 1, -1);
    addPart("Heads", "Every small square is one head: a row for each token " +
      "that looks, a column for each that is looked at. Choose one to see " +
      "it large.", [
      addChoice("Layer", "layer", layers, layers.map(i => i + 1)),
      addChoice("Head", "head", heads,
        heads.map(i => i < 0 ? "mean of the layer" : i + 1)),
      addChoice("Show", "filter", FILTERS),
      addChoice("As", "shape", ["matrix", "lines"]),
      addSwitch("hide [CLS] and [SEP]", "hidesSpecial"),
    ], (column, model) => column.append(make("div", {class: "pair"},
      makeGrid(model), makeHead(model))));
  }

  function makeGrid(model) {
    const cell = model.size + 1;  // with a line between heads
    const canvas = make("canvas", {
      class: "grid", tabindex: 0, role: "img",
      "aria-label": "All heads, a row for each layer; arrow keys choose one.",
      onclick: event => {
        const box = canvas.getBoundingClientRect();
        set({
          layer: clamp(Math.floor((event.clientY - box.top) / box.height *
            model.layers), model.layers),
          head: clamp(Math.floor((event.clientX - box.left) / box.width *
            model.heads), model.heads),
        });
      },
      onkeydown: event => moveKey(event, {
        ArrowUp: () => set({layer: clamp(state.layer - 1, model.layers)}),
        ArrowDown: () => set({layer: clamp(state.layer + 1, model.layers)}),
        ArrowLeft: () => set({head: clamp(state.head - 1, model.heads)}),
        ArrowRight: () => set({head: clamp(state.head + 1, model.heads)}),
      }),
    });
    const mark = make("div", {class: "mark"});
    let shown = "";
    drawers.push(() => {
      const isMean = state.head < 0;
      Object.assign(mark.style, {
        top: `${100 * clamp(state.layer, model.layers) / model.layers}%`,
        height: `${100 / model.layers}%`,
        left: `${isMean ? 0 : 100 * clamp(state.head, model.heads) / model.heads}%`,
        width: `${isMean ? 100 : 100 / model.heads}%`,
      });
      const wanted = [state.filter, state.hidesSpecial].join();
      if (wanted === shown) return;
      shown = wanted;
      const pairs = shownPairs(model);
      paint(canvas, model.heads * cell, model.layers * cell, (x, y) => {
        const [head, j] = [Math.floor(x / cell), x % cell];
        const [layer, i] = [Math.floor(y / cell), y % cell];
        const isShown = i < model.size && j < model.size &&
          pairs[i * model.size + j];
        return isShown ? colour(weight(model, layer, head, i, j)) : HIDDEN;
      });
    });
    const place = make("div", {class: "stack"}, canvas, mark);
    place.style.width = `${Math.min(40, 8 * model.heads)}rem`;
    return place;
  }

  function makeHead(model) {
    const place = make("div", {class: "scroll"});
    const readout = make("p", {class: "readout", "aria-live": "polite"});
    drawers.push(() => {
      const layer = clamp(state.layer, model.layers);
      const head = Math.min(state.head, model.heads - 1);  // -1: the mean
      const at = (i, j) => weight(model, layer, head, i, j);
      const draw = state.shape === "matrix" ? drawMatrix : drawLines;
      const hadFocus = place.contains(document.activeElement);
      place.replaceChildren(draw(model, at));
      if (hadFocus) place.querySelector("[tabindex]")?.focus();
      const [i, j] = [clamp(state.query, model.size), clamp(state.key, model.size)];
      readout.textContent = `Layer ${layer + 1}, ` +
        (head < 0 ? "mean of its heads" : `head ${head + 1}`) +
        `: ${model.tokens[i]} looks at ${model.tokens[j]} with weight ` +
        `${at(i, j).toFixed(3)}.`;
    });
    return make("div", {}, place, readout);
  }

  function drawMatrix(model, at) {
    const canvas = make("canvas", {
      class: "matrix", tabindex: 0, role: "img",
      "aria-label": "The head as a matrix; arrow keys choose two tokens.",
      onkeydown: event => moveKey(event, {
        ArrowUp: () => set({query: clamp(state.query - 1, model.size)}),
        ArrowDown: () => set({query: clamp(state.query + 1, model.size)}),
        ArrowLeft: () => set({key: clamp(state.key - 1, model.size)}),
        ArrowRight: () => set({key: clamp(state.key + 1, model.size)}),
      }),
    });
    paint(canvas, model.size, model.size,
      (j, i) => isShown(model, i, j) ? colour(at(i, j)) : HIDDEN);
    const size = 18;
    canvas.style.width = canvas.style.height = `${model.size * size}px`;
    const mark = make("div", {class: "mark one"});
    mark.style.left = `${clamp(state.key, model.size) * size}px`;
    mark.style.top = `${clamp(state.query, model.size) * size}px`;
    canvas.addEventListener("click", event => {
      const box = canvas.getBoundingClientRect();
      set({
        query: clamp(Math.floor((event.clientY - box.top) / size), model.size),
        key: clamp(Math.floor((event.clientX - box.left) / size), model.size),
      });
    });
    const names = side => make("div", {class: `names ${side}`},
      ...model.tokens.map(token => make("span", {dir: "auto"}, token)));
    return make("div", {class: "labelled"}, names("above"), names("before"),
      make("div", {class: "stack"}, canvas, mark));
  }

  function drawLines(model, at) {
    const [row, width] = [20, 360];
    const svg = make("svg", {
      class: "lines", width, height: model.size * row, tabindex: 0, role: "img",
      "aria-label": "The head as lines from tokens that look to tokens that " +
        "are looked at; up and down choose one.",
      onkeydown: event => moveKey(event, {
        ArrowUp: () => set({query: clamp(state.query - 1, model.size)}),
        ArrowDown: () => set({query: clamp(state.query + 1, model.size)}),
      }),
    });
    const middle = i => (i + 0.5) * row;
    for (let i = 0; i < model.size; i++) {
      for (let j = 0; j < model.size; j++) {
        const value = at(i, j);
        if (value < 0.02 || !isShown(model, i, j)) continue;
        const line = make("line", {
          x1: 120, y1: middle(i), x2: width - 120, y2: middle(j),
          class: i === state.query ? "line chosen" : "line",
        });
        line.style.opacity = value;
        svg.append(line);
      }
      const texts = [
        make("text", {x: 114, y: middle(i) + 4, "text-anchor": "end"}),
        make("text", {x: width - 114, y: middle(i) + 4}),
      ];
      texts.forEach((text, side) => {
        text.textContent = model.tokens[i];
        text.addEventListener("click",
          () => set(side ? {key: i} : {query: i}));
        if (i === (side ? state.key : state.query)) {
          text.classList.add("chosen");
        }
        svg.append(text);
      });
    }
    return svg;
  }

  function vector(model, array, token) {
    const {heads, size, headSize} = model;
    const layer = clamp(state.layer, model.layers);
    const head = clamp(state.head, heads);
    const start = ((layer * heads + head) * size + token) * headSize;
    return Array.from(array.subarray(start, start + headSize));
  }

  function addNeurons() {
    addPart("Neurons: how a weight comes about",
      "The query of one token is multiplied with the key of another, number " +
      "by number. The sum, divided by the square root of their length, is " +
      "the score; softmax over the scores of all keys gives the weights. " +
      "(Numbers of the page are rounded to three digits.)", [],
      (column, model) => {
        column.append(make("p", {}, "Who looks:"));
        addTokens(column, model, "query");
        column.append(make("p", {}, "At whom:"));
        addTokens(column, model, "key");
        const bars = make("div", {class: "bars"});
        const formula = make("p", {class: "formula"});
        const table = make("div", {class: "wide", tabindex: 0});
        column.append(make("div", {class: "pair"},
          make("div", {class: "room"}, bars, formula), table));
        drawers.push(() => drawNeurons(model, bars, formula, table));
      });
  }

  function drawNeurons(model, bars, formula, table) {
    const i = clamp(state.query, model.size);
    const j = clamp(state.key, model.size);
    const q = vector(model, model.queries, i);
    const root = Math.sqrt(model.headSize);
    const scores = model.tokens.map((_, key) => {
      const k = vector(model, model.keys, key);
      return q.reduce((sum, value, n) => sum + value * k[n], 0) / root;
    });
    const top = Math.max(...scores);
    const powers = scores.map(score => Math.exp(score - top));
    const total = powers.reduce((a, b) => a + b);
    const k = vector(model, model.keys, j);
    const product = q.map((value, n) => value * k[n]);
    bars.replaceChildren(
      addBars(`query of ${model.tokens[i]}`, q),
      addBars(`key of ${model.tokens[j]}`, k),
      addBars("product", product));
    const sum = product.reduce((a, b) => a + b, 0);
    const head = clamp(state.head, model.heads) + 1;
    formula.textContent = `Head ${head}: score = ${sum.toFixed(2)} / √${model.headSize} = ` +
      `${scores[j].toFixed(2)};  weight = e^${scores[j].toFixed(2)} / ` +
      `sum = ${(powers[j] / total).toFixed(3)}`;
    const cell = (tag, text, attributes = {}) => make(tag, attributes, text);
    const number = {class: "number"};
    table.replaceChildren(make("table", {},
      make("tr", {}, cell("th", "key"), cell("th", "score", number),
        cell("th", "weight", number)),
      ...model.tokens.map((token, key) => make("tr",
        key === j ? {class: "chosen"} : {},
        cell("td", token, {dir: "auto"}),
        cell("td", scores[key].toFixed(2), number),
        cell("td", (powers[key] / total).toFixed(3), number)))));
  }

  // Numbers as a strip: up for positive, down for negative.
  function addBars(label, values) {
    const [step, height] = [Math.max(2, Math.floor(320 / values.length)), 48];
    const largest = Math.max(1e-9, ...values.map(Math.abs));
    const svg = make("svg", {
      class: "strip", height, viewBox: `0 0 ${step * values.length} ${height}`,
      preserveAspectRatio: "none", role: "img", "aria-label": label,
    });
    values.forEach((value, n) => {
      const size = Math.abs(value) / largest * height / 2;
      svg.append(make("rect", {
        x: n * step, width: step - 0.5, height: size,
        y: value > 0 ? height / 2 - size : height / 2,
        class: value > 0 ? "positive" : "negative",
      }));
    });
    return make("div", {}, make("span", {class: "label", dir: "auto"}, label),
      svg);
  }

  function addMaskedWords() {
    if (!models.some(model => model.predictions)) return;
    addPart("Masked words", "Choose a word: it is replaced by [MASK], and " +
      "these are the predictions of the last layer, and of each layer before " +
      "it through the same head: how a prediction forms.", [],
      (column, model) => {
        if (!model.predictions) {
          column.append(make("p", {}, "This model has no head for words."));
          return;
        }
        addTokens(column, model, "word", i => model.predictions[i] !== null);
        const table = make("div", {class: "wide", tabindex: 0});
        column.append(table);
        drawers.push(() => {
          const rows = model.predictions[clamp(state.word, model.size)];
          table.replaceChildren(make("table", {class: "predictions"},
            ...(rows || []).map((row, layer) => make("tr", {},
              make("th", {}, layer ? `layer ${layer}` : "embeddings"),
              ...row.map(([word, share]) => make("td",
                word === model.tokens[state.word] ? {class: "chosen"} : {},
                make("span", {dir: "auto"}, word),
                ` ${(100 * share).toFixed(1)}%`)))).reverse()));
        });
      });
  }

  function addEmbeddings() {
    addPart("Embeddings", "What enters the first layer: the sum of three " +
      "vectors, normalized; and the words whose vectors point in the most " +
      "similar directions.", [], (column, model) => {
      addTokens(column, model, "query");
      const strips = make("div", {class: "bars"});
      const near = make("p", {class: "near", dir: "auto"});
      column.append(strips, near);
      drawers.push(() => {
        const i = clamp(state.query, model.size);
        const {word, segment, position, output} = model.embeddings;
        const size = word.length / model.size;
        const take = (array, row) =>
          Array.from(array.subarray(row * size, (row + 1) * size));
        strips.replaceChildren(
          addBars(`word: ${model.tokens[i]}`, take(word, i)),
          addBars(`segment: ${"AB"[model.segments[i]]}`,
            take(segment, model.segments[i])),
          addBars(`position: ${i}`, take(position, i)),
          addBars("sum, normalized", take(output, i)));
        near.textContent = "Near: " + model.neighbours[i].map(
          ([name, value]) => `${name} ${value.toFixed(2)}`).join(", ");
      });
    });
  }

  function addOutputs() {
    if (!models.some(model => model.outputs.length)) return;
    addPart("Outputs", "What the model says about the text.", [],
      (column, model) => {
        for (const output of model.outputs) {
          column.append(make("h3", {}, output.title));
          if (output.text) column.append(make("p", {dir: "auto"}, output.text));
          if (output.shares) column.append(addShares(output.shares));
          if (output.scores) column.append(addScores(model, output));
        }
      });
  }

  function addShares(shares) {
    return make("div", {class: "wide", tabindex: 0}, make("table", {},
      ...shares.map(([label, share]) => {
        const bar = make("div", {class: "share"});
        bar.style.width = `${(100 * share).toFixed(1)}%`;
        return make("tr", {}, make("td", {dir: "auto"}, label),
          make("td", {class: "number"}, share.toFixed(3)),
          make("td", {class: "shares"}, bar));
      })));
  }

  function addScores(model, output) {
    const row = make("div", {class: "tokens"});
    const names = Object.keys(output.scores);
    model.tokens.forEach((token, i) => {
      const isChosen = output.span && i >= output.span[0] && i <= output.span[1];
      row.append(make("span", {
        class: isChosen ? "token chosen" : "token", dir: "auto",
      }, token, ...names.map(name => make("small", {},
        `${name} ${output.scores[name][i].toFixed(1)}`))));
    });
    return row;
  }
};
