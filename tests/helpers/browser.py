"""A real browser for pages: Debian's chromium, driven by playwright."""

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

CHROMIUM = "/usr/bin/chromium"
WIDTHS = (380, 1600)
TIMEOUT = 600_000  # milliseconds: a busy machine is no error


@contextlib.contextmanager
def start() -> Iterator[Callable]:
    """Yields `visit(path, width=1600, **context)`: a context manager whose
    page must cause no script error and ask for nothing but its own file.

    Not for a whole session: while it runs, so does an event loop.
    """
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright; try make test-pages"
    )
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"needs a browser at {CHROMIUM}; try make test-pages")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=TIMEOUT
        )

        @contextlib.contextmanager
        def visit(path, width: int = 1600, **context) -> Iterator:
            viewport = {"width": width, "height": 900}
            page = browser.new_page(viewport=viewport, **context)
            page.set_default_timeout(TIMEOUT)
            errors, requests = [], []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda m: errors.append(m.text))
            page.on("request", lambda request: requests.append(request.url))
            page.goto(f"file://{path}")
            try:
                yield page
            finally:
                page.close()
            assert not errors, errors
            own = f"file://{path}"
            others = [url for url in requests if url not in (own, "data:,")]
            assert not others, others

        try:
            yield visit
        finally:
            browser.close()


def overflow(page) -> int:
    """Pixels by which a page is wider than its window."""
    return page.evaluate(
        "document.documentElement.scrollWidth - window.innerWidth"
    )
