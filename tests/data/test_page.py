"""The code on the page "Data and licenses" runs, but for what would be fetched."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "book" / "data.md"


def test_the_code_of_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    names: dict = {}
    for block in blocks:
        code = compile(block, "data.md", "exec")
        if "download=True" not in block:
            exec(code, names)
    # a fraction of the places of plainly shuffled batches is padding, here next to none
    assert names["sampler"].padding() < 0.05
    # the windows of the weather: nothing is known of what comes, and every part has some
    for part in (names["train"], names["valid"], names["test"]):
        assert len(part) > 700 and part.past.shape[1:] == (48, 3)
    assert names["x"].shape == names["y"].shape == names["reset"].shape
