"""The status page in a real browser: it runs under its own content policy and shows what the counters hold."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from serving import Serving

from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from slipstream.completion import CompletionRequest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
async def test_the_page_shows_each_language_and_drafter(running: Serving, tmp_path: Path) -> None:
    for language in ("python", "python", "rust"):
        await running.complete(
            CompletionRequest(prefix="x = 1\n", language=language, sampling=SamplingConfig(), stop=StopRules())
        )
    process = await asyncio.create_subprocess_exec(
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=3000",
        "--dump-dom",
        f"http://{running.addresses.http}/",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 90)
    page = out.decode()
    assert ">serving<" in page
    rows = re.findall(r"<tr>(.*?)</tr>", page.split('id="languages">')[1].split("</tbody>")[0])
    cells = [re.sub(r"<[^>]+>", "|", row) for row in rows]
    assert len(cells) == 2
    assert "|python|" in cells[0]
    assert "|mix|" in cells[0]
    assert "|128|" in cells[0]  # tokens of both requests
    assert "|speculating|" in cells[0]
    assert "|rust|" in cells[1]
