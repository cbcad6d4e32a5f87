"""Page: text, tables, charts and views of your own in one HTML file."""

import base64
import contextlib
import hashlib
import html
import importlib.resources
import json
import math
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_bert_ref import files

HERE = importlib.resources.files("keras_bert_ref.pages")
# What a browser could take for the end of the data, or of a line.
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def read_part(name: str) -> str:
    """A script or style of this package."""
    return (HERE / name).read_text(encoding="utf-8")


class Page:
    """A page, from top to bottom; every method returns the page.

    Text of all kinds is plain text, never HTML.

    Args:
        title: of the window, and the heading.
        language: of its text, such as "en" or "ko".
    """

    def __init__(self, title: str, language: str = "en"):
        self.title, self.language = title, language
        self._body: list[str] = [f'<h1 dir="auto">{_escape(title)}</h1>']
        self._views: list[dict] = []
        self._scripts = [read_part("page.js")]
        self._styles = [read_part("page.css")]

    def add_heading(self, text: str) -> "Page":
        return self._add(f'<h2 dir="auto">{_escape(text)}</h2>')

    def add_text(self, text: str) -> "Page":
        """A paragraph."""
        return self._add(f'<p dir="auto">{_escape(text)}</p>')

    def add_code(self, text: str) -> "Page":
        """Lines as they are, such as a command."""
        return self._add(f'<pre tabindex="0">{_escape(text)}</pre>')

    def add_link(self, text: str, address: str) -> "Page":
        """A link to a file beside this page, or to a site.

        Raises:
            ValueError: the address would run a script.
        """
        scheme = urllib.parse.urlsplit(address.strip()).scheme
        if scheme not in ("", "http", "https"):
            raise ValueError(
                "A link leads to a file beside the page or to a site, not to "
                f"{address!r}; give a relative path or an https address."
            )
        target = html.escape(address, quote=True)
        return self._add(
            f'<p dir="auto"><a href="{target}">{_escape(text)}</a></p>'
        )

    def add_table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        caption: str = "",
    ) -> "Page":
        """A table; numbers stand to the right, wide tables scroll.

        Args:
            columns: names; if all are empty, there is no line of names.
        """
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(
                    f"A row of a table needs {len(columns)} cells, one for "
                    f"each column, not {len(row)}: {list(row)!r}."
                )
        numeric = [
            any(_is_number(row[i]) for row in rows)
            and all(_is_number(row[i]) or row[i] in ("", "-") for row in rows)
            for i in range(len(columns))
        ]
        lines = [f"<caption>{_escape(caption)}</caption>"] if caption else []
        lines_of_cells = [("td", row) for row in rows]
        if any(columns):
            lines_of_cells.insert(0, ("th", columns))
        for tag, cells in lines_of_cells:
            shown = [
                f'<{tag} class="number">{_escape(cell)}</{tag}>'
                if is_numeric
                else f'<{tag} dir="auto">{_escape(cell)}</{tag}>'
                for cell, is_numeric in zip(cells, numeric, strict=True)
            ]
            lines.append(f"<tr>{''.join(shown)}</tr>")
        table = f"<table>{''.join(lines)}</table>"
        return self._add(f'<div class="wide" tabindex="0">{table}</div>')

    def add_chart(
        self,
        title: str,
        series: Mapping[str, Sequence[tuple[float, float]]],
        x_label: str = "step",
        y_label: str = "",
    ) -> "Page":
        """Lines over a common x axis, with zoom and values on hover.

        Args:
            series: name -> its points (x, y), in the order of x. Points that
                are not finite are left out.
        """
        data = {
            "title": title,
            "x_label": x_label,
            "y_label": y_label,
            "series": [
                {
                    "name": name,
                    "points": [
                        [float(x), float(y)]
                        for x, y in points
                        if math.isfinite(x) and math.isfinite(y)
                    ],
                }
                for name, points in series.items()
            ],
        }
        return self.add_view("chart", data, script=read_part("chart.js"))

    def add_view(
        self, name: str, data: Any, *, script: str, style: str = ""
    ) -> "Page":
        """Something that a script draws.

        Args:
            name: of the view. The script sets `views[name] = (root, data) =>
                ...`, which fills the element `root`.
            data: whatever JSON can hold, and NumPy arrays from `pack_array`.
            script, style: go into the page once, however many views use them.
        """
        if script not in self._scripts:
            self._scripts.append(script)
        if style and style not in self._styles:
            self._styles.append(style)
        self._body.append(f'<div class="view" id="view-{len(self._views)}">')
        self._views.append({"name": name, "data": data})
        return self._add("</div>")

    @contextlib.contextmanager
    def section(self, title: str, is_open: bool = False) -> Iterator["Page"]:
        """Puts what is added within the block below a title that opens it."""
        opened = " open" if is_open else ""
        self._add(
            f'<details{opened}><summary dir="auto">{_escape(title)}</summary>'
        )
        yield self
        self._add("</details>")

    def to_html(self) -> str:
        """The page."""
        self_made = [*self._scripts, "showViews();\n"]
        policy = "; ".join(
            [
                "default-src 'none'",
                "img-src data:",
                f"style-src {_hashes(self._styles)}",
                f"script-src {_hashes(self_made)}",
            ]
        )
        return "\n".join(
            [
                "<!DOCTYPE html>",
                f'<html lang="{html.escape(self.language, quote=True)}">',
                "<head>",
                '<meta charset="utf-8">',
                '<meta http-equiv="Content-Security-Policy" '
                f'content="{policy}">',
                '<meta name="viewport" '
                'content="width=device-width, initial-scale=1">',
                '<link rel="icon" href="data:,">',
                f"<title>{_escape(self.title)}</title>",
                *(f"<style>{style}</style>" for style in self._styles),
                "</head>",
                "<body>",
                "<main>",
                *self._body,
                "</main>",
                f'<script type="application/json" id="data">'
                f"{to_json(self._views)}</script>",
                *(f"<script>{script}</script>" for script in self_made),
                "</body>",
                "</html>\n",
            ]
        )

    def write(self, path: str) -> None:
        """Writes the file, when it is whole."""
        files.replace(path, self.to_html())

    def _add(self, line: str) -> "Page":
        self._body.append(line)
        return self


