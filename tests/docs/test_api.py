"""The examples of the public face give what its page shows, whatever the variables of the environment say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forgepack import api
from tests.docs.api_examples import Story, example_of, play_examples

# Each changes what a command does; a function must not know of it.
VARIABLES = {
    "FORGEPACK_PROFILE": "none",
    "FORGEPACK_VERIFY_DEPTH": "run",
    "SOURCE_DATE_EPOCH": "86400",
    "HF_ENDPOINT": "http://127.0.0.1:9",
    "HF_TOKEN": "hf_secret",
}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Run the whole story once."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        yield play_examples(tmp_path_factory.mktemp("story"))


@pytest.mark.parametrize("name", api.FUNCTIONS)
def test_an_example_gives_what_it_shows(name: str, story: Story) -> None:
    """Each function has an example, and every value in it is the one that it really gives."""
    assert example_of(getattr(api, name)).examples
    assert "" == story.told[name]


def test_no_token_is_sent_unless_it_is_named(story: Story) -> None:
    """The hub of the story was asked, and never with the token of the environment."""
    assert len(story.asked) > 10
    assert [] == [one.path for one in story.asked if "authorization" in one.headers]
