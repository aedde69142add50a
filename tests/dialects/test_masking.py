"""A shown config holds no secret, and everything else as it was."""

import time
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.dialects import mask_secrets
from burnish.dialects.masking import smells_of_secret

CASE = """
max_steps = 1
[optim]
lr = 1e-4   # not secret
[env_vars]
HF_TOKEN = "hf_FAKEfakeFAKE0001"
DB_URL = "postgres://u:fakepass99@host/db"
REGISTRY_PASSWORD = "fake-reg-pw"
TRITON_CACHE_DIR = "/tmp/.cache/triton_cache"
"""


def test_tokens_passwords_and_credentials_in_urls_are_hidden_and_nothing_else() -> None:
    shown = mask_secrets(CASE)
    for secret in ("hf_FAKE", "fakepass99", "fake-reg-pw"):
        assert secret not in shown
    for kept in ("lr = 1e-4   # not secret", "postgres://u:***@host/db", "/tmp/.cache/triton_cache", "HF_TOKEN"):
        assert kept in shown


@pytest.mark.parametrize(
    "text",
    [
        'env_vars = { A = "kept", HF_TOKEN = "s3cret" }',
        'env_vars.HF_TOKEN = "s3cret"',
        "[env_vars]\nHF_TOKEN = 's3cret'",
        '[env_vars]\n"HF_TOKEN" = "s3cret"',
        '[env_vars]\nHF_TOKEN = """\nfirst line\ns3cret\n"""',
        "[env_vars]\nHF_TOKEN = '''s3cret\n'''",
        '[env_vars]\nHF_TOKEN="s3cret \\" s3cret"',
        '[env_vars]\n# HF_TOKEN = "s3cret"',
        '[env_vars]\nHF_TOKEN = "s3cret',
        '[env_vars]\nAPIKEYS = ["s3cret", "s3cret"]',
        '[env_vars]\nhf_token = "s3cret"',
        '[env_vars]\nDB_PASS_MAIN = "s3cret"',
        '[env_vars]\nPROXY = "http://me:s3cret@proxy:3128"',
        '[env_vars]\nREMOTE = "https://s3crets3cret@host/x"',
        '[heartbeat]\nurl = "https://host/beat?team=a&token=s3cret"',
        '[env_vars]\nANY = "sk-s3crets3cret"',
        'x = [{ AWS_SECRET_ACCESS_KEY = "s3cret" }]',
    ],
)
def test_a_secret_is_hidden_however_it_is_written(text: str) -> None:
    assert "s3cret" not in mask_secrets(text)


@pytest.mark.parametrize(
    "key", ["fused_lm_head_token_chunk_size", "deepep_token_chunk_size", "max_steps", "TRITON_CACHE_DIR", "lr"]
)
def test_ordinary_keys_do_not_smell(key: str) -> None:
    assert not smells_of_secret(key)
    assert mask_secrets(f"{key} = 8192") == f"{key} = 8192"


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_PLAIN_KEYS = st.sampled_from(["lr", "name", "DATA_DIR", "max_norm", "a b", "x.y"])
_SECRET_KEYS = st.sampled_from(["HF_TOKEN", "WANDB_API_KEY", "password", "MY_SECRET_2", "DB_PASSWD"])


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(_PLAIN_KEYS, st.integers() | st.booleans()), st.dictionaries(_SECRET_KEYS, _WORDS), st.booleans()
)
def test_masked_toml_is_toml_with_only_the_secrets_changed(
    write: Callable[[Any], str], plain: dict[str, Any], secret: dict[str, str], inline: bool
) -> None:
    document = {"env_vars": plain | secret} if inline else plain | secret
    shown = tomllib.loads(mask_secrets(write(document)))
    masked = plain | dict.fromkeys(secret, "***")
    assert shown == ({"env_vars": masked} if inline else masked)


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_any_text_can_be_masked_and_masking_twice_changes_nothing_more(text: str) -> None:
    once = mask_secrets(text)
    assert mask_secrets(once) == once


@pytest.mark.parametrize(
    "piece", ["x", '\\"', "KEY", "a=[ ", "KEY=[ ", 'a="""\\', "a='''b=\"\"\"", "://a:b", "?KEY", " "]
)
def test_masking_takes_time_in_proportion_to_the_text(piece: str) -> None:
    seconds = []
    for letters in (16_000, 128_000):
        begun = time.process_time()
        mask_secrets(piece * (letters // len(piece)))
        seconds.append(time.process_time() - begun)
    # Eight times the text: a quadratic pattern would take 64 times as long.
    assert seconds[1] < 24 * seconds[0] + 0.2