# Types of arrays in a page, as NumPy stores them in it.
ARRAY_TYPES = {"float32": "<f4", "float16": "<f2", "int32": "<i4"}


def pack_array(array, kind: str | None = None) -> dict:
    """A NumPy array as JSON data; `unpackArray` of page.js makes a typed
    array of it.

    Args:
        kind: one of ARRAY_TYPES; float16 takes half the room and keeps three
            digits. None: float32 for floats, int32 for integers.
    """
    kind = kind or ("float32" if array.dtype.kind == "f" else "int32")
    content = array.astype(ARRAY_TYPES[kind]).tobytes()
    return {
        "type": kind,
        "shape": list(array.shape),
        "base64": base64.b64encode(content).decode("ascii"),
    }


def to_json(data: Any) -> str:
    """JSON that stays data within a page, whatever text it holds.

    Raises:
        ValueError: a number is not finite; JSON has no such numbers.
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(
            f"The data of a page must be finite numbers ({error}); leave out "
            "what is not, or make it None."
        ) from None
    # Half of a surrogate pair is no character; UTF-8 cannot hold it.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text.translate(ESCAPES)


def _escape(value: Any) -> str:
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return html.escape(text, quote=True)


def _is_number(value: Any) -> bool:
    try:
        float(str(value).rstrip("%").replace(",", ""))
    except ValueError:
        return False
    return True


def _hashes(sources: Sequence[str]) -> str:
    """What a Content-Security-Policy allows: these sources and no others."""
    digests = [hashlib.sha256(source.encode()).digest() for source in sources]
    return " ".join(
        f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests
    )
