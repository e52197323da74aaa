"""A browser for tests: the distribution's own, for none can be downloaded everywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.conftest import Unavailable
from tests.patience import PATIENCE_S

WAIT_MS = 1_000 * PATIENCE_S
"""How long a page on a busy machine may take for what a test waits for; five seconds are its own."""


def chromium_path() -> str | None:
    """Return the program, or None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("MESH_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")  # Playwright keeps a loop running in this thread while it lives
def chromium(unavailable: Unavailable) -> Iterator[Browser]:
    """The distribution's Chromium, headless."""
    path = chromium_path()
    if path is None:
        unavailable("browser", "no Chromium: apt-get install chromium, or name it by MESH_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        expect.set_options(timeout=WAIT_MS)
        yield browser
        browser.close()
